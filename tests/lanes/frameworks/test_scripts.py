"""Scripts that train with a framework, under `flopsight run` and without a callback: nothing in them knows of us."""

import importlib.util
import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import lightning.pytorch  # noqa: F401 - it replaces torch.compile for good, so it comes before any test
import pytest
import torch
from lanes.frameworks.arithmetic import llama_macs, resnet_macs
from script.running import start
from torch.nn import functional as F

import flopsight

SCRIPTS = Path(__file__).parent / "scripts"
STEP = 3


@cache
def run(script, *words, flags=None):
    """A script of ours; with flags, under `flopsight run`."""
    ours = [] if flags is None else ["-m", "flopsight", "run", *flags]
    with TemporaryDirectory() as folder:
        quiet = os.environ | {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
        done = start([*ours, SCRIPTS / script, *words], folder, env=quiet)
    assert done.code == 0, done.err[-2000:]
    return done


def profiled(script, *words):
    return run(script, *words, flags=("--step", str(STEP)))


@cache
def module(script):
    spec = importlib.util.spec_from_file_location(Path(script).stem, SCRIPTS / script)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def told(done):
    """What the script says of its training; the Trainer's own lines hold how long things took."""
    return [line for line in done.out.splitlines() if "_per_second" not in line]


def counted_llama():
    it = module("trainer.py")
    batch = {name: torch.stack([row[name] for row in it.rows(it.BATCH)]) for name in ("input_ids", "labels")}
    return flopsight.count(it.make_model().train(), kwargs=batch, train=True)


def counted_resnet():
    it = module("classifier.py")
    ((images, labels),) = it.batches(1, 1)
    return flopsight.count(it.ResNet(), (images,), train=True, loss=lambda scores: F.cross_entropy(scores, labels))


CASES = [
    ("trainer.py",),
    ("trainer.py", "--accumulate", "2"),
    ("trainer.py", "--evaluate-every", "3"),
    ("classifier.py",),
    ("classifier.py", "--accumulate", "3"),
]


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_the_training_is_the_same_to_the_last_digit(words):
    plain = told(run(*words))

    assert len(plain) >= 8
    assert told(profiled(*words)) == plain


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_every_module_costs_what_count_says_forward_and_backward(words):
    expected = counted_llama() if words[0] == "trainer.py" else counted_resnet()
    batches = int(words[2]) if "--accumulate" in words else 1

    found = profiled(*words).profile

    modules = [node for node in expected.walk() if node.path not in ("", "<outside>")]
    assert found.params == expected.params
    assert found.root.kind == expected.root.kind
    for node in modules:
        mine = found[node.path]
        assert (mine.forward, mine.calls) == (node.forward * batches, node.calls * batches), node.path
        assert mine.backward.macs == node.backward.macs * batches, node.path
        if batches == 1:  # else gradients are added up, too
            assert mine.backward == node.backward, node.path
    assert found.batch_size == 4 * batches


def test_gradients_of_later_batches_are_added_to_those_of_the_first():
    once, thrice = (profiled("classifier.py", *words).profile for words in ((), ("--accumulate", "3")))

    added = thrice["head"].backward.flops - 3 * once["head"].backward.flops
    it = module("classifier.py")
    assert added == 2 * (it.WIDTH * it.CLASSES + it.CLASSES)


def test_what_the_models_cost_is_their_arithmetic():
    it = module("classifier.py")

    assert profiled("trainer.py").profile.macs == llama_macs(16)
    assert profiled("classifier.py").profile.macs == resnet_macs(it.SIZE)
    assert profiled("classifier.py", "--accumulate", "3").profile.macs == 3 * resnet_macs(it.SIZE)


def test_the_optimizers_phase_is_there():
    """AdamW does 7 operations a weight, 8 with decay, which only Lightning's script has; clipping squares and scales."""
    for words in CASES:
        profile = profiled(*words).profile
        a_weight = 2 + (7 if words[0] == "trainer.py" else 8)
        assert profile.optimizer.flops // profile.params == a_weight, "what is over is a few operations a tensor"
        assert profile.timing.optimizer.median > 0
        assert profile.root.optimizer_bytes >= 2 * 4 * profile.params


def test_an_evaluation_is_no_part_of_a_step():
    """The one that follows step 2 lies between it and step 3, so step 4 is shown; that after step 1 is over by then."""
    moved, kept = (profiled("trainer.py", "--evaluate-every", every).profile for every in ("3", "2"))

    assert (kept.step, moved.step) == (3, 4)
    assert [caveat for caveat in moved.caveats if "as a validation does" in str(caveat)]
    for profile in (moved, kept):
        assert profile.macs == llama_macs(16)


def test_the_step_that_is_counted_is_the_one_that_was_asked_for():
    """Every batch is larger than the one before, so that the work says which step it was."""
    llama, resnet = (profiled(script, "--growing").profile for script in ("trainer.py", "classifier.py"))

    assert (llama.step, resnet.step) == (STEP, STEP)
    assert llama.macs == llama_macs(8 + STEP)
    assert resnet.macs == resnet_macs(module("classifier.py").SIZE + STEP)


def test_a_step_of_several_batches_is_the_one_that_was_asked_for():
    """With two batches a step, step 3 has the seventh and the eighth."""
    llama = profiled("trainer.py", "--growing", "--accumulate", "2").profile
    resnet = profiled("classifier.py", "--growing", "--accumulate", "2").profile
    side = module("classifier.py").SIZE

    assert llama.macs == llama_macs(8 + 2 * STEP) + llama_macs(8 + 2 * STEP + 1)
    assert resnet.macs == resnet_macs(side + 2 * STEP) + resnet_macs(side + 2 * STEP + 1)
