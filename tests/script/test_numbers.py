"""What `flopsight run` counts of an unmodified script is what counting the same model by itself gives."""

import pytest
import torch
import torch.nn.functional as F
from script.running import module, plain, profiled
from torch import nn

import flopsight

TRAINED = ["vision.py", "language.py", "gan.py", "amp.py", "distillation.py", "compiled.py"]


def costs(node):
    """What counting gives below the root; into that goes what a script does to its data, too."""
    return {
        found.path: (found.calls, found.params, found.forward, found.backward, found.recompute, found.activation_bytes)
        for found in node.walk()
        if found.kind and found.path
    }


def macs(root, times=1):
    return {
        node.path: tuple(times * cost.macs for cost in (node.forward, node.backward, node.recompute))
        for node in root.walk()
    }


@pytest.mark.parametrize("script", [*TRAINED, "inference.py"])
def test_what_a_script_prints_is_the_same_to_the_last_digit(script):
    assert profiled(script).out == plain(script).out
    assert len(profiled(script).out.splitlines()) >= 8


@pytest.mark.parametrize("script", [*TRAINED, "inference.py"])
def test_one_profile_is_saved_and_its_text_goes_to_stderr(script):
    done = profiled(script)

    assert done.code == 0
    assert list(done.files) == [f"flopsight-{script.removesuffix('.py')}-step5.json"]
    assert done.said[-1].endswith(f"flopsight-{script.removesuffix('.py')}-step5.json")
    assert "Forward MACs" in done.err


def test_a_supervised_script_equals_a_training_step_of_its_model():
    model = module("vision.py").SmallResNet()
    labels = torch.zeros(4, dtype=torch.long)
    alone = flopsight.profile(
        model,
        (torch.randn(4, 3, 8, 8),),
        train=True,
        loss=lambda output: nn.CrossEntropyLoss()(output, labels),
        optimizer=torch.optim.AdamW(model.parameters()),
        repeats=1,
        warmup=1,
    )

    seen = profiled("vision.py").profile

    assert costs(seen.root) == costs(alone.root)
    assert macs(seen.root) == macs(alone.root)
    assert seen.flops == alone.flops
    assert seen.backward.flops == alone.backward.flops
    assert seen.optimizer.flops == alone.optimizer.flops > 0
    assert seen.batch_size == 4


def test_convolutions_of_the_supervised_script_by_hand():
    seen = profiled("vision.py").profile
    pixels = 4 * 8 * 8

    assert seen["stem.0"].macs == pixels * 8 * 3 * 9
    assert seen["block.0"].macs == pixels * 8 * 8 * 9
    assert seen["stem.0"].backward.macs == pixels * 8 * 3 * 9  # nobody wants the gradient of the images
    assert seen["block.0"].backward.macs == 2 * pixels * 8 * 8 * 9


def test_gradient_accumulation_is_one_step_of_several_forwards():
    script = module("language.py")
    ids = torch.zeros(script.BATCH, script.LENGTH, dtype=torch.long)
    alone = flopsight.count(script.TinyGPT(), (ids,), train=True)

    seen = profiled("language.py").profile

    assert macs(seen.root) == macs(alone.root, times=script.ACCUMULATE)
    assert seen.root.calls == script.ACCUMULATE
    assert seen.batch_size == script.ACCUMULATE * script.BATCH
    assert seen.tokens == script.ACCUMULATE * script.BATCH * script.LENGTH


def test_checkpointed_blocks_are_recomputed_and_nothing_else_is():
    seen = profiled("language.py").profile
    uncheckpointed = flopsight.count(
        module("language.py").TinyGPT(checkpointing=False), (torch.zeros(2, 12, dtype=torch.long),), train=True
    )

    assert seen.backward.macs == 3 * uncheckpointed.backward.macs
    # a checkpoint stops when it has what backward needs: the last layer of a block need not run again
    again = 3 * sum(2 * 12 * w for w in (16 * 48, 16 * 16, 16 * 64)) * 2 + 3 * 2 * 2 * (2 * 12 * 12 * 16)
    assert seen.recompute.macs == again
    assert seen["head"].recompute.macs == seen["embed"].recompute.macs == 0


