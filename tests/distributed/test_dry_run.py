"""A mesh that is tried in one process answers what real ranks answer."""

import copy

import pytest
import torch
from distributed.dry_ranks import BATCH, LENGTH, MESHES, OPTIONS, VOCABULARY, WIDTH, Fused, Language, tokens
from distributed.processes import checked, run_ranks
from releases import with_dry_runs
from torch import distributed, nn

import flopsight
from flopsight import cli
from flopsight.distributed.blocks import repeated_blocks
from flopsight.errors import FlopsightError

pytestmark = with_dry_runs

FIGURES = ("params", "forward", "backward", "recompute", "optimizer", "activation_bytes", "comm", "calls")
TOTALS = (
    "world",
    "params",
    "forward",
    "backward",
    "optimizer",
    "activation_bytes",
    "peak_bytes",
    "at_peak",
    "comm",
    "whole",
)
PEAK = {"peak_bytes", "at_peak"}
APART = {
    "fsdp_tp": PEAK,
    "fsdp_tp_selective": PEAK,
    "tp_bf16": {*PEAK, "whole"},
    "dp_bf16": {"whole"},
    "fsdp_bf16": {"whole"},
    "fsdp_bf16_full": {"whole"},
    "fsdp_bf16_reduced": {"whole"},
    "fsdp_accumulated": {*PEAK, "whole", "optimizer"},
    "tp_fused": {"whole"},
    "tp_gathered": PEAK,
}
"""What a real job shows otherwise.

Gloo's own thread holds the tensors of a collective a moment longer, which the peak shows where products are divided. The
whole of a job that casts is rebuilt without the casts, and that of attention which splits a rank's part does not run. A loop that is recorded has no peak, and its optimizer its state.
"""


@pytest.fixture(scope="module", name="jobs")
def _jobs():
    return run_ranks("distributed.dry_ranks", 4)


def dry(name, rank):
    model = Fused() if name == "tp_fused" else Language()
    if name.endswith("inference"):
        with torch.no_grad():
            return flopsight.count(model, (tokens(),), mesh=MESHES[name], rank=rank)
    optimizer = torch.optim.AdamW(model.parameters())
    job = {"mesh": MESHES[name], "rank": rank} | OPTIONS.get(name, {})
    return flopsight.count(model, (tokens(),), train=True, optimizer=optimizer, **job)


@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize("name", [name for name in MESHES if not name.endswith("inference")])
def test_every_figure_of_a_dry_run_is_the_real_rank_s(jobs, name, rank):
    real, tried = checked(jobs, name)[rank], dry(name, rank)

    apart = APART.get(name, set())
    assert not [f for f in TOTALS if f not in apart and getattr(real, f) != getattr(tried, f)]
    if real.peak_bytes is not None:
        held_longer = 0.1 if name == "tp_gathered" else 0.011  # whole results of its products travel
        assert tried.peak_bytes == pytest.approx(real.peak_bytes, rel=held_longer)
    assert tried.dry_run and not real.dry_run
    rows = {node.path: node for node in tried.walk()}
    assert list(rows) == [node.path for node in real.walk()]
    assert not [
        (node.path, figure)
        for node in real.walk()
        for figure in set(FIGURES) - apart
        if getattr(node, figure) != getattr(rows[node.path], figure)
    ]


def test_inference_keeps_the_root_gathered_as_every_forward_after_the_first_does(jobs):
    for rank, real in enumerate(checked(jobs, "hsdp_inference")):
        tried = dry("hsdp_inference", rank)

        assert (tried.comm, tried.forward, tried.params) == (real.comm, real.forward, real.params)
        assert tried.world == real.world
        assert tried.peak_bytes is not None


