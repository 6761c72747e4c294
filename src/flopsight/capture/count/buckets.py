"""The buffers in which DistributedDataParallel averages gradients: how much memory they take, and whose gradients each holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import nn

from ..hooks import internals, parallel
from ..model.sites import Sites
from .live import BUCKETS, Live


class Buckets:
    """Follows gradients into buckets, where they are written when autograd hands them over."""

    def __init__(self, sites: Sites, live: Live | None) -> None:
        self.wrapper: nn.Module | None = None
        """The wrapper that averages gradients, where it is watched."""
        self._sites = sites
        self._live = live
        self._held: defaultdict[int, dict[str, None]] = defaultdict(dict)
        """By storage: names of the parameters whose gradients were written into it."""
        self._sent: set[int] = set()
        """Storages that were sent: what is written into them next is of another step."""
        self._last_read: int | None = None
        """The bucket that was read last: a communication hook sends what it makes of it."""
        self._views = False
        """Whether gradients are views of buckets."""

    def meet(self, root: nn.Module) -> None:
        """Look for wrappers in a model: they have their buckets already, whether this run fills them or not."""
        for wrapper in filter(parallel.averages_gradients, root.modules()):
            self.wrapper = self.wrapper or wrapper
            self._views |= bool(wrapper.gradient_as_bucket_view)
            if self._live is not None:
                self._live.expect(BUCKETS, parallel.bucket_bytes(wrapper))

    @cached_property
    def _parameters(self) -> dict[int, tuple[str, torch.Tensor]]:
        """Names and parameters by id."""
        roots = self._sites.roots.items()
        return {id(tensor): (name, tensor) for prefix, root in roots for name, tensor in root.named_parameters(prefix)}

    def note(self, args: Iterable[Any], written: Any) -> None:
        """An op ran in backward: where autograd hands a gradient over, it may have written it into a bucket."""
        node = internals.current_node()
        if node is not None and internals.node_sequence(node) < internals.NO_SEQUENCE:
            return
        for value in args:
            if isinstance(value, torch.Tensor) and internals.has_storage(value):
                key = internals.storage_key(value)
                self._last_read = key if key in self._held else self._last_read
        if node is not None and isinstance(written, torch.Tensor) and internals.has_storage(written):
            self._write(node.variable, written)

    def _write(self, parameter: torch.Tensor, written: torch.Tensor) -> None:
        if self._live is not None and not written.is_floating_point() and self.wrapper is not None:
            self._live.forget(written)  # the wrapper's own list of used parameters, in the first step or in every one
        if (written.shape, written.dtype) != (parameter.shape, parameter.dtype):
            return
        key, gradient = internals.storage_key(written), parameter.grad
        apart = gradient is None or not internals.has_storage(gradient) or internals.storage_key(gradient) != key
        if not apart and not self._views:
            return
        if key in self._sent:
            self._sent.discard(key)
            self._held[key] = {}
        name, _ = self._parameters.get(id(parameter), ("?", parameter))
        self._held[key][name] = None
        if self._live is not None and self.wrapper is not None:
            self._live.label(written, BUCKETS)

    def send(self, args: Mapping[str, Any]) -> tuple[str, ...]:
        """The parameters whose gradients are sent with these tensors."""
        tensors = [tensor for tensor in args.get("tensors", ()) if internals.has_storage(tensor)]
        buckets = [tensor for tensor in tensors if internals.storage_key(tensor) in self._held]
        trained = {name: parameter.nbytes for name, parameter in self._parameters.values() if parameter.requires_grad}
        if not buckets and sum(tensor.nbytes for tensor in tensors) == sum(trained.values()):
            buckets = tensors[:1]  # a static graph hands all gradients over at the end of its first backward
            self._held |= {internals.storage_key(tensor): dict.fromkeys(trained) for tensor in buckets}
        if self._live is not None:
            for tensor in buckets:
                self._live.label(tensor, BUCKETS)
        full = [internals.storage_key(tensor) for tensor in buckets]
        if not full and self._last_read is not None:
            full = [self._last_read]
        self._sent.update(full)
        return tuple(name for key in full for name in self._held[key])