def test_what_a_checkpoint_runs_again_is_no_forward_time():
    seen = profiled("language.py").profile

    assert seen["blocks"].latency < seen.root.latency


def test_a_gan_is_both_models_below_one_root():
    seen = profiled("gan.py").profile
    batch = 5

    forger = batch * (4 * 16 + 16 * 6)
    judge = batch * (6 * 16 + 16 * 1)
    assert seen.root.kind == "gan.py"
    assert seen["Generator"].macs == forger
    assert seen["Discriminator"].macs == 3 * judge  # real, forged and detached, forged
    assert seen["Generator"].backward.macs == 2 * forger - batch * 4 * 16  # noise needs no gradient
    assert (
        seen["Discriminator"].backward.macs == 3 * (2 * judge) - 2 * batch * 6 * 16
    )  # nor do images and detached ones
    assert seen["Generator"].optimizer.flops > 0
    assert seen["Discriminator"].optimizer.flops > 0
    assert seen.params == (4 * 16 + 16) + (16 * 6 + 6) + (6 * 16 + 16) + (16 + 1)
    assert seen.batch_size is None  # the two models disagree about what a sample is


def test_inference_is_one_forward():
    script = module("inference.py")
    with torch.inference_mode():
        alone = flopsight.count(script.Classifier().eval(), (torch.randn(7, 12),))

    seen = profiled("inference.py").profile

    assert costs(seen.root) == costs(alone.root)
    assert seen.macs == 7 * (12 * 24 + 24 * 24 + 24 * 3)
    assert not seen.trained
    assert seen.timing.optimizer is None


def test_a_teacher_is_counted_beside_its_student():
    seen = profiled("distillation.py").profile

    assert seen["Teacher"].macs == 5 * (6 * 32 + 32 * 4)
    assert seen["Student"].macs == 5 * (6 * 8 + 8 * 4)
    assert seen["Teacher"].backward.macs == 0
    assert seen["Student"].backward.macs == 2 * 5 * (6 * 8 + 8 * 4) - 5 * 6 * 8
    assert seen.step == 5  # every step calls the teacher, so none of them holds a validation
    assert seen.batch_size == 5


def test_mixed_precision_is_counted_in_the_dtype_that_it_ran_in():
    seen = profiled("amp.py").profile

    assert seen.macs == 6 * (8 * 32 + 32 * 4)
    (product,) = [row for row in seen["0"].ops if row.phase == "forward" and row.cost.macs]
    assert product.dtype == "bfloat16"


def test_a_compiled_model_is_counted_module_by_module_and_stays_compiled():
    done = profiled("compiled.py")

    assert done.profile.root.kind == "Net"
    assert done.profile["up"].macs == 3 * 6 * 10
    assert done.profile["down"].macs == 3 * 10 * 2
    assert done.out.splitlines()[-1] == "1 graphs"
    assert "ran as plain Python in step 5" in done.err


def test_a_window_shows_one_step_and_times_the_others():
    one, window = profiled("gan.py").profile, profiled("gan.py", flags=("--steps", "2-6")).profile

    assert costs(window.root) == costs(one.root)
    assert window.step == 2
    assert len(window.timing.step.samples) == 4  # the first of the five is the one that was counted


def test_loss_and_glue_are_outside_the_model():
    seen = profiled("distillation.py").profile
    student = module("distillation.py").Student()
    soft = torch.softmax(torch.randn(5, 4), -1)
    alone = flopsight.count(
        student,
        (torch.randn(5, 6),),
        train=True,
        loss=lambda out: F.kl_div(out.log_softmax(-1), soft, reduction="batchmean"),
    )

    softmax = 5 * 5 * 4
    assert seen.outside.forward.flops == alone.outside.forward.flops + softmax
