"""Every op lands in the module and phase that it belongs to: one small model for each difficulty.

All linears are D x D on N rows, so one forward is X MACs, and a full backward (input and weight gradient) 2 X.
"""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)

import flopsight

N, D = 4, 16
X = N * D * D


def linear():
    return nn.Linear(D, D)


def rows(grad=True):
    return torch.randn(N, D, requires_grad=grad)


def train(model, x, **options):
    return flopsight.count(model, args=(x,), train=True, **options)


def macs(profile, phase="forward"):
    """MACs of the subtree by path, where there are any."""
    return {node.path: getattr(node, phase).macs for node in profile.walk() if getattr(node, phase).macs}


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = linear(), linear()

    def forward(self, x):
        return self.b(self.a(x))


def test_every_linear_gets_its_own_forward_and_backward():
    profile = train(Two(), rows())

    assert macs(profile) == {"": 2 * X, "a": X, "b": X}
    assert macs(profile, "backward") == {"": 4 * X, "a": 2 * X, "b": 2 * X}


def test_a_first_layer_whose_input_needs_no_gradient_has_half_the_backward():
    assert macs(train(Two(), rows(grad=False)), "backward") == {"": 3 * X, "a": X, "b": 2 * X}


def test_a_branch_on_an_input_without_gradient_is_not_charged_to_its_neighbour():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = linear(), linear(), linear()

        def forward(self, x):
            return self.b(self.a(x)) + self.c(x)

    assert macs(train(Branches(), rows(grad=False)), "backward") == {"": 4 * X, "a": X, "b": 2 * X, "c": X}


def test_inputs_by_keyword_and_outputs_in_a_dataclass_do_not_hide_a_module():
    @dataclass
    class Out:
        hidden: torch.Tensor

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = linear()

        def forward(self, *, hidden):
            return Out(self.layer(hidden))

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last = Inner(), linear()

        def forward(self, x):
            return self.last(self.inner(hidden=x).hidden)

    profile = train(Outer(), rows())

    assert macs(profile, "backward") == {"": 4 * X, "inner": 2 * X, "inner.layer": 2 * X, "last": 2 * X}
    assert profile["inner"].input_shapes == ((N, D),)
    assert profile["inner"].output_shapes == ((N, D),)


def test_a_module_called_three_times_is_counted_three_times():
    class Thrice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = linear()

        def forward(self, x):
            return self.layer(self.layer(self.layer(x)))

    profile = train(Thrice(), rows())

    assert macs(profile) == {"": 3 * X, "layer": 3 * X}
    assert macs(profile, "backward") == {"": 6 * X, "layer": 6 * X}
    assert profile["layer"].calls == 3
    assert profile.params == D * D + D


def test_a_shared_module_is_counted_once_per_call_under_the_parent_that_called_it():
    class Parent(nn.Module):
        def __init__(self, shared):
            super().__init__()
            self.shared = shared

        def forward(self, x):
            return self.shared(x)

    class Three(nn.Module):
        def __init__(self):
            super().__init__()
            shared = linear()
            self.a, self.b, self.c = Parent(shared), Parent(shared), Parent(shared)

        def forward(self, x):
            return self.c(self.b(self.a(x)))

    profile = train(Three(), rows())

    assert macs(profile) == {"": 3 * X} | {f"{p}{c}": X for p in "abc" for c in ("", ".shared")}
    assert [profile[f"{p}.shared"].params for p in "abc"] == [D * D + D] * 3
    assert profile.params == D * D + D


