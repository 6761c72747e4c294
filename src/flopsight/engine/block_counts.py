"""A model, or one by its name, counted on meta with one and two of its repeated blocks, for micro-batches of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import nn

from ..analysis.plan.mesh_search import Shape
from ..analysis.plan.workload import Workload, compiled, counted_whole, extended
from ..capture.hooks.internals import NotTracedError
from ..capture.twin.compiled_memory import CompiledBytes, compiled_bytes
from ..distributed.blocks import repeated_blocks, without_cache
from ..distributed.recomputing import checkpointed
from ..distributed.sequence_parts import sequence_length
from ..errors import InputError
from ..results.profile import Profile
from ..targets.axes import sized_inputs
from ..targets.blueprint import Call, Sizes
from ..targets.early_checks import find_target
from ..targets.given import given_blueprint
from ..targets.loading import build_target, call_with, make_blueprint
from .measure import count

MOST_KINDS = 4
"""Kinds of blocks up to which one and two of each are counted; a model with more is counted whole."""
EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts")
EXPERTS_A_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k")
Depth = Mapping[str, Sequence[int]]
"""By the path of each list of blocks, those that stay in it."""
Kinds = Mapping[str, Sequence[Sequence[int]]]
"""By the path of each list of blocks, the places in it of those that are alike."""


class BlockCounts:
    """Counts a target's blocks; every micro-batch and way of checkpointing is counted once."""

    def __init__(
        self,
        target: str | nn.Module | Callable[[], nn.Module],
        *,
        seq: int | None,
        input_shape: Sequence[int] | Sequence[str] | str | None,
        dtype: str,
        compile: bool = False,
        progress: Callable[[str], object] | None = None,
    ) -> None:
        if isinstance(target, str):
            address = find_target(target)
            self._blueprint = make_blueprint(address)
        elif callable(target):
            address, self._blueprint = given_blueprint(target)
        else:
            raise InputError(
                f"plan takes a target by its name, like 'hf:llama-3.1-8b' or 'net.py:Net', a model or its factory, not {target!r}."
            )
        self.seq = seq
        self.text = address.text
        """The model's name."""
        self._say = progress or (lambda _text: None)
        self._say(f"{self.text}: building")
        self._target, self._brought = build_target(address, self._blueprint, dtype=dtype, meta=True, train=True)
        self._model = self._target.model.train()
        self._inputs = _texts(input_shape)
        without_cache(self._model)  # a job that trains keeps no keys and values
        self._known: dict[tuple[int, str], Workload] = {}
        self._compiled = CompiledSteps(self._compiled_bytes) if compile else None
        if seq is None and self._blueprint.fills_in:
            self.seq = _tokens(self._call(1).kwargs)

    @cached_property
    def shape(self) -> Shape:
        """What of the model decides how it can be divided."""
        call = self._call(1)
        return shape_of(self._model, self.seq or sequence_length([call.args, call.kwargs]))

    def workload(self, micro_batch: int, checkpoint: str) -> Workload:
        """One micro-batch of so many samples, the whole depth of the model."""
        key = micro_batch, checkpoint
        if key not in self._known:
            self._say(f"{self._target.text}: counting micro-batch {micro_batch}, checkpointing {checkpoint}")
            lists = self._lists
            found = None
            if lists and sum(map(len, lists.values())) <= MOST_KINDS:
                found = self._extended(micro_batch, checkpoint, lists)
            found = found or self._whole(micro_batch, checkpoint)
            chosen = _number(text_config(self._model), EXPERTS_A_TOKEN) or 1
            self._known[key] = replace(found, experts_a_token=chosen)
        return self._known[key]

    @cached_property
    def _lists(self) -> Kinds:
        """By the path of each list of blocks, its kinds."""
        lists: dict[str, dict[Any, list[int]]] = {}
        for home in dict.fromkeys(path.rpartition(".")[0] for path in repeated_blocks(self._model)):
            for name, block in self._model.get_submodule(home).named_children():  # also those that stand there once
                lists.setdefault(home, {}).setdefault(_likeness(block), []).append(int(name) if name.isdigit() else -1)
        if any(number < 0 for kinds in lists.values() for numbers in kinds.values() for number in numbers):
            return {}
        return {home: list(kinds.values()) for home, kinds in lists.items()}

    def _extended(self, micro_batch: int, checkpoint: str, lists: Kinds) -> Workload | None:
        first = {home: [kind[0] for kind in kinds] for home, kinds in lists.items()}
        base = self._counted(micro_batch, checkpoint, first)
        depths, longer, counts = [first], [], []
        for home, kinds in lists.items():
            for kind in kinds:
                if len(kind) > 1:
                    more = {**first, home: sorted([*first[home], kind[1]])}
                    depths.append(more)
                    longer.append(self._counted(micro_batch, checkpoint, more))
                    counts.append(len(kind))
        found = extended(base, longer, counts, tuple(lists), _handed_on(base, lists)) if longer else None
        if found is None or self._compiled is None or checkpoint != "none":
            return found
        return self._compiled.remembered(found, micro_batch, depths)

    def _compiled_bytes(self, micro_batch: int, kept: Depth) -> CompiledBytes:
        target = self._call(micro_batch)
        with _with_blocks(self._model, kept, "none"):
            return compiled_bytes(self._model, target.args, target.kwargs)

    def _whole(self, micro_batch: int, checkpoint: str) -> Workload:
        profile = self._counted(micro_batch, checkpoint, {})
        paths = list(repeated_blocks(self._model))
        sizes = [profile[path].output_bytes for path in paths if path in profile]
        return counted_whole(profile, paths, max(sizes, default=0))

    def _counted(self, micro_batch: int, checkpoint: str, kept: Mapping[str, Sequence[int]]) -> Profile:
        target = self._call(micro_batch)
        with (
            _with_blocks(self._model, kept, checkpoint),
            target.calling(),
        ):
            return count(self._model, target.args, target.kwargs, train=True, on="meta")

    def _call(self, micro_batch: int) -> Any:
        values: dict[str, Any] = {"batch": micro_batch}
        if self.seq is not None:
            values["seq"] = self.seq
        specs = sized_inputs(self._inputs, values)
        sizes = Sizes(micro_batch, self.seq)
        brought = _with_batch(self._brought, micro_batch)
        return call_with(self._target, brought, self._blueprint, specs, sizes, train=True)