def test_tensor_parallel_ranks_do_a_quarter_of_the_blocks_and_all_of_the_head():
    tokens_in_batch = BATCH * LENGTH
    block = tokens_in_batch * (4 * WIDTH**2 + 8 * WIDTH**2) + 2 * tokens_in_batch * LENGTH * WIDTH
    head = tokens_in_batch * WIDTH * VOCABULARY

    profile = flopsight.count(Language(), (tokens(),), mesh={"tp": 4}, rank=3)

    assert profile.macs == 3 * block // 4 + head
    assert profile.whole.macs == 3 * block + head
    assert profile.world.model_parallel == 4


def test_parts_of_a_sequence_gather_keys_and_values_and_do_a_part_of_all_work():
    tokens_in_batch = BATCH * LENGTH
    block = tokens_in_batch * 12 * WIDTH**2 + 2 * tokens_in_batch * LENGTH * WIDTH
    head, keys_and_values = tokens_in_batch * WIDTH * VOCABULARY, 2 * tokens_in_batch * WIDTH * 4
    size = sum(parameter.numel() for parameter in Language().parameters())

    profile = flopsight.count(Language(), (tokens(),), train=True, mesh={"cp": 4})

    assert (profile.macs, profile.whole.macs) == ((3 * block + head) // 4, 3 * block + head)
    assert {(row.op, row.phase, row.bytes) for row in profile.comm} == {
        ("all_gather", "forward", 3 * keys_and_values // 4),
        ("reduce_scatter", "backward", 3 * keys_and_values),
        ("all_reduce", "backward", 4 * size),
    }
    assert (profile.params, profile.world.mesh, profile.world.model_parallel) == (size, {"cp": 4}, 4)
    assert "context parallel by closed form" in " ".join(map(str, profile.caveats))


def test_parts_of_a_sequence_shard_weights_together():
    size = sum(parameter.numel() for parameter in Language().parameters())
    job = {"train": True, "mesh": {"fsdp": 2, "cp": 2}}

    ranks = [flopsight.count(Language(), (tokens(),), **job, rank=rank) for rank in range(4)]

    assert sum(profile.params for profile in ranks) == size


def test_a_sequence_is_not_divided_for_a_model_without_torch_s_attention():
    with pytest.raises(FlopsightError, match="calls torch's scaled_dot_product_attention, and this one does not"):
        flopsight.count(nn.Embedding(VOCABULARY, 4), (tokens(),), train=True, mesh={"cp": 2})


def test_full_checkpointing_runs_every_block_again_up_to_its_last_product():
    tokens_in_batch = BATCH * LENGTH
    again = tokens_in_batch * (4 * WIDTH**2 + 4 * WIDTH**2) + 2 * tokens_in_batch * LENGTH * WIDTH
    block_s_input = tokens_in_batch * WIDTH * 4

    full = flopsight.count(Language(), (tokens(),), train=True, mesh={"fsdp": 4}, checkpoint="full")
    plain = flopsight.count(Language(), (tokens(),), train=True, mesh={"fsdp": 4})

    assert full.recompute.macs == 3 * again == full.whole.recompute.macs
    assert (full.macs, full.backward.macs) == (plain.macs, plain.backward.macs)
    assert full["layers.0"].activation_bytes == block_s_input
    assert full.peak_bytes < plain.peak_bytes


def test_selective_checkpointing_repeats_every_second_product_and_no_attention():
    kept_and_repeated = BATCH * LENGTH * (2 * WIDTH**2)  # k and o; `down` comes last, and nothing needs what it returns

    profile = flopsight.count(Language(), (tokens(),), train=True, mesh={"fsdp": 4}, checkpoint="selective")

    assert profile.recompute.macs == 3 * kept_and_repeated


def test_bf16_keeps_sixteen_bytes_a_parameter_and_gathers_two():
    model = Language().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    profile = flopsight.count(
        model, (tokens(),), train=True, optimizer=optimizer, mesh={"fsdp": 4}, precision="bf16", accumulate=2
    )
    steps = sum(4 for _ in model.parameters())
    gathered = sum(row.bytes for row in profile.comm if (row.op, row.phase) == ("all_gather", "forward"))

    held = [profile.at_peak[kind] for kind in ("parameters", "gradients", "optimizer")]
    assert sum(held) == 16 * (held[0] // 4) + steps
    assert gathered == 2 * 2 * (held[0] // 4)


def test_offloaded_shards_their_gradients_and_state_leave_the_device():
    def counted(**options):
        model = Language()
        optimizer = torch.optim.AdamW(model.parameters())
        return flopsight.count(model, (tokens(),), train=True, optimizer=optimizer, mesh={"fsdp": 4}, **options)

    here, away = counted(), counted(fsdp={"offload": True})

    moved = [here.at_peak[kind] for kind in ("parameters", "gradients", "optimizer")]
    assert away.peak_bytes == here.peak_bytes - sum(moved)
    assert not {"parameters", "gradients", "optimizer"} & set(away.at_peak)
    assert (away.comm, away.forward, away.params) == (here.comm, here.forward, here.params)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"checkpoint": "all"}, "checkpoint is 'all'; it can be none, full, selective."),
        ({"precision": "fp8"}, "precision is 'fp8'; it can be bf16."),
        ({"fsdp": {"reshart": False}}, "FSDP has no switch 'reshart' here. Did you mean 'reshard'?"),
        ({"fsdp": {"wrap": 0}}, "fsdp wrap must be a whole number, 1 or more, not 0."),
        ({"fsdp": {"reshard": 0}}, "fsdp reshard is True, False or a number of ranks above 1, not 0."),
        ({"fsdp": {"reshard": 3}}, "reshard=3 is not a part of fsdp=4; these are: 2, or say yes or no."),
        ({"tp_plan": {"head": "colwise"}}, "the mesh has no tp axis of two ranks or more"),
        ({"tp_plan": {"neck": "colwise"}, "mesh": {"tp": 4}}, "The plan for tp=4 names no layer of this model: neck."),
        (
            {"tp_plan": {"layers.*.up": "colwize"}, "mesh": {"tp": 4}},
            "divides layers.0.up (Linear) as 'colwize'. Did you mean 'colwise'?",
        ),
        ({"accumulate": 0}, "accumulate must be a whole number, 1 or more, not 0."),
        ({"fsdp": {"wrap": 2}, "mesh": {"tp": 4}}, "wrap of FSDP needs an fsdp axis of two ranks or more"),
        ({"checkpoint": "full", "mesh": None}, "checkpoint says how a job trains, and there is none: add a mesh"),
        ({"rank": 1, "mesh": None}, "rank=1 is one of a mesh, and there is none: add one"),
        ({"checkpoint": "full", "train": False}, "checkpoint would change nothing of a forward: add train=True"),
        ({"accumulate": 2, "checkpoint": "full", "train": False}, "checkpoint and accumulate would change nothing"),
    ],
)
def test_options_without_a_meaning_are_refused_in_one_sentence(asked, said):
    with pytest.raises(FlopsightError) as refused:
        flopsight.count(Language(), (tokens(),), **{"train": True, "mesh": {"fsdp": 4}} | asked)

    assert said in str(refused.value)


