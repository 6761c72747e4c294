"""Models that cannot have a twin are counted on real tensors, and the profile says why."""

import threading

import pytest
import torch
from torch import nn

import flopsight
from flopsight.results.caveats import NoTwin

X = torch.ones(4, 8)
MACS = 4 * 8 * 8


def why_no_twin(model, args=(X,), macs=MACS, **options):
    """What the profile gives as the reason; the count is right all the same."""
    profile = flopsight.count(model, args, on="meta", **options)
    assert profile.macs == macs
    return " ".join(doubt.why for doubt in profile.caveats if isinstance(doubt, NoTwin))


def test_a_plain_model_has_a_twin():
    assert not why_no_twin(nn.Linear(8, 8))


def test_a_users_hook_never_sees_a_meta_tensor():
    model = nn.Sequential(nn.Linear(8, 8))
    seen = []
    handle = model[0].register_forward_hook(lambda module, args, output: seen.append(output.device.type))

    why = why_no_twin(model)

    handle.remove()
    assert why.startswith("0 (Linear) has hooks")
    assert set(seen) == {"cpu"}


@pytest.mark.parametrize("kind", ["forward_pre_hook", "full_backward_hook"])
def test_other_hooks_speak_against_a_twin_too(kind):
    model = nn.Linear(8, 8)
    handle = getattr(model, f"register_{kind}")(lambda *_: None)

    assert "has hooks" in why_no_twin(model)
    handle.remove()


def test_global_hooks_speak_against_a_twin():
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)

    try:
        assert "global module hooks" in why_no_twin(nn.Linear(8, 8))
    finally:
        handle.remove()


def test_a_parallel_wrapper_has_no_twin():
    assert "is a parallel wrapper" in why_no_twin(nn.DataParallel(nn.Linear(8, 8)))


def test_a_scripted_module_has_no_twin():
    assert "TorchScript" in why_no_twin(torch.jit.script(nn.Linear(8, 8)))


def test_a_lazy_module_has_no_twin():
    assert "no shape before the first forward" in why_no_twin(nn.LazyLinear(8))


def test_a_replaced_forward_speaks_against_a_twin():
    model = nn.Linear(8, 8)
    plain = model.forward
    model.forward = lambda x: plain(x)

    assert "has its forward replaced" in why_no_twin(model)


class Holds(nn.Module):
    def __init__(self, thing):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.thing = thing

    def forward(self, x, *_others):
        return self.layer(x)


def test_an_attribute_that_cannot_be_copied_speaks_against_a_twin():
    assert "cannot be copied" in why_no_twin(Holds(threading.Lock()))


class Opaque:
    """Something that a forward could write into."""


@pytest.mark.parametrize(
    ("thing", "named"),
    [(Opaque(), "Opaque"), ([Opaque()], "Opaque"), (torch.ones(2, 2).to_sparse(), "sparse_coo")],
    ids=["object", "in a list", "sparse tensor"],
)
def test_an_input_that_the_twin_would_share_or_does_not_know_speaks_against_a_twin(thing, named):
    assert named in why_no_twin(Holds(None), (X, thing))


class Keeps(nn.Linear):
    def forward(self, x, keep):
        keep(x)
        return super().forward(x)


def test_a_function_that_the_user_hands_in_never_sees_a_meta_tensor():
    seen = []

    class Applies(nn.Linear):
        def forward(self, x, function):
            return function(super().forward(x))

    profile = flopsight.count(Applies(4, 3), (torch.ones(2, 4), lambda y: seen.append(y.device.type) or y), on="meta")
    kept = []
    flopsight.count(Keeps(4, 3), (torch.ones(2, 4), kept.append), on="meta")

    assert seen == [tensor.device.type for tensor in kept] == ["cpu"]
    assert profile.macs == 2 * 4 * 3
    assert any("an input is a function" in str(caveat) for caveat in profile.caveats)


def test_a_function_of_torchs_is_an_input_like_any_other():
    class Applies(nn.Linear):
        def forward(self, x, function):
            return function(super().forward(x))

    profile = flopsight.count(Applies(4, 3), (torch.ones(2, 4), nn.functional.gelu), on="meta")

    assert profile.caveats == ()
    assert profile.flops == 2 * (2 * 4 * 3) + 2 * 3 + 2 * 3


def test_a_model_that_cannot_run_without_data_is_counted_with_it():
    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            made = self.layer(x)
            return made + float(made.detach().numpy().mean())

    assert "does not run on meta (Unknowable: Tensor.numpy needs values" in why_no_twin(Looks())


@pytest.mark.parametrize("train", [False, True])
def test_counting_on_a_twin_leaves_no_trace(train, no_trace):
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 8)).train()
    optimizer = torch.optim.Adam(model.parameters()) if train else None

    with no_trace(model):
        profile = flopsight.count(model, (X,), train=train, optimizer=optimizer, on="meta")

    assert not profile.caveats
    assert not (optimizer and optimizer.state)