def shape_of(model: nn.Module, seq: int | None) -> Shape:
    """What of a model decides how it can be divided: blocks, and what its configuration says of heads and experts."""
    config = text_config(model)
    return Shape(
        len(repeated_blocks(model)),
        heads=_number(config, ("num_attention_heads",)),
        key_value_heads=_number(config, ("num_key_value_heads",)),
        experts=_number(config, EXPERTS),
        seq=seq,
    )


def _number(config: Any, names: Iterable[str]) -> int | None:
    """The first of these that a configuration has as a whole number."""
    return next((getattr(config, name) for name in names if isinstance(getattr(config, name, None), int)), None)


def text_config(model: nn.Module) -> Any:
    """The configuration of the part that reads or writes text; None if the model has none."""
    return getattr(getattr(model, "config", None), "get_text_config", lambda: None)()


@contextmanager
def _with_blocks(model: nn.Module, kept: Depth, checkpoint: str) -> Iterator[None]:
    """Let lists of blocks hold some of them alone, checkpointed; they are put back."""
    plain: dict[str, nn.Module] = {}
    types: list[tuple[Any, list[str]]] = []
    homes: Mapping[str, Sequence[int] | None] = kept or {
        path.rpartition(".")[0]: None for path in repeated_blocks(model)
    }
    for home, numbers in homes.items():
        around, _, name = home.rpartition(".")
        whole: Any = model.get_submodule(home)
        plain[home] = whole
        chosen = list(whole) if numbers is None else [whole[number] for number in numbers]
        blocks = [checkpointed(block, checkpoint) for block in chosen]
        shorter = nn.ModuleList(blocks) if isinstance(whole, nn.ModuleList) else nn.Sequential(*blocks)
        setattr(model.get_submodule(around), name, shorter)
        if numbers is not None:
            types += _shorten_types(model, len(whole), numbers)
    try:
        yield
    finally:
        for config, named in types:
            config.layer_types = named
        for home, whole in plain.items():
            around, _, name = home.rpartition(".")
            setattr(model.get_submodule(around), name, whole)


