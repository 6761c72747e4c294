"""Which meshes are tried, how a batch is divided, and what is refused."""

from math import prod

import pytest

from flopsight.analysis.plan.mesh_search import Shape, batch_splits, check_shape, meshes
from flopsight.errors import InputError

LLAMA = Shape(depth=80, heads=64, key_value_heads=8, seq=8192)


def test_every_mesh_uses_all_gpus_and_keeps_tensor_parallel_inside_a_node():
    found = list(meshes(64, 8, LLAMA))

    assert {prod(mesh.values()) for mesh in found} == {64}
    assert {mesh.get("tp", 1) for mesh in found} == {1, 2, 4, 8}
    assert {"fsdp": 64} in found and {"dp": 8, "fsdp": 8} in found and {"pp": 8, "tp": 8} in found
    assert len(found) == len({tuple(mesh.items()) for mesh in found})


def test_heads_that_do_not_divide_are_not_tried():
    assert {mesh.get("tp", 1) for mesh in meshes(8, 8, Shape(depth=12, heads=12, key_value_heads=12))} == {1, 2, 4}


def test_a_model_without_heads_gets_data_parallel_meshes_alone():
    assert list(meshes(8, 8, Shape(depth=16))) == [{"fsdp": 8}, {"dp": 8}]


def test_experts_and_long_sequences_open_their_axes():
    experts = {mesh.get("ep", 1) for mesh in meshes(8, 8, Shape(32, 32, 8, experts=8))}
    long = {mesh.get("cp", 1) for mesh in meshes(8, 8, Shape(32, 32, 8, seq=131072))}

    assert experts == {1, 2, 4, 8}
    assert long == {1, 2, 4, 8}


def test_a_sequence_that_ranks_do_not_divide_is_not_tried():
    assert {mesh.get("cp", 1) for mesh in meshes(8, 8, Shape(32, 32, 8, seq=65538))} == {1, 2}


def test_a_batch_is_divided_over_replicas_into_micro_batches():
    assert batch_splits(64, 8, 1, None, None) == [(1, 8), (2, 4), (4, 2), (8, 1)]
    assert batch_splits(64, 8, 1, 2, None) == [(2, 4)]
    assert batch_splits(64, 7, 1, None, None) == []
    assert len(batch_splits(10**12, 1, 1, None, None)) == 13 * 13  # 2**a * 5**b, with a and b from 0 to 12
    assert batch_splits(None, 8, 4, 2, None) == [(2, 16)]


@pytest.mark.parametrize(
    ("mesh", "gpus", "shape", "said"),
    [
        ({"fsdp": 8, "tp": 4}, 64, LLAMA, r"fsdp=8,tp=4 has 32 ranks, and there are 64 GPUs: give --gpus 32"),
        (
            {"tp": 3},
            3,
            LLAMA,
            r"tp=3 does not divide the 64 attention heads of this model; these do: 2, 4, 8\.",
        ),
        ({"tp": 16}, 16, LLAMA, r"tp=16 does not divide the 8 key-value heads"),
        (
            {"tp": 2},
            2,
            Shape(18, 8, 1),
            r"tp=2 does not divide the 1 key-value heads .*; these do: none, so leave tp out\.",
        ),
        ({"cp": 2}, 2, Shape(4, seq=7919), r"a sequence of 7,919 tokens; these do: none, so leave cp out\."),
        ({"tp": 2}, 2, Shape(depth=4), r"has none that are known; leave tp out"),
        ({"pp": 8}, 8, Shape(depth=4, heads=4), r"pp=8 needs at least 8 blocks, and this model has 4"),
        ({"ep": 8}, 8, LLAMA, r"ep=8 divides experts, and this model has none"),
        ({"ep": 3}, 3, Shape(4, 4, 4, experts=8), r"ep=3 does not divide the 8 experts .*: 2, 4, 8"),
    ],
)
def test_a_mesh_that_does_not_divide_is_refused_with_numbers(mesh, gpus, shape, said):
    with pytest.raises(InputError, match=said):
        check_shape(mesh, gpus, shape)
