"""Every private torch API that flopsight uses, in one place, so that a torch release is checked by reading one file."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from operator import attrgetter
from types import MethodType
from typing import Any, TypeVar

import torch
from torch._C._autograd import DeviceType
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    _pop_mode,
    _push_mode,
    is_traceable_wrapper_subclass,
)

from .release import TORCH
from .shared import Shared

__all__ = ["DeviceType", "FakeTensor", "TorchDispatchMode"]

Value = TypeVar("Value")

NormBase = torch.nn.modules.batchnorm._NormBase
"""What batch norms and instance norms have in common: running statistics."""
schema: Callable[[Any], Any] = attrgetter("_schema")
"""The arguments and results of an op."""
storage_number: Callable[[torch.UntypedStorage], int] = attrgetter("_cdata")
"""What two storages share exactly when they are the same memory, on meta too."""
viewed: Callable[[torch.Tensor], torch.Tensor | None] = attrgetter("_base")
"""The tensor that a view is a view of."""
graph_task: Callable[[], int] = torch._C._current_graph_task_id
"""The running backward's number, -1 outside backward."""
sequence_number: Callable[[], int] = torch._C._autograd._get_sequence_nr
"""The number that the next autograd node made on this thread will get."""
current_node: Callable[[], Any] = torch._C._current_autograd_node
"""The autograd node that backward is running, or None."""
dispatch_depth: Callable[[], int] = torch._C._len_torch_dispatch_stack
"""How many dispatch modes are on this thread."""
without_functions = torch._C.DisableTorchFunction
"""A context in which no function mode sees anything."""
function_modes: Callable[[], int] = torch._C._len_torch_function_stack
"""How many function modes are on here; autograd's engine begins with none."""
is_wrapper_subclass: Callable[[object], bool] = is_traceable_wrapper_subclass

ATTENTION_ADDS_A_BATCH = TORCH >= (2, 14)
"""Whether scaled_dot_product_attention takes three dimensions as a batch of one, where older ones run single products."""

GROUP_NORM_KEEPS_ORDER = TORCH >= (2, 14)
"""Whether group norm takes its input and its gradient in any memory order; older ones copy both first."""

attention_choice: Callable[..., int] = torch._fused_sdp_choice
"""Which kernel scaled_dot_product_attention would run on these tensors, as a number."""

saved_hooks_allowed: Callable[[], bool] = torch._C._autograd._saved_tensors_hooks_is_enabled  # type: ignore[attr-defined]
"""Whether saved tensors may have hooks right now; torch.func and `disable_saved_tensors_hooks` forbid it."""

_FAKE = torch._C._TorchDispatchModeKey.FAKE


def tracing_shapes() -> bool:
    """Whether a FakeTensorMode is on: torch works out shapes then, and what runs is not the model's work."""
    return torch._C._get_dispatch_mode(_FAKE) is not None


_PROXY = torch._C._TorchDispatchModeKey.PROXY


def transformed() -> bool:
    """Whether torch traces what runs, or torch.func transforms it: it then has its own rules for branches."""
    if tracing_shapes() or torch._C._get_dispatch_mode(_PROXY) is not None:
        return True
    return torch._C._functorch.peek_interpreter_stack() is not None


NO_SEQUENCE = 1 << 62
"""AccumulateGrad nodes carry a number above every real one."""


@contextmanager
def modes_held() -> Iterator[None]:
    """Keep every dispatch mode of this thread alive while some are popped.

    Up to 2.10 torch frees a mode before it returns it from the stack, if nothing but the stack refers to it: whoever
    uses it afterwards crashes the interpreter. A mode that is left out of order is such a one. To go with 2.10.
    """
    held = [torch._C._get_dispatch_stack_at(i) for i in range(dispatch_depth())]
    try:
        yield
    finally:
        held.clear()


@contextmanager
def without_modes() -> Iterator[None]:
    """A context in which no dispatch mode sees anything."""
    with modes_held(), _disable_current_modes():
        yield


def bring_to_top(mode: TorchDispatchMode) -> bool:
    """Move our mode to the top of the stack so that it can be popped; False if it is no longer on the stack.

    Other code popped it instead of its own mode; that mode is on top now, and is popped in place of ours.
    """
    if _get_current_dispatch_mode() is mode:
        return True
    above: list[TorchDispatchMode] = []
    with modes_held():
        while dispatch_depth():
            above.append(_pop_mode())
            if above[-1] is mode:
                break
    found = bool(above) and above[-1] is mode
    for other in reversed(above[:-1] if found else above):
        _push_mode(other)
    if found or not above:
        _push_mode(mode)
    return found