def test_a_module_that_calls_itself_is_counted_once_per_call():
    class Recursive(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = linear()

        def forward(self, x, times=2):
            hidden = self.layer(x)
            if times:
                hidden = self(hidden, times - 1)
            return self.layer(hidden)

    profile = train(Recursive(), rows())

    assert macs(profile) == {"": 6 * X, "layer": 6 * X}
    assert macs(profile, "backward") == {"": 12 * X, "layer": 12 * X}
    assert profile.root.calls == 3


def test_an_output_that_the_loss_does_not_use_has_no_backward():
    class TwoOutputs(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = linear(), linear()

        def forward(self, x):
            return self.a(x), self.b(x)

    profile = flopsight.count(TwoOutputs(), args=(rows(),), train=True, loss=lambda out: out[0].sum())

    assert macs(profile, "backward") == {"": 2 * X, "a": 2 * X}


def test_in_place_activations_and_residuals_stay_where_they_are():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.act, self.b = linear(), nn.ReLU(inplace=True), linear()

        def forward(self, x):
            hidden = self.a(x)
            self.act(hidden)
            return hidden + self.b(hidden)

    profile = train(nn.Sequential(Block(), Block()), rows())

    assert macs(profile, "backward")["0"] == macs(profile, "backward")["1"] == 4 * X
    assert profile["0.act"].own.backward.flops == N * D
    assert profile["0"].own.flops == N * D  # the residual sum


def test_frozen_layers_only_pass_the_gradient_on():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = linear().requires_grad_(False), linear(), linear().requires_grad_(False)

        def forward(self, x):
            return self.c(self.b(self.a(x)))

    profile = train(Frozen(), rows(grad=False))

    assert macs(profile, "backward") == {"": 2 * X, "b": X, "c": X}
    assert profile.params == 3 * (D * D + D)
    assert profile.trainable_params == D * D + D


class Checkpointed(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.first, self.second, self.how = Two(), Two(), how

    def forward(self, x):
        return checkpoint(self.second, checkpoint(self.first, x, **self.how), **self.how)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_block_is_recomputed_and_its_backward_is_not_changed(reentrant):
    with set_checkpoint_early_stop(False):
        profile = train(Checkpointed(use_reentrant=reentrant), rows())

    each = {"first": 2, "first.a": 1, "first.b": 1, "second": 2, "second.a": 1, "second.b": 1}
    assert macs(profile) == {"": 4 * X} | {path: n * X for path, n in each.items()}
    assert macs(profile, "recompute") == {"": 4 * X} | {path: n * X for path, n in each.items()}
    assert macs(profile, "backward") == {"": 8 * X} | {path: 2 * n * X for path, n in each.items()}


def test_an_early_stop_leaves_out_the_last_product_whose_result_nobody_needs():
    profile = train(Checkpointed(use_reentrant=False), rows())

    # The inputs of the second linear are all that backward needs, so its product is not run again.
    assert macs(profile, "recompute") == {"": 2 * X, "first": X, "first.a": X, "second": X, "second.a": X}


def test_selective_checkpointing_recomputes_only_what_was_dropped():
    def keep_products(_ctx, op, *_args, **_kwargs):
        products = (torch.ops.aten.addmm.default, torch.ops.aten.mm.default)
        return CheckpointPolicy.MUST_SAVE if op in products else CheckpointPolicy.PREFER_RECOMPUTE

    class Selective(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(linear(), nn.GELU(), linear())

        def forward(self, x):
            contexts = lambda: create_selective_checkpoint_contexts(keep_products)
            return checkpoint(self.block, x, use_reentrant=False, context_fn=contexts)

    with set_checkpoint_early_stop(False):
        profile = train(Selective(), rows())

    assert macs(profile, "recompute") == {}
    assert profile["block.1"].recompute.flops == N * D
    assert macs(profile, "backward") == {"": 4 * X, "block": 4 * X, "block.0": 2 * X, "block.2": 2 * X}


def test_a_checkpointed_function_is_recomputed_in_the_module_that_called_it():
    class Function(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = linear(), linear()

        def inner(self, x):
            return self.b(F.gelu(self.a(x)) @ self.a.weight)

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    with set_checkpoint_early_stop(False):
        profile = train(nn.Sequential(Function()), rows())

    assert profile["0"].own.macs == profile["0"].own.recompute.macs == X
    assert profile["0"].own.backward.macs == 2 * X
    assert profile["0"].own.recompute.flops == 2 * X + N * D


def test_double_backward_goes_to_the_modules_that_made_the_graph():
    model = Two()
    x = rows()
    with flopsight.recording(model) as r:
        (gradient,) = torch.autograd.grad(model(x).pow(2).sum(), x, create_graph=True)
        gradient.pow(2).sum().backward()

    # First backward: g @ W, X a linear. Second: that product's two gradients, and the two of the linear itself.
    assert macs(r.profile) == {"": 2 * X, "a": X, "b": X}
    assert macs(r.profile, "backward") == {"": 10 * X, "a": 5 * X, "b": 5 * X}


def test_gradients_asked_for_by_hand_are_backward():
    model, x = Two(), rows()
    with flopsight.recording(model) as r:
        torch.autograd.grad(model(x).sum(), x)

    assert macs(r.profile, "backward") == {"": 2 * X, "a": X, "b": X}


def test_two_losses_and_accumulated_gradients_add_up():
    model = Two()
    with flopsight.recording(model) as r:
        for _ in range(3):
            model(rows()).sum().backward()

    assert macs(r.profile) == {"": 6 * X, "a": 3 * X, "b": 3 * X}
    assert macs(r.profile, "backward") == {"": 12 * X, "a": 6 * X, "b": 6 * X}


def test_forward_called_by_hand_goes_to_the_owner_of_the_parameters_and_is_said():
    class ByHand(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = linear(), nn.Linear(D, D, bias=False)

        def forward(self, x):
            return F.relu(self.b.forward(self.a.forward(x)))

    profile = train(ByHand(), rows())

    assert macs(profile) == {"": 2 * X, "a": X, "b": X}
    assert macs(profile, "backward") == {"": 4 * X, "a": 2 * X, "b": 2 * X}
    assert profile.root.own.flops == N * D
    assert any("a, b" in str(caveat) and ".forward()" in str(caveat) for caveat in profile.caveats)


def test_a_weight_that_another_module_uses_is_charged_to_the_user_not_the_owner():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(10, D)
            self.head = nn.Linear(D, 10, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids):
            hidden = self.embedding(ids)
            return self.head(hidden) + F.linear(hidden, self.embedding.weight)

    profile = train(Tied(), torch.zeros(N, dtype=torch.int64))

    assert macs(profile) == {"": 2 * N * D * 10, "head": N * D * 10}
    assert profile.root.own.macs == N * D * 10
    assert (profile.params, profile["head"].params, profile["embedding"].params) == (10 * D, 10 * D, 10 * D)
    assert not any(".forward()" in str(caveat) for caveat in profile.caveats)


def test_an_exception_that_a_module_swallows_leaves_the_scope_right():
    class Bad(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = linear()

        def forward(self, x):
            self.layer(x)
            raise ValueError

    class Swallows(nn.Module):
        def __init__(self):
            super().__init__()
            self.bad, self.good = Bad(), linear()

        def forward(self, x):
            try:
                self.bad(x)
            except ValueError:
                pass
            return self.good(x)

    assert macs(train(Swallows(), rows())) == {"": 2 * X, "bad": X, "bad.layer": X, "good": X}


def test_containers_have_rows_and_uncalled_modules_say_so():
    class Lists(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([linear(), linear()])
            self.heads = nn.ModuleDict({"used": linear(), "spare": linear()})

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.heads["used"](x)

    profile = flopsight.count(Lists(), args=(rows(),))

    assert macs(profile) == {"": 3 * X, "layers": 2 * X, "layers.0": X, "layers.1": X, "heads": X, "heads.used": X}
    assert (profile["layers"].calls, profile["layers"].called) == (0, True)
    assert not profile["heads.spare"].called


def test_the_optimizer_works_in_the_modules_that_own_the_parameters():
    model = Two()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)

    for foreach in (False, True):
        sgd.param_groups[0]["foreach"] = foreach
        profile = train(model, rows(), optimizer=sgd)
        # One multiply-add an element, counted as one pointwise op.
        assert profile["a"].optimizer.flops == profile["b"].optimizer.flops == D * D + D
        assert profile.optimizer.flops == 2 * (D * D + D)


def test_what_runs_outside_every_module_has_a_row_of_its_own():
    model = Two()
    with flopsight.recording(model) as r:
        loss = (model(rows()) @ torch.randn(D, 3)).sum()
        loss.backward()

    assert r.profile["<outside>"].macs == N * D * 3
    assert r.profile["<outside>"].backward.macs == N * D * 3
    assert r.profile["a"].macs == X


def test_a_recording_without_a_model_finds_the_models_itself():
    with flopsight.recording() as one:
        Two()(rows())
    with flopsight.recording() as two:
        Two()(rows())
        linear()(rows())

    assert macs(one.profile) == {"": 2 * X, "a": X, "b": X}
    assert macs(two.profile) == {"": 3 * X, "Two": 2 * X, "Two.a": X, "Two.b": X, "Linear": X}


def test_vmap_of_grad_is_counted():
    model = linear()
    with flopsight.recording(model) as r:
        torch.vmap(torch.func.grad(lambda row: model(row).sum()))(rows(grad=False))

    assert r.profile.macs == X


class Forces(nn.Module):
    """An energy's gradient by the positions, as potentials and physics-informed networks take it in their forward."""

    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(8, 16, bias=False), nn.Linear(16, 1, bias=False)

    def forward(self, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(self.out(torch.tanh(self.inner(x))).sum(), x, create_graph=True)[0]


INNER, OUT = 4 * 8 * 16, 4 * 16 * 1


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_backward_that_a_forward_makes_is_backward_and_of_the_modules_it_goes_through(on):
    profile = flopsight.count(Forces(), (torch.ones(4, 8),), on=on)

    assert {n.path: n.backward.macs for n in profile.walk()} == {"": INNER + OUT, "inner": INNER, "out": OUT}
    assert profile.forward.macs == INNER + OUT
    assert not profile.recompute.macs


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_step_that_trains_on_such_a_gradient(on):
    profile = flopsight.count(Forces(), (torch.ones(4, 8),), on=on, train=True)

    # the forward's own backward; then for its product with `inner` both gradients, for that with `out` the weight's,
    # and through tanh the two gradients of the first layer's forward
    assert profile.backward.macs == (INNER + OUT) + 2 * INNER + OUT + 2 * INNER
    assert not profile.recompute.macs


def test_a_gradient_by_torch_func_inside_a_module_is_backward_too():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8, bias=False)

        def forward(self, x):
            return torch.func.grad(lambda rows: self.layer(rows).sum())(x)

    profile = flopsight.count(Inside(), (torch.ones(4, 8),))

    assert profile.forward.macs == profile.backward.macs == 4 * 8 * 8
    assert not profile.recompute.macs


def test_a_model_whose_part_refers_to_it_is_counted_by_the_names_that_end():
    class Part(nn.Module):
        def __init__(self, whole):
            super().__init__()
            self.layer, self.whole = nn.Linear(8, 4), whole

        def forward(self, x):
            return self.layer(x)

    model = nn.Sequential()
    model.add_module("part", Part(model))

    for on in ("real", "meta"):
        profile = flopsight.count(model, (torch.ones(2, 8),), train=True, on=on)

        assert profile["part.layer"].macs == profile.macs == 2 * 8 * 4
        assert [node.path for node in profile.walk() if node.path != "<outside>"] == ["", "part", "part.layer"]
