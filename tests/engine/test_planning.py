"""flopsight.plan: extension against whole counts, closed forms, ranking, files and refusals."""

import json
from dataclasses import replace

import pytest
import torch
from releases import with_compiled_peaks
from torch import nn

import flopsight
from flopsight import cli
from flopsight.engine.block_counts import BlockCounts
from flopsight.errors import FlopsightError, InputError, ProfileFileError
from flopsight.render.plan_page import least_that_fits
from flopsight.results.plan import Plan
from flopsight.zoo import factory

PHASES = ("forward", "backward", "recompute")


@pytest.fixture(scope="module", name="plan")
def _plan():
    return flopsight.plan("zoo:gpt2", gpus=8, on="h100-sxm", batch=64)


@pytest.mark.parametrize("checkpoint", ["none", "selective", "full"])
@pytest.mark.parametrize("target", ["zoo:gpt2", "zoo:bert-large", "zoo:resnet18"])
def test_one_and_two_blocks_extended_equal_the_whole_count(target, checkpoint):
    counts = BlockCounts(target, seq=None, input_shape=None, dtype="bfloat16")

    work, whole = counts.workload(2, checkpoint), counts._counted(2, checkpoint, {})

    assert {phase: work.cost(phase) for phase in PHASES} == {phase: getattr(whole, phase) for phase in PHASES}
    assert (work.params, work.saved) == (whole.params, whole.activation_bytes)


def test_a_model_counted_whole_holds_at_the_end_all_gradients_and_what_is_there_then():
    wide, middle, narrow, samples = 256, 512, 128, 16
    model = nn.Sequential(nn.Linear(wide, middle, bias=False), nn.Linear(middle, narrow, bias=False))

    best = flopsight.plan(
        model, gpus=1, on="h100-sxm", batch=samples, micro_batch=samples, input_shape=(1, wide), mesh={"dp": 1},
        precision="fp32", optimizer="sgd", assume={"fragments": 0},
    ).best  # fmt: skip

    weights = 4 * (wide * middle + middle * narrow)
    # the second layer's input is gone by then; its gradient, the outputs, their sum and its gradient are there
    alive = 4 * (samples * middle + samples * narrow + 2)
    assert best.memory["inputs"] == 4 * samples * wide
    assert best.peak_bytes == 2 * weights + best.memory["inputs"] + alive


def test_the_model_is_built_once_and_its_blocks_are_put_back():
    counts = BlockCounts("zoo:gpt2", seq=None, input_shape=None, dtype="bfloat16")
    before = {name: id(module) for name, module in counts._model.named_modules()}

    counts.workload(1, "full")

    assert {name: id(module) for name, module in counts._model.named_modules()} == before


def test_options_are_ranked_and_best_is_the_fastest_that_fits(plan):
    fitting = [option.samples_per_second for option in plan.options if option.fits]

    assert fitting == sorted(fitting, reverse=True)
    assert [option.fits for option in plan.options] == sorted((option.fits for option in plan.options), reverse=True)
    assert plan.best is plan.options[0]
    for option in plan.options:
        replicas = option.mesh.get("dp", 1) * option.mesh.get("fsdp", 1)
        assert option.micro_batch * option.accumulate * replicas == option.samples == 64


def test_figures_of_an_option_follow_from_its_step(plan):
    best = plan.best

    assert best.step == pytest.approx(sum(best.parts.values()))
    assert best.tokens == 64 * 128
    assert best.tokens_per_second_per_gpu == pytest.approx(64 * 128 / best.step / 8)
    assert best.mfu == pytest.approx(best.model_flops / best.step / 8 / 989.4e12)
    assert best.tflops_per_gpu == pytest.approx(best.model_flops / best.step / 8 / 1e12)


def test_what_is_given_is_fixed():
    plan = flopsight.plan(
        "zoo:gpt2", gpus=4, on="a100-sxm4-80", mesh={"fsdp": 4, "tp": 1}, micro_batch=2, accumulate=3, checkpoint="full"
    )

    (only,) = plan.options
    assert (only.mesh_text, only.micro_batch, only.accumulate, only.checkpoint) == ("fsdp=4", 2, 3, "full")
    assert only.samples == 2 * 3 * 4


def test_images_are_planned_by_samples():
    plan = flopsight.plan("zoo:resnet18", gpus=2, on="a100-sxm4-80", batch=64, checkpoint="none")

    assert plan.best.tokens_per_second_per_gpu is None
    assert plan.best.samples_per_second > 0
    assert "samples/s" in str(plan)