_MODE_FLAGS = (
    "_is_in_torch_dispatch_mode",
    "_is_in_non_infra_torch_dispatch_mode",
    "_is_in_any_mode_without_ignore_compile_internals",
)


def settle_mode_flags() -> None:
    """Reset the flags in which torch notes that a mode is on: modes that leave in another order leave them set."""
    if not dispatch_depth():
        for name in _MODE_FLAGS:
            if hasattr(_python_dispatch, name):
                setattr(_python_dispatch, name, False)


_STRIDED = torch.strided
_of_torch_func: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def profiler_running() -> bool:
    """Whether a profiler of torch's runs on any thread of this process, or is about to: one that warms up sets no flag."""
    kind = torch.autograd.profiler.profile
    if torch._C._autograd._profiler_enabled() or torch.autograd.profiler._is_profiler_enabled:
        return True
    alive = (one for one in gc.get_objects() if type(one) is kind)
    return any(getattr(one, "entered", False) and one.kineto_results is None for one in alive)


def has_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor has memory of its own: not sparse, not fake, no wrapper of a subclass or of torch.func."""
    if tensor.layout is not _STRIDED or _of_torch_func(tensor):
        return False
    return type(tensor) in _PLAIN or not (is_wrapper_subclass(tensor) or isinstance(tensor, FakeTensor))


def storage_key(tensor: torch.Tensor) -> int:
    """What two tensors share exactly when they share memory, on meta too."""
    key: int = tensor.untyped_storage()._cdata
    return key


def sparse_values(tensor: torch.Tensor) -> torch.Tensor:
    """The elements that a sparse tensor stores, equal places not yet added up."""
    values: torch.Tensor = tensor._values()
    return values


def sparse_places(tensor: torch.Tensor) -> torch.Tensor:
    """Where those elements stand, a row for each dimension."""
    return tensor._indices()


def nested_sizes(tensor: torch.Tensor) -> torch.Tensor:
    """The shape of each part of a nested tensor, a row a part."""
    return tensor._nested_tensor_size()


def unregister(library: torch.library.Library) -> Callable[[], None]:
    """What takes a library's kernels back."""
    return library._destroy


def memory_order(tensor: torch.Tensor) -> torch.memory_format:
    """Whether a tensor's channels come last in memory; doubtful cases count as contiguous."""
    return suggest_memory_format(tensor)


def uses_onednn() -> bool:
    """Whether the CPU's convolutions and recurrent layers go to oneDNN."""
    return torch.backends.mkldnn.is_available() and bool(torch._C._get_mkldnn_enabled())


def onednn_has_halves(dtype: torch.dtype) -> bool:
    """Whether oneDNN works with a type of half precision on this CPU."""
    ask = {
        torch.bfloat16: torch.ops.mkldnn._is_mkldnn_bf16_supported,
        torch.float16: torch.ops.mkldnn._is_mkldnn_fp16_supported,
    }.get(dtype)
    return bool(ask is not None and ask())


def node_sequence(node: Any) -> int:
    """When the node was made, in its thread's numbering."""
    number: int = node._sequence_nr()
    return number


def top_saved_hooks() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """The functions that pack and unpack saved tensors right now."""
    hooks: tuple[Callable[..., Any], Callable[..., Any]] | None = torch._C._autograd._top_saved_tensors_default_hooks(
        True
    )
    return hooks


@contextmanager
def popped_saved_hooks() -> Iterator[None]:
    """Without the topmost saved-tensor hooks."""
    hooks = top_saved_hooks()
    assert hooks is not None
    torch._C._autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        torch._C._autograd._push_saved_tensors_default_hooks(*hooks)


@contextmanager
def saved_hooks(pack: Callable[..., Any], unpack: Callable[..., Any], *, below: bool = False) -> Iterator[None]:
    """Saved-tensor hooks, on top of others or below them; they go from wherever the others, coming and going, left them.

    Where other code popped ours instead of its own, its hooks on top are popped in place of ours, as in `bring_to_top`.
    """
    with without_saved_hooks() if below else nullcontext():
        torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)
    try:
        yield
    finally:
        above = []
        while (top := top_saved_hooks()) is not None:
            torch._C._autograd._pop_saved_tensors_default_hooks()
            if top[0] is pack:
                break
            above.append(top)
        else:
            del above[:1]
        for hooks in reversed(above):
            torch._C._autograd._push_saved_tensors_default_hooks(*hooks)


