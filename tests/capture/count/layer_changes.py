"""Every layer of torch.nn, with one thing of it changed: a recording after an equal layer ran, beside one in a cold process.

Run as a program it prints, as JSON, the comparisons that it made and those in which the two recordings differ:
`python layer_changes.py [EVERY [LAYER ...]]` makes one comparison of EVERY, of all layers or of those that are named.
"""

import copy
import inspect
import json
import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import asdict
from unittest.mock import patch

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.lazy import LazyModuleMixin

import flopsight

SMALL = {
    "kernel_size": 2, "nhead": 2, "num_heads": 2, "num_groups": 2, "output_size": 3, "upscale_factor": 2, "downscale_factor": 2,
    "block_size": 2, "padding": 1, "num_layers": 1, "threshold": 0.1, "value": 0.2, "in_channels": 4, "out_channels": 4,
    "num_channels": 4, "num_features": 4, "cutoffs": [2, 5], "n_classes": 8, "scale_factor": 2, "output_ratio": 0.5,
    "dim_feedforward": 8, "num_encoder_layers": 1, "num_decoder_layers": 1, "unflattened_size": (2, 4), "dim": 1,
}  # fmt: skip
"""Arguments by name; any other that a constructor asks for is `WIDTH`."""
WIDTH, EDGE = 8, 4
WORDS = ("zeros", "circular", "reflect", "mean", "sum", "none", "tanh", "nearest")
FUNCTIONS = (F.relu, torch.tanh)


def tensors() -> list[tuple[torch.Tensor, ...]]:
    """Inputs that one layer or another takes; the first that it runs on is its own."""
    plain = [torch.rand(3, *(EDGE,) * n) for n in (1, 2, 3, 4)]
    wide = [torch.rand(3, WIDTH), torch.rand(2, 3, WIDTH)]
    ids = torch.tensor([[1, 2, 3], [3, 1, 0]])
    single = [(x,) for x in (*wide, *plain, ids)]
    signs = torch.tensor([1.0, -1.0, 1.0])
    several = [
        (wide[0], wide[0]), (wide[0], torch.tensor([1, 2, 0])), (wide[1], wide[1]), (wide[0], wide[0], signs), (wide[0], wide[0], wide[0]),
        (wide[1], wide[1], wide[1]), (torch.rand(3), torch.rand(3), signs), (torch.rand(5, 2, WIDTH).log_softmax(2), torch.ones(2, 3).long(), torch.tensor([5, 5]), torch.tensor([3, 3])),
    ]  # fmt: skip
    return single + several


def layers() -> dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]]:
    """Every layer class with a way to build it and inputs that it runs on."""
    found = {}
    for name in sorted(nn.__all__ if hasattr(nn, "__all__") else dir(nn)):
        kind = getattr(nn, name)
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)) or kind.forward is nn.Module.forward:
            continue
        if issubclass(kind, LazyModuleMixin):  # it becomes another class with its first call
            continue
        build = builder(kind)
        inputs = next((given for given in tensors() if runs(build, given)), None) if build is not None else None
        if inputs is not None:
            found[name] = (build, inputs)
    return found


def builder(kind: type[nn.Module]) -> Callable[[], nn.Module] | None:
    """A function that builds a small layer of a kind; None if no such arguments are known."""
    wanted = inspect.signature(kind.__init__).parameters.values()
    needed = [p.name for p in wanted if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD][1:]
    chosen = {
        p.name: SMALL[p.name]
        for p in wanted
        if p.name in SMALL and p.default is not p.empty and p.name.startswith(("num_", "dim_"))
    }
    more = {"encoder_layer": nn.TransformerEncoderLayer, "decoder_layer": nn.TransformerDecoderLayer}

    def build() -> nn.Module:
        torch.manual_seed(0)
        given = {name: more[name](WIDTH, 2, WIDTH) if name in more else SMALL.get(name, WIDTH) for name in needed}
        return kind(**given, **chosen).eval()

    try:
        build()
    except Exception:
        return None
    return build


def runs(build: Callable[[], nn.Module], inputs: tuple[torch.Tensor, ...]) -> bool:
    try:
        build()(*inputs)
    except Exception:
        return False
    return True


# -- what is changed


def other_values(value: object) -> list[object]:
    """What may stand in place of a setting."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [value / 2 + 0.25]
    if isinstance(value, str):
        return [word for word in WORDS if word != value][:2]
    if isinstance(value, tuple | list) and all(isinstance(item, int) for item in value):
        other = list if isinstance(value, tuple) else tuple
        return [other(value), type(value)([item + 1 for item in value])]
    if value is None:
        return [1]
    return [function for function in FUNCTIONS if function is not value] if callable(value) else []


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in another order in memory."""
    spread = torch.empty(*tensor.shape, 2, dtype=tensor.dtype)[..., 0]
    return spread.copy_(tensor)


OTHER_TENSORS = {
    "strides": transposed,
    "double": lambda tensor: tensor.double() if tensor.is_floating_point() else tensor,
    "negative": lambda tensor: torch._neg_view(tensor) if tensor.is_floating_point() else tensor,
    "conjugate": lambda tensor: torch.complex(tensor, tensor).conj() if tensor.is_floating_point() else tensor,
    "longer": lambda tensor: torch.cat([tensor, tensor]) if tensor.dim() else tensor,
}