def test_a_model_without_blocks_has_one_way_of_checkpointing():
    layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    found = flopsight.plan(layers, gpus=2, on="h100-sxm", batch=4096, input_shape=(1, 64), mesh={"dp": 2})

    assert {option.checkpoint for option in found.options} == {"none"}
    # the second product's input, which is also what ReLU keeps, in bfloat16; the first one's is the model's input
    assert found.best.memory["activations"] == found.best.micro_batch * 128 * 2
    with pytest.raises(FlopsightError, match="the model has none"):
        flopsight.plan(layers, gpus=2, on="h100-sxm", batch=4096, input_shape=(1, 64), checkpoint="full")


def test_what_does_not_fit_is_last_and_says_by_how_much():
    plan = flopsight.plan("zoo:gpt2", gpus=1, on="h100-sxm", micro_batch=4096)

    best = plan.best
    assert not best.fits
    assert "does not fit" in best.why and "too much" in best.why
    assert "Nothing fits" in str(plan)


def test_the_least_that_fits_holds_one_copy_of_what_lasts():
    """1.6 TB on each of 8 replicas are 1.6 TB once; beside 10 GB that come and go, 60 GB have room for 50: 32 GPUs."""
    memory = {"parameters": 1600 * 10**9, "activations": 10 * 10**9}
    best = flopsight.plan("zoo:gpt2", gpus=1, on="h100-sxm", micro_batch=1, checkpoint="none").best
    large = replace(best, mesh={"dp": 8}, gpus=8, memory=memory, room=60 * 10**9)

    assert least_that_fits(large).startswith("about 32 GPUs would hold it")
    tight = replace(large, memory={"activations": 70 * 10**9}, checkpoint="full")
    assert least_that_fits(tight).endswith("take a shorter sequence or more tp or cp")
    assert least_that_fits(replace(tight, checkpoint="none")).endswith(
        "a shorter sequence, more tp or cp or checkpoint=full"
    )


def test_an_assumption_can_be_overridden():
    slow, fast = (
        flopsight.plan("zoo:gpt2", gpus=1, on="h100-sxm", micro_batch=8, checkpoint="none", assume=assumed)
        for assumed in ({"products": 0.25, "kernel": 0}, {"products": 0.5, "kernel": 0})
    )

    assert slow.best.parts["products"] == pytest.approx(2 * fast.best.parts["products"])
    assert any("25% of the peak in products" in line for line in slow.best.assumptions)


def test_a_plan_saves_loads_and_shows(plan, tmp_path, capsys):
    for name in ("plan.json", "plan.html", "plan.txt"):
        assert plan.save(tmp_path / name).exists()

    loaded = flopsight.load(tmp_path / "plan.json")
    assert loaded == plan and isinstance(loaded, Plan)
    assert cli.main(["show", str(tmp_path / "plan.json")]) == 0
    assert capsys.readouterr().out == f"{plan}\n"
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "predicted step" in page and plan.best.mesh_text in page


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--on", "a100-sxm4-80"], "A plan for H100 SXM5 80GB is drawn without --on: leave it out."),
        (["--depth", "1", "--full"], "A plan for H100 SXM5 80GB is drawn without --depth and --full: leave them out."),
        (["-f", "markdown"], "A plan is not drawn as markdown: leave -f out, or write a page with -o plan.html."),
    ],
)
def test_what_would_change_nothing_of_a_saved_plan_is_refused(plan, tmp_path, capsys, given, said):
    path = plan.save(tmp_path / "plan.json")

    assert cli.main(["show", str(path), *given]) == 2
    assert said in capsys.readouterr().err


def test_a_damaged_plan_and_a_plan_in_the_place_of_a_profile_are_refused(plan, tmp_path, capsys):
    path = plan.save(tmp_path / "plan.json")
    page = json.loads(path.read_text(encoding="utf-8"))
    (tmp_path / "bad.json").write_text(json.dumps(page | {"plan": page["plan"] | {"options": []}}), encoding="utf-8")

    with pytest.raises(ProfileFileError, match=r"options is empty"):
        flopsight.load(tmp_path / "bad.json")
    assert cli.main(["check", str(path), "--max", "flops=1G"]) == 2
    assert cli.main(["advise", str(path)]) == 2
    assert "is a plan" in capsys.readouterr().err