def test_a_rank_of_no_mesh_is_refused_on_the_command_line(capsys):
    assert cli.main(["profile", "zoo:lenet", "--rank", "1"]) == 2

    assert "--rank 1 is one of a mesh, and there is none: add one, like --mesh fsdp=8." in capsys.readouterr().err


def test_the_shards_of_all_ranks_are_the_model():
    profiles = [flopsight.count(Language(), (tokens(),), mesh={"fsdp": 4}, rank=rank) for rank in range(4)]

    assert sum(profile.params for profile in profiles) == sum(p.numel() for p in Language().parameters())
    assert {profile.whole.params for profile in profiles} == {sum(p.numel() for p in Language().parameters())}


def test_axes_of_one_rank_change_nothing():
    plain = flopsight.count(Language(), (tokens(),), train=True, mesh={"fsdp": 4})
    ones = flopsight.count(
        Language(), (tokens(),), train=True, mesh={"tp": 1, "pp": 1, "cp": 1, "ep": 1, "dp": 1, "fsdp": 4}
    )
    alone = flopsight.count(Language(), (tokens(),), train=True, mesh={"dp": 1})

    assert (plain.forward, plain.comm, plain.peak_bytes, plain.world) == (
        ones.forward,
        ones.comm,
        ones.peak_bytes,
        ones.world,
    )
    assert alone.world.size == 1
    assert not alone.comm


