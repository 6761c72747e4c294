"""A stage of a pipeline that is tried in one process answers what real stages answer."""

import pytest
import torch
from distributed.dry_ranks import BATCH, LENGTH, VOCABULARY, WIDTH, Language, tokens
from distributed.dry_stages import MESHES, MICROBATCHES
from distributed.processes import checked, run_ranks
from releases import since
from torch.distributed.pipelining import Schedule1F1B

import flopsight
from flopsight.distributed.stages import layers_of
from flopsight.errors import FlopsightError

pytestmark = since((2, 12), "batches of tensors on meta over the fake process group")

FIGURES = ("params", "forward", "backward", "recompute", "activation_bytes", "comm", "calls")
TOTALS = ("params", "forward", "backward", "activation_bytes", "comm", "world")


def dry(mesh, rank):
    model = Language()
    optimizer = torch.optim.AdamW(model.parameters())
    return flopsight.count(
        model, (tokens(),), train=True, optimizer=optimizer, mesh=mesh, rank=rank, accumulate=MICROBATCHES
    )


@pytest.mark.parametrize("size", MESHES)
def test_every_figure_of_a_stage_is_the_real_rank_s(size):
    jobs = run_ranks("distributed.dry_stages", size)
    for name, mesh in MESHES[size].items():
        for rank, real in enumerate(checked(jobs, name)):
            tried = dry(mesh, rank)

            assert {f: getattr(tried, f) for f in TOTALS} == {f: getattr(real, f) for f in TOTALS}
            assert tried.peak_bytes == pytest.approx(
                real.peak_bytes, rel=0.005
            )  # gloo holds what it sends a moment longer
            rows = {node.path: node for node in tried.walk()}
            for node in real.walk():
                found = rows.pop(node.path)
                assert {f: getattr(found, f) for f in FIGURES} == {f: getattr(node, f) for f in FIGURES}, node.path
            assert not [path for path, node in rows.items() if node.params or node.macs]


def test_stages_do_the_work_of_the_whole_and_send_what_they_make():
    tokens_in_batch = BATCH * LENGTH
    block = 12 * tokens_in_batch * WIDTH**2 + 2 * tokens_in_batch * LENGTH * WIDTH
    head, activations = tokens_in_batch * WIDTH * VOCABULARY, tokens_in_batch * WIDTH * 4

    first, last = (dry({"pp": 2}, rank) for rank in range(2))

    assert (first.macs, last.macs) == (MICROBATCHES * 2 * block, MICROBATCHES * (block + head))
    assert first.params + last.params == sum(parameter.numel() for parameter in Language().parameters())
    assert [(row.op, row.phase, row.calls, row.bytes) for row in first.comm] == [
        ("send", "forward", MICROBATCHES, MICROBATCHES * activations),
        ("recv", "backward", MICROBATCHES, 0),
    ]
    assert first.whole.macs == last.whole.macs == first.macs + last.macs


def test_stages_send_the_parts_of_sequences_that_they_have():
    part = BATCH * LENGTH // 2 * WIDTH * 4

    profile = flopsight.count(Language(), (tokens(),), train=True, mesh={"pp": 2, "cp": 2}, accumulate=MICROBATCHES)

    assert [row.bytes for row in profile.comm if row.op == "send"] == [MICROBATCHES * part]


def test_the_model_and_torch_s_schedules_stay_as_they_were(no_trace):
    model = Language()
    before = {kind: dict(vars(kind)) for kind in Schedule1F1B.__mro__}

    with no_trace(model):
        flopsight.count(model, (tokens(),), train=True, mesh={"pp": 2}, checkpoint="full")

    assert len(model.layers) == 3
    assert {kind: dict(vars(kind)) for kind in Schedule1F1B.__mro__} == before
    assert not torch.distributed.is_initialized()


def test_layers_are_shared_out_with_embedding_and_head_as_one_each():
    assert [len(stage) for stage in layers_of(126, 16)] == [7, *[8] * 14, 7]
    assert [list(stage) for stage in layers_of(3, 2)] == [[0, 1], [2]]
    assert [len(stage) for stage in layers_of(3, 5)] == [0, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("model", "mesh", "said"),
    [
        (
            Language,
            {"pp": 6},
            "pp=6 has more stages than this model has layers: 3 repeated blocks, an embedding and a head",
        ),
        (lambda: torch.nn.Embedding(50, 4), {"pp": 2}, "pp divides a model between its repeated blocks"),
    ],
)
def test_a_pipeline_that_does_not_fit_is_refused_in_one_sentence(model, mesh, said):
    with pytest.raises(FlopsightError) as refused:
        flopsight.count(model(), (tokens(),), train=True, mesh=mesh)

    assert said in str(refused.value)
