"""Every name resolves to its own row or to a sentence that says which rows it may mean."""

import pytest

from flopsight.errors import InputError
from flopsight.hardware.device_page import row_lines
from flopsight.hardware.named import datasheet, named_ceilings, named_device
from flopsight.hardware.peaks import devices

ROWS = devices()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_id_and_every_name_of_its_own_is_its_row(row):
    shared = {name.lower() for other in ROWS for name in other.shared_names}
    for name in (row.id, row.name, row.id.upper(), *row.names):
        if name.lower() not in shared:
            assert named_device(name).id == row.id


@pytest.mark.parametrize("name", sorted({name for row in ROWS for name in row.shared_names}))
def test_a_name_that_several_rows_bear_is_refused_with_their_ids(name):
    bearers = [row.id for row in ROWS if name in row.shared_names]
    if len(bearers) < 2:
        assert named_device(name).id == bearers[0]
        return
    with pytest.raises(InputError, match="ambiguous") as refused:
        named_device(name)
    assert all(bearer in str(refused.value) for bearer in bearers)


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("h100", ("h100-sxm", "h100-pcie", "h100-nvl")),
        ("a100", ("a100-sxm4-40", "a100-sxm4-80", "a100-pcie-40", "a100-pcie-80")),
        ("V100", ("v100-sxm2", "v100-pcie")),
    ],
)
def test_the_beginning_of_several_ids_is_ambiguous(name, ids):
    with pytest.raises(InputError, match="is ambiguous. Write one of: ") as refused:
        named_device(name)
    assert all(each in str(refused.value) for each in ids)


def test_the_beginning_of_one_id_is_that_device():
    assert named_device("gh200").id == "gh200-96"


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'h100-sxm'"):
        named_device("h100-smx")


def test_the_datasheets_ceilings_of_an_h100():
    ceilings = named_ceilings("h100-sxm")

    assert ceilings.flops["bfloat16"] == 989.4e12
    assert ceilings.bandwidth == 3.35e12
    assert ceilings.memory == 80 * 2**30
    assert ceilings.link == 450e9
    assert not ceilings.measured
    assert ceilings.flops["float32"] == 66.9e12
    assert ceilings.flops["float32/cudnn"] == 494.7e12
    assert named_ceilings("h100-sxm", tf32_products=True).flops["float32"] == 494.7e12


def test_an_amd_device_has_no_tf32_by_cudnn():
    assert "float32/cudnn" not in datasheet(named_device("mi300x")).flops


def test_a_row_prints_with_its_sources():
    page = "\n".join(row_lines(named_device("h100-sxm")))

    assert "bf16           989.4 TFLOP/s     A" in page
    assert "memory         80.0 GiB, grade A" in page
    assert "link           nvlink, 450 GB/s a direction" in page
    assert "STAS: stas00/ml-engineering" in page
    assert "FLOPSIGHT_PEAK_FLOPS" not in page