_MODES = torch._C.DispatchKeySet(torch._C.DispatchKey.Python).add(torch._C.DispatchKey.PythonTLSSnapshot)


def detached(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor apart from its graph, made without a word to any mode."""
    if is_wrapper_subclass(tensor):
        return tensor.detach()
    with torch._C._ExcludeDispatchKeyGuard(_MODES):
        return tensor.detach()


def in_checkpoint() -> bool:
    """Whether a checkpoint without reentrance is running its function: it packs saved tensors to drop them."""
    hooks = top_saved_hooks()
    return hooks is not None and "checkpoint" in getattr(hooks[0], "__module__", "")


@contextmanager
def without_saved_hooks() -> Iterator[None]:
    """Without saved-tensor hooks: no hook sees what is saved inside the block."""
    with ExitStack() as stack:
        while top_saved_hooks() is not None:
            stack.enter_context(popped_saved_hooks())
        yield


def version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was written into, as autograd counts; None for tensors made in inference mode."""
    return None if tensor.is_inference() else tensor._version


Noted = tuple[torch.Tensor, torch.Tensor, int | None]
"""A tensor, a copy of the values that it had, and the version that it had."""


def put_back(noted: Sequence[Noted]) -> None:
    """Write into tensors the values that they had, all at once where torch can, else one by one."""
    tracked = [(tensor, value) for tensor, value, number in noted if number is not None]
    if tracked and not any(tensor.is_nested for tensor, _ in tracked):  # for nested ones torch has no such kernel
        tensors, values = zip(*tracked, strict=True)
        with torch.no_grad():
            torch._foreach_copy_(tensors, values)
    else:
        put_each_back([(tensor, value, 0) for tensor, value in tracked])
    put_each_back([(tensor, value, None) for tensor, value, number in noted if number is None])
    set_versions([(tensor, number) for tensor, _, number in noted])


def put_each_back(noted: Sequence[Noted]) -> None:
    """The same one by one; a tensor made in inference mode, which has no version, is written in that mode."""
    for tensor, value, number in noted:
        with torch.inference_mode() if number is None else torch.no_grad():
            tensor.copy_(value)


def set_versions(numbers: Sequence[tuple[torch.Tensor, int | None]]) -> None:
    """Give tensors the versions that they had, so that graphs which saved them may go on."""
    known = [(tensor, number) for tensor, number in numbers if number is not None]
    if known:
        torch._C._autograd._unsafe_set_version_counter(*zip(*known, strict=True))


def inner_tensors(wrapper: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors that a wrapper subclass (DTensor, jagged, quantised) holds, by attribute; none for a plain tensor."""
    if not is_wrapper_subclass(wrapper):
        return {}
    names, _ = wrapper.__tensor_flatten__()  # type: ignore[attr-defined]
    found = {name: getattr(wrapper, name, None) for name in names}
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, torch.Tensor)}


def python_body(func: Any) -> Callable[..., Any] | None:
    """The Python function behind an op made with torch.library.custom_op, for the device at hand."""
    from torch._library.custom_ops import OPDEFS

    definition = OPDEFS.get(func._schema.name)
    if definition is None:
        return None
    bodies: dict[str | None, Callable[..., Any]] = definition._backend_fns
    return bodies.get(None) or bodies.get("cpu") or definition._init_fn


def kernel(func: Any, *keys: str) -> Callable[..., Any] | None:
    """The first kernel that the op has for one of the dispatch keys; asking for a missing one would crash."""
    for key in keys:
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key):
            dispatch_key = getattr(torch._C.DispatchKey, key)
            return lambda *args, **kwargs: func._op_dk(dispatch_key, *args, **kwargs)
    return None


def bypasses_call(wrapper: Any) -> bool:
    """Whether a wrapper of torch.compile runs its module by the `__call__` that it kept when it was made."""
    return isinstance(getattr(wrapper.forward, "_torchdynamo_orig_callable", None), MethodType)


_REDUCTION_TAG = getattr(torch.Tag, "reduction", None)  # since 2.10; older ones go by the names below
_REDUCTIONS = frozenset(
    f"aten::{name}"
    for name in (
        "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "linalg_vector_norm", "logsumexp",
        "max", "mean", "min", "nansum", "norm", "prod", "std", "std_mean", "sum", "var", "var_mean",
    )
)  # fmt: skip
_POINTWISE = frozenset(("aten::ldexp", "aten::leaky_relu"))  # tagged since 2.10


def is_pointwise(func: Any) -> bool:
    """Whether each element of the op's result comes from one element of every operand."""
    return torch.Tag.pointwise in func.tags or func._schema.name in _POINTWISE


def is_reduction(func: Any) -> bool:
    """Whether the op makes few elements of many: a sum, a mean, a maximum."""
    return func._schema.name in _REDUCTIONS if _REDUCTION_TAG is None else _REDUCTION_TAG in func.tags


def by_op(named: Mapping[str, Value]) -> dict[Any, Value]:
    """The same table by op instead of by name (`aten.mm.default`), without the ops that this torch does not have."""
    found = {}
    for name, value in named.items():
        namespace, packet, overload = name.split(".")
        op = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload, None)
        if op is not None:
            found[op] = value
    return found


def is_composite(func: Any) -> bool:
    """Whether the op is written in terms of other ops."""
    return bool(func._can_decompose())


_compiler_wanted = False
"""Whether the eager stance may import the compiler: only once code is about to be compiled."""


def _set_stance() -> Callable[[], None] | None:
    if not (_compiler_wanted or compiler_imported()):
        return None
    stance = torch.compiler.set_stance("force_eager")
    return lambda: stance.__exit__(None, None, None)


_eager: Shared[object] = Shared(_set_stance)
"""Compiled code runs as plain Python. The stance is the process's own."""


def hold_stream(seconds: float) -> None:
    """Keep the current CUDA stream busy for about that long; the device's clock is taken as 2 GHz."""
    torch.cuda._sleep(int(seconds * 2e9))


def compiler_imported() -> bool:
    """Whether anything can have been compiled yet."""
    return "torch._dynamo" in sys.modules


def eager_stance() -> AbstractContextManager[None]:
    """A context in which code that is compiled already runs as plain Python."""
    return _eager.used_by(object())


def hold_back_compiler() -> None:
    """Inside that context, let what is compiled from now on run as plain Python too."""
    global _compiler_wanted  # noqa: PLW0603
    _compiler_wanted = True
    try:
        _eager.settle()
    finally:
        _compiler_wanted = False


def runs_eager() -> bool:
    """Whether compiled code runs as plain Python because of us."""
    return bool(_eager.users)


SPARE_AUTOCAST = "AutocastIPU"
"""The dispatch key of a device that torch has no kernels for: casts that are registered there touch nothing else."""
_SPARE: Any = torch._C.DispatchKey.AutocastIPU  # type: ignore[attr-defined]


def autocast_ops(device: str) -> dict[str, Any]:
    """The ops that autocast has a say in on a device, by name."""
    key = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}.get(device)
    names = [] if key is None else torch._C._dispatch_get_registrations_for_dispatch_key(key)
    found = {}
    for name in names:
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if namespace == "aten" and op is not None:
            found[rest] = op
    return found


