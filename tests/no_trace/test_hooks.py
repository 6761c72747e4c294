"""A user's hooks are called when the user's model runs, with real tensors, and at no other time."""

import pytest
import torch
from no_trace.faces import FACES
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from toys import MACS, Net

import flopsight

X = torch.ones(4, 8)


class Log(list):
    """Notes every tensor that a hook sees, however deep; without memory it would be no real one."""

    def note(self, *seen):
        tensors = [t for value in seen for t in (value if isinstance(value, tuple) else (value,)) if t is not None]
        self.append(all(t.data_ptr() and type(t) in (torch.Tensor, nn.Parameter) for t in tensors))


HOOKS = {
    "forward hook": lambda m, log: m.up.register_forward_hook(lambda _m, args, out: log.note(args, out)),
    "forward pre-hook": lambda m, log: m.up.register_forward_pre_hook(lambda _m, args: log.note(args)),
    "hook on the model": lambda m, log: m.register_forward_hook(lambda _m, args, out: log.note(args, out)),
    "global hook": lambda m, log: nn.modules.module.register_module_forward_hook(
        lambda module, args, out: log.note(args, out) if module is m.up else None
    ),
    "global pre-hook": lambda m, log: nn.modules.module.register_module_forward_pre_hook(
        lambda module, args: log.note(args) if module is m.up else None
    ),
}
BACKWARD_HOOKS = {
    "full backward hook": lambda m, log: m.down.register_full_backward_hook(lambda _m, gin, gout: log.note(gin, gout)),
    "full backward pre-hook": lambda m, log: m.down.register_full_backward_pre_hook(lambda _m, gout: log.note(gout)),
    "hook of a parameter": lambda m, log: m.up.weight.register_hook(lambda grad: log.note(grad)),
    "hook after a gradient": lambda m, log: m.up.weight.register_post_accumulate_grad_hook(lambda p: log.note(p.grad)),
}
RUNS = {
    "count": (lambda m, train: flopsight.count(m, (X,), train=train), 1),
    "count on meta": (lambda m, train: flopsight.count(m, (X,), train=train, on="meta"), 1),
    # the count, which warms up, and for every repeat a plain run and a timed one; short runs have more
    "profile": (lambda m, train: flopsight.profile(m, (X,), train=train, warmup=1, repeats=3), 1 + 2 * 3),
    "profile without time": (lambda m, train: flopsight.profile(m, (X,), train=train, latency=False), 1),
}


class Counted(Net):
    """A model that knows how often it ran with data."""

    def __init__(self):
        super().__init__()
        self.runs = Runs()

    def forward(self, x):
        self.runs.made += bool(x.data_ptr())
        return super().forward(x)


class Runs:
    """A number that is not put back after a run, and that a copy shares."""

    made = 0

    def __deepcopy__(self, _memo):
        return self


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("hook", HOOKS)
def test_measuring_calls_a_hook_once_a_run_with_real_tensors(run, hook):
    model, log = Counted(), Log()
    measure, least = RUNS[run]
    handle = HOOKS[hook](model, log)

    try:
        profile = measure(model, False)
    finally:
        handle.remove()

    assert log == [True] * model.runs.made
    assert model.runs.made >= least
    assert profile.macs == MACS


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("hook", BACKWARD_HOOKS)
def test_training_calls_a_backward_hook_once_a_run_with_real_tensors(run, hook):
    model, log = Counted(), Log()
    measure, least = RUNS[run]
    if run == "count on meta" and hook.startswith("hook"):
        least = 0  # a twin's parameters are others, without hooks
    handle = BACKWARD_HOOKS[hook](model, log)

    try:
        measure(model, True)
    finally:
        handle.remove()

    assert log == [True] * model.runs.made
    assert model.runs.made >= least


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("hook", HOOKS | BACKWARD_HOOKS)
def test_a_profiled_forward_of_a_loop_calls_every_hook_as_often_as_without_us(face, hook):
    model, log = Net(), Log()
    handle = (HOOKS | BACKWARD_HOOKS)[hook](model, log)

    try:
        FACES[face](model, X).sum().backward()
    finally:
        handle.remove()

    assert log == [True]


def test_a_hook_that_changes_the_output_is_part_of_the_model():
    model = Net()
    model.up.register_forward_hook(lambda _m, _args, out: out @ torch.ones(16, 16))

    for profile in (flopsight.count(model, (X,)), flopsight.count(model, (X,), on="meta")):
        assert profile.macs == MACS + 4 * 16 * 16


def test_saved_tensor_hooks_around_us_see_the_user_s_tensors_only():
    log, model = Log(), Net()
    profiler = flopsight.FlopsProfiler(model)

    with torch.autograd.graph.saved_tensors_hooks(lambda t: (log.note(t), t)[1], lambda t: t):
        plain = model(X)
        alone = len(log)
        profiler.start_profile()
        model(X)
        profiler.stop_profile()
        flopsight.count(model, (X,), on="meta")

    assert log == [True] * 2 * alone
    assert profiler.get_total_macs() == MACS
    plain.sum().backward()


@pytest.mark.parametrize("face", [*FACES, "count"])
def test_saved_tensor_hooks_around_us_are_asked_also_while_we_count(face):
    model = Net()
    model.up.register_forward_hook(lambda *_: None)  # no twin: counted while it runs
    packed, unpacked = [], []
    halve = lambda t: (packed.append(1), t.to(torch.bfloat16))[1] if t.is_floating_point() else t
    restore = lambda t: (unpacked.append(1), t.float())[1] if t.is_floating_point() else t

    with torch.autograd.graph.saved_tensors_hooks(halve, restore):
        model(X)
        alone = len(packed)
        output = None if face == "count" else FACES[face](model, X)
        if face == "count":
            flopsight.count(model, (X,))

    assert len(packed) == 2 * alone > 0
    if output is not None:
        output.sum().backward()
        assert unpacked


def test_a_recording_around_a_count_keeps_the_books_of_what_the_user_saved():
    model = Net()

    with flopsight.recording(model) as alone:
        model(X)
    with flopsight.recording(model) as around:
        output = model(X)
        flopsight.count(model, (X,))
        del output

    assert around.profile.activation_bytes == alone.profile.activation_bytes > 0


class Ops(TorchDispatchMode):
    """The names of all ops that come by."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_dispatch_mode_around_us_sees_the_user_s_ops_only():
    model = Net()
    profiler = flopsight.FlopsProfiler(model)

    with Ops() as plain:
        model(X)
    with Ops() as profiled:
        profiler.start_profile()
        model(X)
        profiler.stop_profile()
    with Ops() as counted:
        flopsight.count(model, (X,))
    with Ops() as on_meta:
        flopsight.count(model, (X,), on="meta")

    assert profiled.seen == counted.seen == plain.seen
    assert on_meta.seen == []
    assert profiler.get_total_macs() == MACS
