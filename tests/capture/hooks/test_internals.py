"""The private torch APIs, and the names for what releases do differently."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

import flopsight
from flopsight.capture.hooks import internals

aten = torch.ops.aten


class Tally(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = 0
        self.weight = [0] * 1000

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen += 1
        return func(*args, **(kwargs or {}))


def test_a_mode_that_only_the_stack_holds_survives_being_taken_off_and_put_back():
    """Up to 2.10 torch frees such a mode while it is popped, and the interpreter crashes at its next use."""
    _push_mode(Tally())
    try:
        for _ in range(20):
            with internals.without_modes():
                [Tally() for _ in range(20)]
        torch.ones(2)

        assert torch._C._get_dispatch_stack_at(0).seen >= 1
    finally:
        with internals.modes_held():
            _pop_mode()


def test_a_mode_is_brought_to_the_top_past_one_that_only_the_stack_holds():
    ours = Tally()
    _push_mode(ours)
    _push_mode(Tally())
    try:
        assert internals.bring_to_top(ours)
        assert _pop_mode() is ours
        torch.ones(2)
        assert torch._C._get_dispatch_stack_at(0).seen >= 1
    finally:
        with internals.modes_held():
            _pop_mode()


def test_a_table_by_name_leaves_out_the_ops_that_this_torch_does_not_have():
    assert internals.by_op({"aten.mm.default": 1, "aten.no_such_op.default": 2, "aten.mm.no_such": 3}) == {
        aten.mm.default: 1
    }


def test_reductions_and_pointwise_ops_are_known_on_every_release():
    assert all(
        map(internals.is_reduction, (aten.sum.dim_IntList, aten.mean.default, aten.max.dim, aten.argmax.default))
    )
    assert all(map(internals.is_pointwise, (aten.add.Tensor, aten.leaky_relu.default, aten.ldexp.Tensor)))
    assert not internals.is_reduction(aten.mm.default)
    assert not internals.is_pointwise(aten.mm.default)


def test_a_mode_that_a_model_leaves_on_when_it_raises_can_be_popped_and_used_afterwards():
    """Up to 2.10 torch frees it while it is popped, and the interpreter crashes: a checkpoint that raises leaves one."""

    class Leaves(torch.nn.Module):
        def forward(self, x):
            _push_mode(Tally())
            raise KeyError("raised in the forward")

    with pytest.raises(KeyError):
        flopsight.count(Leaves(), (torch.ones(2),))

    left = _pop_mode()
    [Tally() for _ in range(20)]
    with left:
        torch.ones(2)
    assert left.seen == 1