def test_every_time_is_labelled_as_predicted(plan):
    for line in str(plan).splitlines():
        if " s a step" in line or "tokens/s a GPU" in line:
            assert "predicted" in line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"batch": 7, "mesh": {"fsdp": 8}},
            r"A batch of 7 cannot be divided on the mesh fsdp=8: 8 ranks .* multiple of 8",
        ),
        ({"precision": "fp8"}, r"precision 'fp8' is not known"),
        ({"optimizer": "lion"}, r"optimizer 'lion' is not known here.*adamw"),
        ({"checkpoint": "half"}, r"checkpoint 'half'"),
        ({"fsdp": {"shard": 1}}, r"FSDP has no switch 'shard'"),
        ({"gpus": 0}, r"gpus must be a whole number"),
        ({"prompt": 4096}, r"prompt and new are for serving; add serve=True"),
        ({"on": "h1000"}, r"No device 'h1000'"),
        ({"on": None}, r"on is the name of a device, like 'h100-sxm', not None"),
        ({"on": "t4"}, r"has no bfloat16 peak of .*T4.*float16.*another precision, or name another device"),
        ({"between_nodes": "400"}, r"between_nodes is the Gbit/s .* above 0, not '400'"),
        ({"assume": {"attention": 0}}, r"The assumption attention is a number, above 0, not 0"),
        ({"assume": {"chunks": 0.5}}, r"The assumption chunks must be a whole number, 1 or more, not 0.5"),
        ({"assume": {"chunks": 1.9}}, r"The assumption chunks must be a whole number, 1 or more, not 1.9"),
        ({"batch": 10**30}, r"batch can be 1,000,000,000 at most, .*; take a smaller one"),
        ({"seq": 10**30}, r"seq can be 1,000,000,000 at most"),
        ({"micro_batch": 10**30}, r"micro_batch can be 1,000,000,000 at most"),
        ({"gpus": 10**30}, r"gpus can be 1,000,000 at most"),
        ({"gpus": (8, 10**5000)}, r"gpus can be 1,000,000 at most"),
        ({"serve": True, "micro_batch": 4, "seq": 64}, r"seq and micro_batch are for training; to serve, give prompt"),
        ({"serve": True, "compile": True, "optimizer": "sgd"}, r"compile and optimizer are for training; to serve"),
        ({"serve": True, "assume": {"chunks": 8}}, r"serving does not take chunks for granted, only products, reads"),
        ({"serve": True, "prompt": 0}, r"prompt must be a whole number, 1 or more, not 0"),
        ({"mesh": {"fsdp": "8"}}, r"axis 'fsdp' of the mesh needs a whole number of ranks above 0, not '8'"),
        ({"between_nodes": float("inf")}, r"between_nodes is the Gbit/s .* above 0, not inf"),
        ({"assume": 5}, r"assume is a dict of numbers by name, .*, not 5"),
        ({"compile": "no"}, r"compile is True or False, not 'no'"),
        ({"serve": "no"}, r"serve is True or False, not 'no'"),
        ({"gpus": 1, "batch": 64, "micro_batch": 3}, r"1 rank holds a sample of its own, so take a multiple of 3"),
        (
            {"mesh": {"cp": 8}, "input_shape": (1, 100)},
            r"cp=8 does not divide a sequence of 100 tokens; these do: 2, 4, 5",
        ),
        (
            {"mesh": {"fsdp": 8}, "batch": 64, "micro_batch": 4, "accumulate": 1},
            r"64 is not what the mesh fsdp=8 makes with micro-batch 4 and accumulation 1, which is 32: leave one",
        ),
        ({"mesh": {"tp": 4, "dp": 2}, "fsdp": {"offload": True}}, r"the mesh .*tp=4.* shards none; leave fsdp out"),
        ({"input_shape": 5}, r"input_shape is the shape of an input, .*, not 5"),
        ({"gpus": ()}, r"gpus is a number of GPUs, or several of them"),
        ({"gpus": (8, 0)}, r"gpus must be a whole number"),
        ({"gpus": (8, 16), "mesh": {"fsdp": 8}}, r"The mesh fsdp=8 has one number of ranks: give gpus=8 alone"),
    ],
)
def test_bad_input_is_one_sentence(options, said):
    with pytest.raises(FlopsightError, match=said):
        flopsight.plan("zoo:gpt2", **{"gpus": 8, "on": "h100-sxm", **options})