def changes(module: nn.Module) -> dict[str, Callable[[nn.Module], object]]:
    """By name, functions that change one thing of a layer; what one returns is a context to run it in."""
    found: dict[str, Callable[[nn.Module], object]] = {"nothing": lambda module: None}
    for name, value in vars(module).items():
        if name in ("_parameters", "_buffers"):
            for key, tensor in value.items():
                if tensor is not None:
                    for what, change in OTHER_TENSORS.items():
                        found[f"{key} {what}"] = lambda module, key=key, change=change: set_plain(module, key, change)
        elif isinstance(value, dict):
            if "forward" in name and "hooks" in name and not name.endswith(("kwargs", "called")):
                found[name] = lambda module, name=name: vars(module)[name].__setitem__(0, doubled_input)
        else:
            for number, other in enumerate(other_values(value)):
                found[f"{name} {number}: {other!r}"] = lambda module, name=name, other=other: vars(module).update(
                    {name: other}
                )
    kind = type(module)
    found["forward of the class"] = lambda _: patch.object(kind, "forward", twice(kind.forward))
    for name in kind.forward.__code__.co_names:
        for home in (F, torch):
            if inspect.isroutine(vars(home).get(name)):
                found[f"{home.__name__}.{name}"] = lambda _, home=home, name=name: patch.object(
                    home, name, twice(getattr(home, name))
                )
    return found


def set_plain(module: nn.Module, key: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Have a weight as a plain attribute, as FSDP and hypernetworks do."""
    held = module._parameters if key in module._parameters else module._buffers
    vars(module)[key] = change(held.pop(key).detach())


def doubled_input(_module: nn.Module, given: tuple[object, ...], *_output: object) -> None:
    given[0] * 2


def twice(function: Callable[..., object]) -> Callable[..., object]:
    """A function that runs another one two times."""

    def run(*args: object, **kwargs: object) -> object:
        function(*args, **kwargs)
        return function(*args, **kwargs)

    return run


# -- two recordings


class Pair(nn.Module):
    """A layer, and one that is equal but for one thing."""

    def __init__(self, before: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.before, self.after = before, after


def recorded(build, inputs, change, *, warm: bool) -> str:
    """What the changed layer did, by its row: after two equal calls of an unchanged layer, or alone."""
    pair = Pair(build(), build())
    given = copy.deepcopy(inputs)
    raised = ""
    with torch.no_grad(), flopsight.recording(pair) as recording:
        if warm:
            pair.before(*given)
            pair.before(*given)
        given = copy.deepcopy(inputs)
        torch.manual_seed(0)
        context = change(pair.after)
        try:
            with context if hasattr(context, "__exit__") else unchanged():
                pair.after(*given)
        except Exception as problem:
            raised = repr(problem)
    return f"{asdict(recording.profile['after'])} {raised}"


@contextmanager
def unchanged():
    yield


class Memos:
    """Every table and cache in flopsight's modules: as they are now is how `forget` makes them again."""

    def __init__(self) -> None:
        self._tables, self._caches = [], {}
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "flopsight":
                for value in list(vars(module).values()):
                    if type(value) in (dict, list, set):
                        self._tables.append((value, value.copy()))
                    elif hasattr(value, "cache_clear") and not isinstance(value, type):
                        self._caches[id(value)] = value

    def forget(self) -> None:
        for table, before in self._tables:
            if table != before:
                table.clear()
                (table.extend if isinstance(table, list) else table.update)(before)
        for cache in self._caches.values():
            cache.cache_clear()


def in_a_process_of_its_own(work: Callable[[], str]) -> str:
    """What the work returns in a copy of this process."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(theirs, "w") as pipe:
            pipe.write(work())
            pipe.flush()
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


FORKED = 40
"""One comparison of so many is made with a process of its own, too."""


def main() -> None:
    torch.set_num_threads(1)
    step, *names = sys.argv[1:] or ["1"]
    known = {name: found for name, found in layers().items() if not names or name in names}
    every = [(name, what) for name, (build, _) in known.items() for what in changes(build())][:: int(step)]
    with flopsight.recording(nn.Identity()) as recording:  # imports all that a recording needs
        pass
    str(recording.profile)
    memos = Memos()
    forks = {
        case: in_a_process_of_its_own(lambda case=case: outcome(known, *case, warm=False)) for case in every[::FORKED]
    }
    differing, not_cold = [], []
    for name, what in every:
        warm = outcome(known, name, what, warm=True)
        memos.forget()
        cold = outcome(known, name, what, warm=False)
        if warm != cold:
            differing.append((name, what, warm, cold))
        if forks.get((name, what), cold) != cold:
            not_cold.append((name, what))
    json.dump(
        {"layers": sorted(known), "cases": every, "forks": len(forks), "differing": differing, "not_cold": not_cold},
        sys.stdout,
    )


def outcome(known, name: str, what: str, *, warm: bool) -> str:
    build, inputs = known[name]
    return recorded(build, inputs, changes(build())[what], warm=warm)


if __name__ == "__main__":
    main()
