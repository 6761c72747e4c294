"""The table against vendors' figures typed here, and names against the rows they must or must not reach."""

import pytest

from flopsight.hardware.peaks import Ambiguous, Device, devices, lookup, peak, sources

GIB = 2**30

# Dense TFLOP/s as the vendors' public tables print them (sparse columns halved by the vendor's own footnote).
VENDOR_FIGURES = [
    ("Tesla V100-SXM2-16GB", "float16", 125),
    ("Tesla V100-SXM2-32GB", "float32", 15.7),
    ("Tesla V100-PCIE-32GB", "float16", 112),
    ("Tesla V100S-PCIE-32GB", "float16", 130),
    ("Tesla T4", "float16", 65),
    ("Tesla T4", "int8", 130),
    ("NVIDIA A10", "bfloat16", 125),
    ("NVIDIA A10G", "bfloat16", 70),
    ("NVIDIA A30", "bfloat16", 165),
    ("NVIDIA A40", "bfloat16", 149.7),
    ("NVIDIA A100-SXM4-40GB", "bfloat16", 312),
    ("NVIDIA A100-SXM4-80GB", "float16", 312),
    ("NVIDIA A100-SXM4-80GB", "float32", 19.5),
    ("NVIDIA A100-SXM4-80GB", "float64", 19.5),
    ("NVIDIA A100-SXM4-80GB", "int8", 624),
    ("NVIDIA A100 80GB PCIe", "bfloat16", 312),
    ("NVIDIA RTX A6000", "bfloat16", 154.8),
    ("NVIDIA GeForce RTX 3090", "bfloat16", 71.2),
    ("NVIDIA GeForce RTX 4090", "bfloat16", 165.2),
    ("NVIDIA GeForce RTX 4090", "float32", 82.6),
    ("NVIDIA GeForce RTX 5090", "bfloat16", 209.5),
    ("NVIDIA L4", "bfloat16", 121),
    ("NVIDIA L40", "bfloat16", 181.05),
    ("NVIDIA L40S", "bfloat16", 362.05),
    ("NVIDIA H100 80GB HBM3", "bfloat16", 989.4),
    ("NVIDIA H100 80GB HBM3", "float8_e4m3fn", 1978.9),
    ("NVIDIA H100 80GB HBM3", "float64", 66.9),
    ("NVIDIA H100 PCIe", "bfloat16", 756),
    ("NVIDIA H100 NVL", "bfloat16", 835.5),
    ("NVIDIA H200", "bfloat16", 989.4),
    ("NVIDIA H20", "bfloat16", 148),
    ("NVIDIA B200", "bfloat16", 2250),
    ("NVIDIA B200", "float4_e2m1fn_x2", 9000),
    ("NVIDIA GB200", "bfloat16", 2500),
    ("AMD Instinct MI210", "bfloat16", 181),
    ("AMD Instinct MI210", "float32", 45.3),
    ("AMD Instinct MI300X", "bfloat16", 1307.4),
    ("AMD Instinct MI300X", "float8_e4m3fnuz", 2614.9),
    ("AMD Instinct MI355X", "bfloat16", 2516.6),
    ("TPU v4", "bfloat16", 275),
    ("TPU v5e", "bfloat16", 197),
    ("TPU v5p", "bfloat16", 459),
    ("TPU v6e", "bfloat16", 918),
]

# What drivers print for each part, and the part.
DRIVER_NAMES = {
    "Tesla V100-SXM2-16GB": "v100-sxm2",
    "Tesla V100-SXM2-32GB": "v100-sxm2",
    "Tesla V100-PCIE-16GB": "v100-pcie",
    "Tesla V100-PCIE-32GB": "v100-pcie",
    "Tesla V100S-PCIE-32GB": "v100s-pcie",
    "Tesla T4": "t4",
    "NVIDIA T4": "t4",
    "NVIDIA A10": "a10",
    "NVIDIA A10G": "a10g",
    "NVIDIA A30": "a30",
    "NVIDIA A40": "a40",
    "NVIDIA A100-SXM4-40GB": "a100-sxm4-40",
    "NVIDIA A100-SXM4-80GB": "a100-sxm4-80",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40",
    "A100-PCIE-40GB": "a100-pcie-40",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80",
    "NVIDIA A800-SXM4-80GB": "a800-sxm4-80",
    "NVIDIA RTX A6000": "rtx-a6000",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA L4": "l4",
    "NVIDIA L40": "l40",
    "NVIDIA L40S": "l40s",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA H200 NVL": "h200-nvl",
    "NVIDIA H800": "h800-sxm",
    "NVIDIA H20": "h20",
    "NVIDIA GH200 480GB": "gh200-96",
    "NVIDIA B100": "b100",
    "NVIDIA B200": "b200",
    "NVIDIA GB200": "gb200",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA GB300": "gb300",
    "AMD Instinct MI210": "mi210",
    "AMD Instinct MI250X": "mi250x-gcd",
    "AMD Instinct MI300X": "mi300x",
    "AMD Instinct MI325X": "mi325x",
    "AMD Instinct MI325_OAM": "mi325x",
    "AMD Instinct MI350X": "mi350x",
    "AMD Instinct MI350_OAM": "mi350x",
    "AMD Instinct MI355X": "mi355x",
    "AMD Instinct MI355_OAM": "mi355x",
    "AMD Radeon RX 7900 XTX": "rx7900xtx",
    "Radeon RX 7900 XTX": "rx7900xtx",
    "GAUDI2": "gaudi2",
    "GAUDI3": "gaudi3",
    "Intel(R) Data Center GPU Max 1550": "pvc-1550-stack",
    "TPU v2": "tpu-v2",
    "TPU v3": "tpu-v3",
    "TPU v4": "tpu-v4",
    "TPU v5 lite": "tpu-v5e",
    "TPU v5e": "tpu-v5e",
    "TPU v5": "tpu-v5p",
    "TPU v5p": "tpu-v5p",
    "TPU v6 lite": "tpu-v6e",
    "TPU v6e": "tpu-v6e",
    "TPU7x": "tpu-v7x",
    "trn1": "trn1",
    "inf2": "inf2",
    "trn2": "trn2",
    "trn3": "trn3",
} | {f"Apple M{n}{tier}": f"apple-m{n}{tier.lower().replace(' ', '-')}"
     for n in (1, 2, 3, 4) for tier in ("", " Pro", " Max", " Ultra") if (n, tier) != (4, " Ultra")}  # fmt: skip

