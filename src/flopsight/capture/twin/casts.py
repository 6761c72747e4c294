"""Autocast on the twin: torch casts by device, and meta has no casts, so the target's are looked up and done here.

Which operands an op casts, and to what, torch is asked: the op begins with fake operands on the target device, which need not
be here, under a mode that notes the casts and ends the call before any kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch

from ..hooks import internals
from ..hooks.internals import TorchDispatchMode
from ..hooks.patches import Call, wrapped
from ..model.tensors import flat, with_leaves

Tensor = torch.Tensor
aten = torch.ops.aten
SUMS_IN_SINGLE = ("cumprod", "cumsum", "log_softmax", "prod", "softmax", "sum")
"""Ops of a GPU that cast by an argument, which says in what precision to add up."""


class Autocast:
    """The casts of a target device, for this thread's meta tensors and as long as autocast is on.

    `casts` names the device whose casts are made where autocast is on for the CPU, which every machine has.
    """

    def __init__(self, target: str, casts: str = "") -> None:
        here = target if target != "meta" else "cuda" if torch.cuda.is_available() else "cpu"
        self._switch_of = "cpu" if casts else here
        """The device whose autocast is asked whether it is on."""
        self._target = casts or here
        self._casts: dict[Any, dict[int, torch.dtype]] = {}
        self._weights: dict[int, tuple[Tensor, Tensor]] = {}
        """Weights that were cast already, with their originals: torch casts them once a block."""
        self._unregister: Callable[[], None] | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Cast inside the block wherever autocast is on, also if it was on before."""
        with ExitStack() as stack:
            stack.callback(self._end)
            stack.enter_context(wrapped(torch, "set_autocast_enabled", self._switching))
            stack.enter_context(wrapped(torch, "clear_autocast_cache", self._forgetting))
            self._switch()
            yield

    def _switching(self, plain: Call) -> Call:
        def switched(*args: Any) -> Any:
            done = plain(*args)
            self._switch()
            return done

        return switched

    def _forgetting(self, plain: Call) -> Call:
        def forgotten() -> Any:
            self._weights.clear()
            return plain()

        return forgotten

    def _switch(self) -> None:
        on = torch.is_autocast_enabled(self._switch_of)
        if on and self._unregister is None:
            ops = {name: self._kernel(op) for name, op in internals.autocast_ops(self._target).items()}
            self._unregister = internals.register_spare_autocast(ops)
        if self._unregister is not None:
            internals.use_spare_autocast(on=on)

    def _end(self) -> None:
        self._weights.clear()
        if self._unregister is not None:
            internals.use_spare_autocast(on=False)
            self._unregister()
            self._unregister = None

    def _kernel(self, op: Any) -> Callable[..., Any]:
        def cast_and_run(*args: Any, **kwargs: Any) -> Any:
            with internals.without_spare_autocast():
                if not torch.is_autocast_enabled(self._switch_of):
                    return op(*args, **kwargs)
                args, kwargs = self._cast(op, args, kwargs)
                return op(*args, **kwargs)

        return cast_and_run

    def _cast(self, op: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        tensors = list(flat((args, kwargs)))
        key = op, tuple(one.dtype for one in tensors), torch.get_autocast_dtype(self._switch_of)
        casts = self._casts.get(key)
        if casts is None:
            casts = self._casts[key] = self._asked(op, args, kwargs)
        made = list(tensors)
        for at, dtype in casts.items():  # in torch's order, which decides what backward does first
            made[at] = self._as(tensors[at], dtype)
        args, kwargs = _with_these((args, kwargs), made)
        if self._target == "cuda" and _adds_in_single(op, tensors, args, kwargs):
            kwargs = {**kwargs, "dtype": torch.float32}
        return args, kwargs

    def _as(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        weight = (
            tensor.requires_grad and tensor.is_leaf and tensor.dtype is torch.float32 and not internals.is_view(tensor)
        )
        if not weight or not torch.is_autocast_cache_enabled() or dtype != torch.get_autocast_dtype(self._switch_of):
            return tensor.to(dtype)
        if id(tensor) not in self._weights:
            self._weights[id(tensor)] = tensor, tensor.to(dtype)
        return self._weights[id(tensor)][1]

    def _asked(self, op: Any, args: Any, kwargs: Any) -> dict[int, torch.dtype]:
        """What autocast casts, by the position among the tensors of a call; not what the op casts by itself."""
        with internals.without_modes(), internals.without_functions(), torch.no_grad():
            casts = self._begun(op, args, kwargs, on=True)
            own = self._begun(op, args, kwargs, on=False)
        first = next(iter(casts.values()), None)  # autocast casts to one type, and before the op casts anything itself
        return {at: dtype for at, dtype in casts.items() if dtype == first and own.get(at) != dtype}

    def _begun(self, op: Any, args: Any, kwargs: Any, *, on: bool) -> dict[int, torch.dtype]:
        """What is cast when an op begins, with autocast on or off."""
        dtype = torch.get_autocast_dtype(self._switch_of)
        with internals.autocast_set(self._target, dtype, on=on), internals.fake_tensors():
            given = [torch.empty(one.shape, dtype=one.dtype, device=self._target) for one in flat((args, kwargs))]
            fake_args, fake_kwargs = _with_these((args, kwargs), given)
            # suppressed is ours, which ends the call, or torch's about such operands
            with _Casts(given) as seen, suppress(Exception):
                op(*fake_args, **fake_kwargs)
        found: dict[int, torch.dtype] = seen.found
        return found


class _Seen(Exception):
    """Every cast was seen; the op itself need not run."""


class _Casts(TorchDispatchMode):
    """Notes which tensors are cast before anything else happens."""

    def __init__(self, given: list[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._given = given
        self.found: dict[int, torch.dtype] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a cast with an empty tensor of the wanted type; end the call at any other op."""
        if func is torch.ops.prim.device.default:
            return func(*args)
        at = next((i for i, one in enumerate(self._given) if args and one is args[0]), None)
        dtype = (kwargs or {}).get("dtype")
        if func is not aten._to_copy.default or at is None or dtype is None:
            raise _Seen
        self.found[at] = dtype
        return func(*args, **kwargs)


def _adds_in_single(op: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> bool:
    """Whether a GPU would add up in single precision what comes in half."""
    schema = internals.schema(op)
    names = [argument.name for argument in schema.arguments]
    if "dtype" not in names or schema.name.removeprefix("aten::") not in SUMS_IN_SINGLE:
        return False
    given = len(args) > names.index("dtype") or kwargs.get("dtype") is not None
    return not given and tensors[0].dtype in (torch.float16, torch.bfloat16)


def _with_these(arguments: Any, tensors: list[Tensor]) -> Any:
    """The same arguments with other tensors, in the order in which `flat` finds them."""
    others = iter(tensors)
    return with_leaves(arguments, lambda leaf: next(others) if isinstance(leaf, Tensor) else leaf)