def register_spare_autocast(kernels: Mapping[str, Callable[..., Any]]) -> Callable[[], None]:
    """Register casts of aten's ops under the spare key, where other ops pass; gives what takes them off again."""
    others, library = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, SPARE_AUTOCAST)
    for name, kernel_of_it in kernels.items():
        library.impl(name, kernel_of_it, SPARE_AUTOCAST)

    def unregister() -> None:
        library._destroy()
        others._destroy()

    return unregister


def is_view(tensor: torch.Tensor) -> bool:
    """Whether autograd knows a tensor as a view of another."""
    return tensor._is_view()


_set_autocast = torch.set_autocast_enabled


@contextmanager
def without_autocast(device: str) -> Iterator[None]:
    """No autocast inside the block; whoever watches it being switched does not see this."""
    on = torch.is_autocast_enabled(device)
    _set_autocast(device, False)
    try:
        yield
    finally:
        _set_autocast(device, on)


def use_spare_autocast(*, on: bool) -> None:
    """Have this thread's ops go through the casts registered under the spare key, or no longer."""
    torch._C._dispatch_tls_set_dispatch_key_excluded(_SPARE, not on)
    torch._C._dispatch_tls_set_dispatch_key_included(_SPARE, on)


def without_spare_autocast() -> Any:
    """A context in which ops do not go through those casts."""
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_SPARE))