NOT_IN_THE_TABLE = [
    "",
    "NVIDIA",
    "NVIDIA H1000",
    "NVIDIA Z9000 SXM9",
    "Imaginary Accelerator",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 5090 Laptop GPU",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 5090 D",
    "NVIDIA GeForce RTX 3090 Ti",
    "NVIDIA GeForce RTX 3080 with Max-Q Design",
    "Quadro RTX 6000",
    "Quadro T4",
    "NVIDIA A10-24Q",
    "NVIDIA A40-48Q",
    "GRID V100D-32Q",
    "NVIDIA L4-24C",
    "NVIDIA L40G",
    "NVIDIA H20-3e",
    "NVIDIA GH200 144G HBM3e",
    "NVIDIA A100-SXM-64GB",
    "Tesla V100-SXM3-32GB-H",
    "Tesla V100-DGXS-32GB",
    "AMD Instinct MI250",
    "AMD Instinct MI300A",
    "AMD Radeon RX 7900 XT",
    "TPU v4 lite",
    "Apple M4 Ultra",
    "Apple M5",
    "Intel(R) Data Center GPU Max 1100",
    "AMD EPYC 9554 64-Core Processor",
]


@pytest.mark.parametrize(("name", "dtype", "tera"), VENDOR_FIGURES)
def test_the_table_has_the_vendors_dense_figure(name, dtype, tera):
    assert peak(found(name), dtype) == pytest.approx(tera * 1e12, rel=1e-3)


@pytest.mark.parametrize(("name", "row"), DRIVER_NAMES.items())
def test_a_drivers_name_reaches_its_own_row(name, row):
    assert found(name).id == row


def test_every_name_in_the_table_reaches_its_own_row_or_is_reported_as_ambiguous():
    for device in devices():
        for name in (device.id, device.name, *device.names):
            assert found(name).id == device.id
        for name in device.shared_names:
            assert device.id in {one.id for one in lookup(name).candidates}


def test_every_pattern_reaches_no_row_but_its_own():
    for device in devices():
        for name in device.names:
            assert [other.id for other in devices() if other.resembles(name) and other.id != device.id] == []


@pytest.mark.parametrize("name", NOT_IN_THE_TABLE)
def test_a_name_that_is_not_in_the_table_has_no_figure(name):
    assert lookup(name) is None


def test_the_table_lists_every_device_once():
    assert len(devices()) == len({device.id for device in devices()}) >= 70


def test_every_figure_has_a_value_a_grade_and_sources_that_are_cited_in_full():
    for device in devices():
        for figure in (*device.peaks.values(), device.bandwidth):
            assert figure.value > 0
            assert figure.grade in {"A", "B", "C"}
            assert figure.sources
            assert all(sources()[key].what for key in figure.sources), device.id


def test_units_times_clock_gives_the_listed_peak():
    checked = [device for device in devices() if device.derivation]
    for device in checked:
        how = device.derivation
        derived = how["units"] * how["clock_mhz"] * 1e6 * how["operations_per_clock"]
        assert device.peaks[how["dtype"]].value == pytest.approx(derived, rel=0.015), device.id
    assert len(checked) > 40


def test_no_listed_rate_is_a_sparse_one():
    """Half the bits at most double the rate, except in FP4 and on units cut on purpose; a 2:4 figure would show as four."""
    for device in devices():
        rates = {key: figure.value for key, figure in device.peaks.items()}
        if {"bf16", "fp8"} <= rates.keys() and device.vendor in {"nvidia", "amd"}:
            assert rates["fp8"] <= 2.05 * rates["bf16"], device.id
        if {"bf16", "tf32"} <= rates.keys() and device.vendor == "nvidia":
            assert rates["bf16"] <= 2.05 * rates["tf32"], device.id