def _shorten_types(model: nn.Module, depth: int, kept: Sequence[int]) -> list[tuple[Any, list[str]]]:
    """Let configurations name the kinds of the kept layers alone: a forward may look them up by a layer's place. Returns what they named."""
    found: list[tuple[Any, list[str]]] = []
    for config in {
        id(config): config for module in model.modules() if (config := getattr(module, "config", None))
    }.values():
        named: Any = vars(config).get("layer_types")
        if isinstance(named, list) and len(named) == depth:
            found.append((config, named))
            config.layer_types = [named[number] for number in kept]
    return found


def _likeness(block: nn.Module) -> tuple[Any, ...]:
    """Equal for blocks that do the same work: class, parameters' shapes, and what kind of attention they have."""
    words = tuple(
        (name, getattr(module, name))
        for module in block.modules()
        for name in ("attention_type", "layer_type", "is_sliding", "sliding_window", "window_size")
        if isinstance(getattr(module, name, None), str | int | bool)
    )
    return type(block), tuple((name, tuple(p.shape)) for name, p in block.named_parameters()), words


def _handed_on(profile: Profile, lists: Iterable[str]) -> int:
    """Bytes that a block returns: of its first output, which the next one takes."""
    sizes = [profile[f"{home}.0"].output_bytes for home in lists if f"{home}.0" in profile]
    return max(sizes, default=0)


def _with_batch(call: Call, samples: int) -> Call:
    """Inputs that a target brings along, with so many samples: their first dimension is the batch."""

    def sized(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.dim():
            return value
        return torch.empty((samples, *value.shape[1:]), dtype=value.dtype, device="meta")

    return replace(call, args=tuple(map(sized, call.args)), kwargs={name: sized(v) for name, v in call.kwargs.items()})


def _tokens(kwargs: Mapping[str, Any]) -> int | None:
    ids = kwargs.get("input_ids")
    return int(ids.shape[-1]) if isinstance(ids, torch.Tensor) else None


def _texts(shape: Sequence[int] | Sequence[str] | str | None) -> list[str]:
    if shape is None:
        return []
    if isinstance(shape, str):
        return [shape]
    if not isinstance(shape, Sequence):
        raise InputError(
            f'input_shape is the shape of an input, like (1, 3, 224, 224) or "1x2048:int64", not {shape!r}.'
        )
    words = [str(size) for size in shape]
    return words if shape and isinstance(shape[0], str) else ["x".join(words)]


class CompiledSteps:
    """Memory of compiled steps for any micro-batch: two are traced, and all others lie on the line through them."""

    def __init__(self, trace: Callable[[int, Depth], CompiledBytes]) -> None:
        self._trace = trace
        self._known: dict[int, list[CompiledBytes]] = {}
        self._traceable = True

    def remembered(self, work: Workload, micro_batch: int, depths: Sequence[Depth]) -> Workload:
        """The work with the memory of a compiled step; as it is if the model cannot be traced."""
        if not self._traceable:
            return work
        known = self._known
        if len(known) < 2:  # a line needs two points
            try:
                known[micro_batch] = [self._trace(micro_batch, depth) for depth in depths]
            except NotTracedError:
                self._traceable = False
                return work
        base, *longer = known.get(micro_batch) or _on_the_line(known, micro_batch)
        return compiled(work, base, longer)


def _on_the_line(known: Mapping[int, Sequence[CompiledBytes]], micro_batch: int) -> list[CompiledBytes]:
    (first, here), (second, there) = known.items()
    share = (micro_batch - first) / (second - first)

    def between(one: int, other: int) -> int:
        return round(one + share * (other - one))

    return [
        CompiledBytes(between(a.kept, b.kept), between(a.peak, b.peak), between(a.after, b.after))
        for a, b in zip(here, there, strict=True)
    ]