def test_an_axis_of_sequences_has_no_meaning_for_images():
    with pytest.raises(InputError, match=r"cp=8 divides sequences of tokens, and this model reads none; leave cp out"):
        flopsight.plan("zoo:resnet18", gpus=8, on="h100-sxm", mesh={"cp": 8})


OWN_INPUTS = """
import torch

def tokens():
    return torch.nn.Sequential(torch.nn.Embedding(10, 8), torch.nn.Linear(8, 10)), torch.zeros(2, 32, dtype=torch.int64)

def image():
    return torch.nn.Conv2d(3, 8, 3), torch.zeros(2, 3, 8, 8)
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tokens", r"tokens brings inputs of its own, of 32 tokens, which seq=64 would not change; leave out seq"),
        ("image", r"image reads no sequence of tokens; leave out seq"),
    ],
)
def test_a_length_that_would_change_no_input_is_refused(tmp_path, name, said):
    (tmp_path / "net.py").write_text(OWN_INPUTS)
    options = {"gpus": 8, "on": "h100-sxm", "micro_batch": 1}

    with pytest.raises(InputError, match=said):
        flopsight.plan(f"{tmp_path / 'net.py'}:{name}", seq=64, **options)

    assert flopsight.plan(f"{tmp_path / 'net.py'}:tokens", seq=32, **options).best.tokens == 8 * 32


def test_a_model_and_its_factory_are_planned_as_their_name_is_and_stay_as_they_were():
    options = {"gpus": 2, "on": "h100-sxm", "batch": 8, "checkpoint": "none", "input_shape": (1, 3, 224, 224)}
    model = factory("resnet18")().eval()
    before = {name: (id(value), value.device.type) for name, value in model.state_dict(keep_vars=True).items()}

    named, given, made = (flopsight.plan(one, **options) for one in ("zoo:resnet18", model, factory("resnet18")))

    assert named.options == given.options == made.options
    assert given.target == "ResNet"
    assert not model.training
    assert {name: (id(value), value.device.type) for name, value in model.state_dict(keep_vars=True).items()} == before


@pytest.mark.parametrize(
    ("given", "said"),
    [(3, "takes a target by its name.*a model or its factory, not 3"), (dict, r"dict\(\) returns no torch.nn.Module")],
)
def test_what_is_no_model_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        flopsight.plan(given, gpus=8, on="h100-sxm")


def test_several_numbers_of_gpus_are_ranked_by_the_speed_of_one():
    options = {"on": "h100-sxm", "micro_batch": 4, "checkpoint": "none"}
    alone = {gpus: flopsight.plan("zoo:gpt2", gpus=gpus, **options) for gpus in (1, 2)}

    both = flopsight.plan("zoo:gpt2", gpus=(2, 1), **options)

    assert (both.sizes, both.gpus) == ((1, 2), 2)
    assert {size: both.best_of(size) for size in both.sizes} == {size: plan.best for size, plan in alone.items()}
    speeds = [option.tokens_per_second_per_gpu for option in both.options]
    assert speeds == sorted(speeds, reverse=True)
    assert len(both.options) == sum(len(plan.options) for plan in alone.values())
    assert "on 1, 2 x H100" in str(both) and "Best of each number of GPUs" in str(both)


@pytest.mark.parametrize(
    ("said", "meant"), [("8-bit Adam", "adam8bit"), ("AdamW", "adamw"), ("8bit_adamw", "adamw8bit"), ("SGD", "sgd")]
)
def test_an_optimizer_is_known_by_other_spellings(said, meant):
    options = {"gpus": 1, "on": "h100-sxm", "micro_batch": 1, "checkpoint": "none"}

    assert flopsight.plan("zoo:gpt2", optimizer=said, **options).settings["optimizer"] == meant


def test_the_command_prints_the_table_and_writes_files(tmp_path, capsys):
    words = [
        "plan",
        "zoo:gpt2",
        "--gpus",
        "2",
        "--on",
        "h100-sxm",
        "--batch",
        "8",
        "--mesh",
        "fsdp=2",
        "--checkpoint",
        "none",
    ]

    assert cli.main([*words, "-o", str(tmp_path / "p.json")]) == 0

    out = capsys.readouterr().out
    assert "Best: fsdp=2" in out and "Assumed" in out
    assert flopsight.load(tmp_path / "p.json").best.mesh == {"fsdp": 2}
    assert cli.main([*words, "-o", str(tmp_path / "p.csv")]) == 2


def test_whole_parts_of_a_stage_may_be_written_as_floats():
    options = {"gpus": 2, "on": "h100-sxm", "mesh": {"pp": 2}, "micro_batch": 1, "checkpoint": "none"}
    plans = [flopsight.plan("zoo:gpt2", assume={"chunks": chunks}, **options) for chunks in (2, 2.0)]

    assert plans[0].options == plans[1].options
    assert any("2 parts a stage" in line for line in plans[0].best.assumptions)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--batch", "'' is not a whole number"),
        ("--seq", "'' is not a whole number"),
        ("--mesh", "'' is not an axis of a mesh"),
        ("--fsdp", "'' is not a switch of FSDP"),
        ("--assume", "'' is not an assumption"),
    ],
)
def test_an_empty_option_is_refused(option, said, capsys):
    assert cli.main(["plan", "zoo:gpt2", "--gpus", "2", "--on", "h100-sxm", option, ""]) == 2
    assert said in capsys.readouterr().err


class Stack(nn.Module):
    """Blocks of two products with two functions between them."""

    def __init__(self, breaks=False):
        super().__init__()
        self.stem, self.head = (nn.Linear(64, 64, bias=False) for _ in range(2))
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 256, bias=False), nn.GELU(), nn.SiLU(), nn.Linear(256, 64, bias=False))
            for _ in range(6)
        )
        self.breaks = breaks

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        if self.breaks:
            torch._dynamo.graph_break()
        return self.head(x).sum()


BLOCK = 256 + 256 + 64
"""Numbers that a compiled block keeps of a token: what GELU reads, and what each product reads; SiLU's input is made again."""


