"""Counting on meta tensors: what an op returns is remembered by what went in, values are computed on the CPU."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.autograd.function import BackwardCFunction

from ...results.caveats import Assumed
from ..count.dispatch import Counter
from ..count.opinfo import OpInfo
from ..count.tape import Tape
from ..hooks import internals
from ..hooks.patches import Call, inside, wrapped
from ..model.sites import Sites
from ..model.tensors import flat, with_leaves
from . import known_values
from .attention_kernels import attention_as_on
from .casts import Autocast
from .cpu_kernels import CPU_KERNELS
from .elementwise_kernels import pointwise
from .meta_kernels import KERNELS, whole_on_meta
from .target_device import TargetDevice
from .value_ops import AFTER, BALANCED, INSTEAD, ZERO

Tensor = torch.Tensor
aten = torch.ops.aten
META, CPU = torch.device("meta"), torch.device("cpu")
MOVES = {aten._to_copy.default, aten.to.dtype_layout}
UNCHANGED = frozenset((type(None), bool, int, float, str, torch.dtype))
"""What stands among arguments and is the same on every device."""
READ_AT_ONCE = 1 << 12
"""Elements up to which a real tensor is read when it joins; a larger one is read when asked for, if no op wrote into it."""
ENDS, STACK = "offs", 3
"""What a grouped product calls the ends of its groups of rows, and the dimensions of the weights that they are multiplied with."""
ALIASES = "aliases"
"""Marks in the memo an op whose result aliases an input, or is a part of larger memory: it runs every time."""


class MetaCounter(Counter):
    """A counter for models on meta, as if they ran on `target`.

    Python meta kernels take up to milliseconds, so what an op returns is remembered by what went in.
    """

    has_values = False

    def __init__(
        self,
        model: nn.Module | Sites | None,
        known: Callable[[str], bool],
        tape: Tape | None = None,
        *,
        target: str = "cpu",
        casts: str = "",
    ) -> None:
        super().__init__(model, known, tape)
        self._target = target
        self._autocast = Autocast(target, casts)
        device = torch.empty(0, device=target).device
        itself = weakref.proxy(self)  # so that the counter and its notes need no collection of garbage
        self._disguise = TargetDevice(device, lambda tensor: known_values.value_of(itself._on_meta(tensor)))
        self._kernels = {**KERNELS, **(CPU_KERNELS if target == "cpu" else {})}
        self._memo: dict[Any, Any] = {}
        self._joined: dict[int, tuple[weakref.ref[torch.UntypedStorage], Tensor]] = {}
        """The meta twin of a real storage by its address, as long as the real one lives: the twin takes memory too."""

    def _watch_all(self, entered: ExitStack) -> None:
        """Begin to watch; the model runs as it would on the target device."""
        entered.enter_context(attention_as_on(self._target))
        entered.enter_context(whole_on_meta())
        entered.enter_context(self._autocast.watching())
        entered.enter_context(self._disguise)
        entered.enter_context(wrapped(torch.overrides, "has_torch_function", self._disguise.unnoticed))
        entered.enter_context(wrapped(BackwardCFunction, "apply", self._disguise.in_backward))
        entered.enter_context(wrapped(internals.CheckpointFrame, "__init__", _comparing_plainly))
        super()._watch_all(entered)
        entered.enter_context(
            wrapped(
                torch.autograd.graph.saved_tensors_hooks,
                "__enter__",
                internals.entered_with(self._disguise.in_saved_hooks),
            )
        )

    def watch(self, plain: Call) -> Call:
        """Module calls that know their row, and the device that they are on also when backward makes them again."""
        return super().watch(self._disguise.in_backward(plain))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note an op, unless it moves a tensor to the device where its original is already."""
        with internals.without_functions():
            if func in MOVES and self._stays(args[0], **(kwargs or {})):
                return self._read_by_user(self._on_meta(args[0]), kwargs["device"])
            return super().__torch_dispatch__(func, types, args, kwargs)

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The op's result without data, and without running its meta kernel twice for the same shapes."""
        if func is aten.empty.memory_format and _written_by_pointer(kwargs):
            return func(*args, **kwargs)
        way = _way_of(func)
        args = args if _is_on_meta(args) else self._on_meta(args)
        wanted = kwargs.get("device")
        kwargs = self._on_meta(kwargs) if kwargs else kwargs
        output = self._remembered(way, args, kwargs) if way.instead is None else self._instead(way, args, kwargs)
        if way.after is not None:
            way.after(func, args, kwargs, output, self._assume)
        known_values.follow(func, args, kwargs, output)
        moves = way.moves and wanted and not (wanted == META and output is args[0])
        return self._read_by_user(output, wanted) if moves else output

    def values(self, info: OpInfo, args: Any, kwargs: Any) -> dict[str, Any]:
        """The arguments by name; the ends of groups as numbers if they are known and not themselves assumed."""
        named = super().values(info, args, kwargs)
        ends = named.get(ENDS)
        if ends is None or not ends.is_meta:
            return named
        contents = known_values.contents_of(ends)
        if contents is not None and not contents.assumed:
            with suppress(known_values.Unknowable):
                return named | {ENDS: known_values.value_of(ends)}
        if any(tensor.dim() == STACK for tensor in flat(args)):
            self._assume(BALANCED)
        return named

    def _on_meta(self, value: Any) -> Any:
        """Real tensors among meta ones join them, with their values; every device means meta here."""
        return with_leaves(value, self._leaf_on_meta)

    def _leaf_on_meta(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            joins = value.layout is torch.strided and not value.is_meta and not internals.is_wrapper_subclass(value)
            return self._join(value) if joins else value
        if isinstance(value, torch.Generator):
            return None
        return META if isinstance(value, torch.device) else value

    def _join(self, real: Tensor) -> Tensor:
        """The meta twin of a real tensor: one storage for one storage, so that what is written into it stays written."""
        storage = real.untyped_storage()
        _, whole = self._joined.get(internals.storage_key(real), (None, None))
        if whole is None:
            elements = internals.as_stored(real).as_strided((storage.nbytes() // real.itemsize,), (1,), 0)
            whole = torch.empty_like(elements, device=META)
            if elements.numel() <= READ_AT_ONCE:
                read = elements.to("cpu", copy=True)
                known_values.with_value(whole, lambda: read)
            else:
                known_values.remember(whole, elements, part_of=real)
            key = internals.storage_key(real)
            self._joined[key] = (weakref.ref(storage, partial(self._joined.pop, key)), whole)
        twin = whole.view(real.dtype).as_strided(real.shape, real.stride(), real.storage_offset())
        return internals.with_signs(twin, internals.signs(real))

    def _stays(self, tensor: Tensor, **options: Any) -> bool:
        """Whether a copy does nothing but move a tensor between meta and the device that meta stands for."""
        same = options.get("dtype") in (None, tensor.dtype) and options.get("layout") in (None, torch.strided)
        if not same or options.get("device") is None or options.get("memory_format") is not None:
            return False
        return {tensor.device.type, options["device"].type} == {"meta", self._target} != {"meta"}

    def _read_by_user(self, tensor: Tensor, device: torch.device) -> Tensor:
        """A tensor that code moves to the CPU to read it: a real one if its value is known."""
        if device.type == "cpu" and not tensor.requires_grad:
            try:
                return known_values.value_of(tensor).clone()
            except known_values.Unknowable:
                pass
        aliased: Tensor = aten.alias.default(tensor)
        return aliased

    def _assume(self, what: str) -> None:
        """Note an assumption. Zero for an unknown number is refused if the model has real tensors, which know it."""
        if what is ZERO and self._target != META.type:
            raise known_values.Unknowable
        self.tape.doubt(Assumed(what, model_line()))

    def _instead(self, way: _Way, args: Any, kwargs: Any) -> Any:
        func = way.func
        try:
            return way.instead(func, args, kwargs, self._assume)
        except known_values.Unknowable:
            position = self.attribution.here() if self.attribution is not None else None
            where = f" in {position.site.path or 'the model'}" if position is not None else ""
            raise known_values.Unknowable(
                f"{func.overloadpacket}{where} ({model_line()}) depends on values, which a model on meta does not have; "
                f"count it on real tensors."
            ) from None

    def _remembered(self, way: _Way, args: Any, kwargs: Any) -> Any:
        func = way.func
        if way.returns_itself:
            return args[0]
        if way.every_time:
            return func(*args, **kwargs)
        # Kernels read these too, and a forward may switch them.
        switches = torch.is_grad_enabled(), torch.get_default_dtype(), internals.uses_onednn()
        key = (way, switches, _key(args), _key(tuple(kwargs.items())))
        try:
            made = self._memo.get(key)
        except TypeError:
            return func(*args, **kwargs)
        if made is None:
            output = self._kernel(func)(*args, **kwargs)
            self._memo[key] = _described(
                output, set(map(internals.storage_key, filter(internals.has_storage, flat((args, kwargs)))))
            )
            return output
        return self._kernel(func)(*args, **kwargs) if made is ALIASES else _fresh(made)

    def _kernel(self, func: Any) -> Call:
        if func not in self._kernels and internals.is_pointwise(func):
            self._kernels[func] = pointwise(func, casts=self._target == "cpu")
        kernel: Call = self._kernels.get(func, func)
        return kernel


class _Way:
    """How an op runs on meta, found out once; its hash is quicker than that of an op, which is worked out in Python."""

    __slots__ = ("after", "every_time", "func", "instead", "moves", "returns_itself")

    def __init__(self, func: Any) -> None:
        self.func = func
        self.instead: Any = INSTEAD.get(func)
        self.after = AFTER.get(func)
        self.moves = func in MOVES
        self.returns_itself = known_values.returns_itself(func)
        self.every_time = func.is_view or internals.schema(func).is_mutable
        """Whether its result shares memory with what it takes."""


_way_of = cache(_Way)


def _is_on_meta(value: Any) -> bool:
    """Whether nothing among some arguments has to change to run on meta, as far as a quick look tells."""
    kind = type(value)
    if kind is Tensor or kind is nn.Parameter:
        return bool(value.is_meta)
    if kind is tuple or kind is list:
        return all(map(_is_on_meta, value))
    return kind in UNCHANGED


def _comparing_plainly(init: Call) -> Call:
    """A checkpoint compares tensors as they are: the target device is reported to it in one place and not in another."""

    def made(frame: Any, *args: Any, **kwargs: Any) -> None:
        init(frame, *args, **kwargs)
        if frame.metadata_fn is not None:
            frame.metadata_fn = inside(internals.without_functions)(frame.metadata_fn)

    return made


def _written_by_pointer(kwargs: Any) -> bool:
    """Torch's own code fills a CPU tensor of integers through its pointer: the lengths of a packed sequence."""
    return kwargs.get("device") == CPU and kwargs.get("dtype") is torch.int64


def _key(value: Any) -> Any:
    if isinstance(value, Tensor):
        return (value.shape, value.stride(), value.dtype, value.is_conj(), value.is_neg())
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    return (type(value), value)


def _described(output: Any, given: set[int]) -> Any:
    """What to make again next time, or that the result cannot be made again."""
    if isinstance(output, Tensor):
        if not internals.has_storage(output):
            return ALIASES  # a sparse one holds tensors of its own
        shared = not output.is_meta or internals.storage_key(output) in given
        made = (output.shape, output.stride(), output.dtype)
        return ALIASES if shared or internals.storage_bytes(output) > internals.storage_bytes(_fresh(made)) else made
    if isinstance(output, list | tuple):
        parts = [_described(one, given) if isinstance(one, Tensor) else ("constant", one) for one in output]
        storages = [internals.storage_key(one) for one in output if isinstance(one, Tensor)]
        apart = len(set(storages)) == len(storages) and not any(isinstance(one, list | tuple) for one in output)
        return [type(output), parts] if apart and ALIASES not in parts else ALIASES
    return ALIASES


def _fresh(made: Any) -> Any:
    if isinstance(made, tuple):
        if made[0] == "constant":
            return made[1]
        return torch.empty_strided(made[0], made[1], dtype=made[2], device=META)
    kind, parts = made
    return kind(map(_fresh, parts))


OTHERS = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent.parent / "capture"))
"""Folders whose code is not the model's."""


def model_line() -> str:
    """`net.py:12`; empty if no code of a model is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*OTHERS, "<")):
            return f"{Path(name).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
