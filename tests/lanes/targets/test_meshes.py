"""Models of transformers on a mesh that is tried in one process answer what real ranks answer."""

import pytest
from distributed.processes import checked, run_ranks
from mesh_jobs import MESHES, inputs, model_of

import flopsight
from flopsight.errors import FlopsightError

FIGURES = ("params", "macs", "flops", "backward", "activation_bytes", "comm")


@pytest.mark.parametrize("size", MESHES)
def test_every_row_of_a_dry_run_is_the_real_rank_s(size):
    jobs = run_ranks("mesh_jobs", size)
    for name, mesh in MESHES[size].items():
        for rank, real in enumerate(checked(jobs, name)):
            tried = flopsight.count(model_of(name), kwargs=inputs(), train=True, mesh=mesh, rank=rank)

            rows = {node.path: node for node in tried.walk()}
            differ = [
                (node.path, figure, getattr(node, figure), getattr(rows[node.path], figure))
                for node in real.walk()
                for figure in FIGURES
                if getattr(node, figure) != getattr(rows[node.path], figure)
            ]
            assert not differ, (name, rank, differ)
            assert tried.peak_bytes == pytest.approx(real.peak_bytes, rel=0.02), name


def test_ranks_of_experts_have_a_part_of_them_and_the_work_of_their_own_tokens():
    model = model_of("mixtral")
    experts = sum(p.numel() for path, p in model.named_parameters() if ".experts." in path)
    size = sum(p.numel() for p in model.parameters())

    profile = flopsight.count(model, kwargs=inputs(), train=True, mesh={"ep": 4}, rank=3)

    assert profile.params == size - experts + experts // 4
    assert profile.macs == profile.whole.macs
    tokens_sent = 2 * 16 * 4 * 32 * 4  # two sequences of 16 tokens, each to four experts, 32 wide, in float32
    exchanged = sum(row.bytes for row in profile.comm if row.op == "all_to_all" and row.phase == "backward")
    assert exchanged == 2 * 2 * tokens_sent  # there and back, in two blocks
    assert profile.world.mesh == {"ep": 4}


@pytest.mark.parametrize(
    ("name", "mesh", "said"),
    [
        ("mixtral", {"ep": 3}, "ep=3 does not divide the 4 experts of this model; these do: 2, 4."),
        ("mixtral", {"tp": 3}, "tp=3 does not divide the 4 attention heads of this model; these do: 2."),
        ("qwen3", {"ep": 2}, "this model brings none; leave ep out"),
    ],
)
def test_a_mesh_that_does_not_divide_a_model_is_refused_with_the_numbers(name, mesh, said):
    with pytest.raises(FlopsightError) as refused:
        flopsight.count(model_of(name), kwargs=inputs(), train=True, mesh=mesh)

    assert said in str(refused.value)