def compiled_plan(model, micro_batch, compile=True, checkpoint="none"):
    options = {"gpus": 1, "on": "h100-sxm", "mesh": {"dp": 1}, "input_shape": (1, 32, 64), "precision": "fp32"}
    return flopsight.plan(model, micro_batch=micro_batch, compile=compile, checkpoint=checkpoint, **options).best


@with_compiled_peaks
def test_a_compiled_plan_keeps_what_the_partitioner_keeps():
    best = compiled_plan(Stack(), 4)

    eager = compiled_plan(Stack(), 4, compile=False)
    assert best.memory["activations"] == 4 * (4 * 32) * (64 + 6 * BLOCK)  # the stem's output, and the blocks
    assert eager.memory["activations"] == 4 * (4 * 32) * (64 + 6 * (BLOCK + 256))
    assert any("torch's partitioner keeps" in line for line in best.assumptions)


@with_compiled_peaks
def test_a_third_micro_batch_lies_on_the_line_through_two():
    counts = BlockCounts(Stack(), seq=None, input_shape=(1, 32, 64), dtype="float32", compile=True)
    for micro_batch in (1, 2):
        counts.workload(micro_batch, "none")

    assert counts.workload(8, "none").saved == 4 * (8 * 32) * (64 + 6 * BLOCK)


@pytest.mark.parametrize(("model", "checkpoint"), [(Stack(breaks=True), "none"), (Stack(), "full")])
def test_what_cannot_be_traced_is_counted_as_eager_and_says_so(model, checkpoint):
    eager, best = (compiled_plan(model, 4, compiles, checkpoint) for compiles in (False, True))

    assert best.memory == eager.memory
    assert any("memory is that of the eager step" in line for line in best.assumptions)


def test_numbers_of_gpus_that_cannot_share_the_batch_are_named():
    found = flopsight.plan("zoo:gpt2", gpus=(2, 3), on="h100-sxm", batch=8, checkpoint="none")

    assert found.sizes == (2,)
    assert "left out 3 GPUs" in found.render()
    with pytest.raises(InputError, match="no option for 3 GPUs; it has some for 2"):
        found.best_of(3)


def test_a_stage_holds_half_of_the_blocks_and_the_table_of_words():
    found = flopsight.plan(
        "zoo:gpt2", gpus=2, on="h100-sxm", mesh={"pp": 2}, micro_batch=1, accumulate=8, checkpoint="none"
    )

    block = 4 * 768 + (768 * 2304 + 2304) + (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768
    assert found.best.memory["parameters"] == 4 * (6 * block + (50257 + 1024) * 768)