@pytest.mark.parametrize(
    ("units", "memory", "row"),
    [(114, None, "h100-pcie"), (132, 79 * GIB, "h100-sxm"), (132, 93 * GIB, "h100-nvl"), (None, 93 * GIB, "h100-nvl")],
)
def test_a_bare_h100_is_settled_by_its_units_and_memory(units, memory, row):
    assert lookup("NVIDIA H100", compute_units=units, memory=memory).id == row


def test_a_bare_h100_is_ambiguous_and_names_its_candidates():
    answer = lookup("NVIDIA H100")

    assert isinstance(answer, Ambiguous)
    assert {device.id for device in answer.candidates} == {"h100-sxm", "h100-pcie", "h100-nvl"}
    assert "H100 PCIe 80GB (h100-pcie)" in str(answer)


@pytest.mark.parametrize(
    ("name", "units", "memory"),
    [
        ("NVIDIA H100", 132, 64 * GIB),
        ("NVIDIA A100-SXM4-40GB", 14, None),
        ("NVIDIA A100-SXM4-40GB", None, 5 * GIB),
        ("AMD Instinct MI300X", 38, 24 * GIB),
        ("NVIDIA GH200 480GB", 132, 143 * GIB),
    ],
)
def test_a_slice_or_variant_under_a_full_cards_name_gets_no_figure(name, units, memory):
    assert lookup(name, compute_units=units, memory=memory) is None


# total_memory as torch reports it: below the nameplate where ECC or the driver take their share.
@pytest.mark.parametrize(
    ("name", "units", "memory"),
    [
        ("Tesla T4", 40, int(14.56 * GIB)),
        ("Tesla V100-SXM2-32GB", 80, int(31.73 * GIB)),
        ("NVIDIA L4", 58, int(21.96 * GIB)),
        ("NVIDIA A10G", 80, int(22.06 * GIB)),
        ("NVIDIA A40", 84, int(44.42 * GIB)),
        ("NVIDIA A100-SXM4-40GB", 108, int(39.39 * GIB)),
        ("NVIDIA H100 80GB HBM3", 132, int(79.11 * GIB)),
        ("NVIDIA H200", 132, int(139.81 * GIB)),
        ("NVIDIA B200", 148, int(178.36 * GIB)),
        ("AMD Instinct MI250X", 110, int(63.98 * GIB)),
        ("AMD Radeon RX 7900 XTX", 48, int(23.98 * GIB)),
    ],
)
def test_what_torch_reports_of_a_full_card_fits_its_row(name, units, memory):
    assert lookup(name, compute_units=units, memory=memory).id == DRIVER_NAMES[name]


def test_one_torch_device_of_an_mi250x_is_half_of_the_package():
    gcd = found("AMD Instinct MI250X")

    assert peak(gcd, "bfloat16") == pytest.approx(383e12 / 2, rel=1e-3)
    assert gcd.bandwidth.value == pytest.approx(3.2768e12 / 2)


@pytest.mark.parametrize(
    ("name", "chip", "parts"), [("trn1", 190, 2), ("trn2", 667, 4), ("TPU v3", 123, 2), ("TPU7x", 2307, 2)]
)
def test_a_torch_device_that_is_part_of_a_chip_gets_its_part_of_the_peak(name, chip, parts):
    assert peak(found(name), "bfloat16") == pytest.approx(chip * 1e12 / parts)


def test_a_part_with_fewer_cores_under_the_same_name_gets_its_share():
    assert peak(lookup("Apple M1", compute_units=7), "float32") == pytest.approx(7 * 1.278e9 * 256, rel=0.005)
    assert peak(lookup("Apple M1", compute_units=8), "float32") == pytest.approx(8 * 1.278e9 * 256, rel=0.005)


def test_float32_runs_at_the_tf32_rate_only_where_the_caller_says_so():
    a100 = found("NVIDIA A100-SXM4-40GB")

    assert peak(a100, "float32") == 19.5e12
    assert peak(a100, "float32", tf32=True) == 156e12
    assert peak(found("Tesla V100-SXM2-16GB"), "float32", tf32=True) == 15.7e12  # it has no TF32


def test_float16_accumulation_doubles_the_rate_of_a_geforce():
    card = found("NVIDIA GeForce RTX 4090")

    assert peak(card, "float16", half_accumulation=True) == pytest.approx(2 * peak(card, "float16"), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "dtype"), [("Tesla V100-SXM2-16GB", "bfloat16"), ("NVIDIA A100-SXM4-40GB", "fp8"), ("Tesla T4", "bf16")]
)
def test_a_dtype_that_the_device_has_no_units_for_has_no_peak(name, dtype):
    assert peak(found(name), dtype) is None


def test_dtypes_may_be_spelled_as_users_do():
    h100 = found("NVIDIA H100 80GB HBM3")

    assert peak(h100, "bf16") == peak(h100, "torch.bfloat16") == peak(h100, "bfloat16") == 989.4e12


def found(name) -> Device:
    answer = lookup(name)
    assert isinstance(answer, Device), f"{name!r} gave {answer!r}"
    return answer