def test_the_model_and_the_process_stay_as_they_were(no_trace):
    model = Language()
    before = copy.deepcopy(model.state_dict())

    with no_trace(model):
        flopsight.count(model, (tokens(),), train=True, mesh={"fsdp": 2, "tp": 2})

    assert not distributed.is_initialized()
    assert {type(p) for p in model.parameters()} == {nn.Parameter}
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_model_that_raises_leaves_no_process_group():
    class Broken(Language):
        def forward(self, tokens):
            super().forward(tokens)
            raise RuntimeError("a fault of the model")

    with pytest.raises(RuntimeError, match="a fault of the model"):
        flopsight.count(Broken(), (tokens(),), mesh={"fsdp": 2})

    assert not distributed.is_initialized()


@pytest.mark.parametrize(
    ("mesh", "said"),
    [
        ({"fsdb": 2}, "no axis 'fsdb' of a mesh. Did you mean 'fsdp'?"),
        ({"tp": 0}, "The axis 'tp' of the mesh needs a whole number of ranks above 0, not 0."),
        ({"tp": True}, "not True"),
        ({"tp": 5}, "tp=5 does not divide layers.0.q: 24 is not a multiple of 5."),
        ({"cp": 3}, "cp=3 does not divide a sequence of 8 tokens; these do: 2, 4, 8."),
        (
            {"ep": 2},
            "ep=2 divides experts by a model's own plan (transformers' `_ep_plan`), and this model brings none",
        ),
        ({"ep": 2, "tp": 2}, "A dry run divides experts over ep=2 or every expert over tp=2, not both"),
        ({"dp": 2, "tp": 2}, "DistributedDataParallel would average tensors that tp divides, which it does not take"),
        ({"dp": 2, "ep": 2}, "shard them, with fsdp in the place of dp or beside cp"),
        ("fsdp=8", "not 'fsdp=8'"),
        ({}, 'A mesh is a dict of sizes by axis, like {"fsdp": 128, "tp": 8}'),
    ],
)
def test_a_mesh_without_a_meaning_is_refused_in_one_sentence(mesh, said):
    with pytest.raises(FlopsightError) as refused:
        flopsight.count(Language(), (tokens(),), mesh=mesh)

    assert said in str(refused.value)
    assert not distributed.is_initialized()


def test_a_rank_outside_the_mesh_and_a_model_without_a_plan_are_refused():
    with pytest.raises(FlopsightError, match="no rank 4 among the 4 of fsdp=4; ranks count from 0"):
        flopsight.count(Language(), (tokens(),), mesh={"fsdp": 4}, rank=4)
    with pytest.raises(FlopsightError, match="needs a plan that says which layers are divided"):
        flopsight.count(nn.Sequential(nn.Linear(8, 8)), (torch.ones(2, 8),), mesh={"tp": 2})


def test_blocks_are_the_outermost_members_of_lists_that_repeat():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
            self.stages = nn.ModuleList([nn.Sequential(Language(1), Language(1)), nn.Sequential(Language(2))])
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2)

    assert list(repeated_blocks(Net())) == ["stages.0.0", "stages.0.1", "stages.1.0.layers.0", "stages.1.0.layers.1",
                                            "encoder.layers.0", "encoder.layers.1"]  # fmt: skip


def _sequences() -> nn.Sequential:
    """Two blocks that are nn.Sequential, between layers that are not: 8 rows of 16 features."""
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)) for _ in range(2))
    return nn.Sequential(nn.Linear(16, 16), *blocks, nn.Linear(16, 4))


def test_sequences_that_repeat_are_blocks_if_no_other_class_does():
    assert list(repeated_blocks(_sequences())) == ["1", "2"]


