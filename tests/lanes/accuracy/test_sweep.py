"""Many architectures, trained for a step: nothing unknown, the twin agrees row by row, torch's counter where it is right."""

import pytest
from architectures import ARCHITECTURES
from sweep import result
from torch_counter import FAULTS

each = pytest.mark.parametrize("name", ARCHITECTURES)


def test_the_sweep_is_broad():
    assert len(ARCHITECTURES) >= 100
    assert {entry.library for entry in ARCHITECTURES.values()} == {
        "diffusers", "timm", "torch", "torchvision", "transformers",
    }  # fmt: skip


@each
def test_no_op_is_unknown(name):
    assert result(name).unknown == ()


@each
def test_macs_on_meta_are_the_real_ones_in_every_module_forward_and_backward(name):
    found = result(name)

    assert not found.no_twin
    assert not found.unexplained("macs")
    assert not found.inference_differences
    assert bool(found.no_twin_in_inference) == bool(ARCHITECTURES[name].no_inference_twin)


@each
def test_flops_and_bytes_on_meta_are_the_real_ones_or_differ_for_a_stated_reason(name):
    found = result(name)

    assert not found.unexplained("flops", "bytes")
    for reason in found.reasons:
        assert not reason.certain or any(reason.covers(one.column, one.kind, one.op) for one in found.differences), (
            f"{reason.name} is stale"
        )


@each
def test_macs_are_those_of_torchs_counter_or_the_difference_is_one_of_its_named_faults(name):
    found = result(name)

    assert found.torch_macs == found.torch_macs_from_our_records, "what torch's counter says can be told from our ops"
    assert set(found.missing_in_torch) <= set(FAULTS)
    assert found.total - found.torch_macs == sum(found.missing_in_torch.values())
