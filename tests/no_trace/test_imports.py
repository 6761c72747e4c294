"""A module that is imported while torch is patched keeps torch's own functions, and never ours."""

import importlib
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import flopsight
from flopsight.capture.hooks.patches import module_calls

KEEPER = """
import torch
from torch import compile
from torch.autograd.graph import disable_saved_tensors_hooks

call = torch.nn.Module.__call__

class Keeps:
    call = torch.nn.Module.__call__
    table = {"call": torch.nn.Module.__call__}
"""


@pytest.fixture
def keeper(tmp_path, monkeypatch):
    """The name of a module that keeps functions of torch when it is imported."""
    (tmp_path / "keeps_functions.py").write_text(KEEPER)
    monkeypatch.syspath_prepend(tmp_path)
    yield "keeps_functions"
    sys.modules.pop("keeps_functions", None)


def plain():
    return nn.Module.__call__, torch.compile, torch.autograd.graph.disable_saved_tensors_hooks


def test_what_is_imported_inside_a_recording_keeps_the_functions_of_torch(keeper):
    before, finders = plain(), list(sys.meta_path)
    model = nn.Linear(8, 2)

    with flopsight.recording(model) as recording:
        found = importlib.import_module(keeper)
        model(torch.ones(4, 8))

    assert (found.call, found.compile, found.disable_saved_tensors_hooks) == before
    assert (found.Keeps.call, found.Keeps.table["call"]) == (before[0], before[0])
    assert plain() == before
    assert sys.meta_path == finders
    assert recording.profile.macs == 4 * 8 * 2, "the calls after the import are seen"


def test_what_a_forward_imports_keeps_the_functions_of_torch(keeper):
    class Imports(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 2)

        def forward(self, batch):
            importlib.import_module(keeper)
            return self.layer(batch)

    before = plain()

    profile = flopsight.count(Imports(), (torch.ones(4, 8),))

    assert sys.modules[keeper].call is before[0]
    assert profile["layer"].calls == 1


def test_an_import_on_another_thread_stops_no_watching_and_keeps_no_name_of_ours(keeper):
    before = plain()
    seen = []

    def watcher(call):
        def watched(module, *args, **kwargs):
            seen.append(type(module).__name__)
            return call(module, *args, **kwargs)

        return watched

    with module_calls(watcher):
        thread = threading.Thread(target=importlib.import_module, args=(keeper,))
        thread.start()
        thread.join()
        nn.Identity()(1)

    assert sys.modules[keeper].call is before[0]
    assert seen == ["Identity"]


FRESH = """
import gc, weakref
import torch, flopsight
plain = torch.nn.Module.__call__
model = torch.nn.Linear(8, 2)
profiler = flopsight.FlopsProfiler(model)
profiler.start_profile()
torch.compile(model, backend="eager")(torch.ones(4, 8))
profiler.end_profile()
import torch._dynamo
assert torch._dynamo.utils.unpatched_nn_module_call is plain
freed = weakref.ref(model)
del model, profiler
gc.collect()
assert freed() is None
"""


def test_the_compiler_that_is_first_imported_while_we_watch_knows_only_torch_and_the_model_is_freed():
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