def test_checkpoints_go_around_blocks_that_are_sequences():
    inputs = (torch.ones(8, 16),)
    counted = {
        how: flopsight.count(_sequences(), inputs, train=True, mesh={"fsdp": 2}, checkpoint=how)
        for how in ("none", "full")
    }

    assert counted["none"].recompute.macs == 0
    # the first product of each block; the second one's result is not needed, and torch stops before it
    assert counted["full"].recompute.macs == 2 * 8 * 16 * 32


def test_a_checkpoint_without_blocks_is_refused():
    with pytest.raises(FlopsightError, match="checkpoint='full' goes around repeated blocks, and the model has none"):
        flopsight.count(
            nn.Sequential(nn.Linear(8, 8)), (torch.ones(2, 8),), train=True, mesh={"fsdp": 2}, checkpoint="full"
        )


def test_the_only_member_of_a_list_is_a_block():
    profile = flopsight.count(Language(1), (tokens(),), train=True, mesh={"fsdp": 2, "tp": 2})

    assert list(repeated_blocks(Language(1))) == ["layers.0"]
    assert [row.calls for row in profile.comm if row.op == "all_gather"] == [2, 1]


def test_layers_of_gpt_2_are_divided_by_heads_and_columns():
    tokens_in_batch = BATCH * LENGTH
    block = 12 * tokens_in_batch * WIDTH**2 + 2 * tokens_in_batch * LENGTH * WIDTH
    head = tokens_in_batch * WIDTH * VOCABULARY

    profile = flopsight.count(Fused(), (tokens(),), train=True, mesh={"tp": 4})

    assert (profile.macs, profile.whole.macs) == (2 * block // 4 + head, 2 * block + head)
    sums = [(row.phase, row.calls, row.bytes) for row in profile.comm]
    assert sums == [(phase, 4, 4 * tokens_in_batch * WIDTH * 4) for phase in ("backward", "forward")]


def test_the_command_line_counts_a_rank(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["profile", "zoo:bert-base", "--train", "--mesh", "fsdp=4,dp=2", "--rank", "5", "-o", "rank.json"]

    assert cli.main(words) == 0

    assert "rank 5 of 8, dry run" in capsys.readouterr().out
    loaded = flopsight.load("rank.json")
    assert loaded.dry_run
    assert loaded.world.mesh == {"dp": 2, "fsdp": 4}


def test_the_command_line_says_how_a_job_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    job = ["profile", "zoo:bert-base", "--train", "--mesh", "fsdp=4", "-o", "rank.json"]
    how = [
        "--checkpoint",
        "full",
        "--precision",
        "bf16",
        "--accumulate",
        "2",
        "--fsdp",
        "reshard=no,reduce=fp32,wrap=2",
    ]

    assert cli.main([*job, *how]) == 0
    loaded = flopsight.load("rank.json")
    assert loaded.recompute.macs
    gathers = [(row.phase, row.calls) for row in loaded.comm if row.op == "all_gather"]
    assert gathers == [("forward", 2 * (12 // 2 + 1))]

    capsys.readouterr()
    assert cli.main([*job, "--fsdp", "wrap"]) == 2
    assert "'wrap' is not a switch of FSDP: write name=value" in capsys.readouterr().err


@pytest.mark.parametrize("ranks", [2, 4])
def test_inference_of_shards_needs_no_memory_for_what_is_gathered(ranks):
    """A table of a terabyte, more than any machine that runs this has."""
    model = nn.Sequential(nn.Embedding(2**28, 1024, device="meta"), nn.Linear(1024, 8, device="meta"))

    with torch.no_grad():
        profile = flopsight.count(model, (tokens(),), mesh={"fsdp": ranks})

    whole = 4 * (2**28 * 1024 + 1024 * 8 + 8)
    assert profile.environment.device == "meta"
    assert profile.at_peak["gathered"] == whole
    assert profile.at_peak["parameters"] == whole // ranks, "the root's shards stand beside what was gathered of them"
