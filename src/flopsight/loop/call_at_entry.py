"""A call of a model as it was when the model was entered, so that it can be counted after it has run.

Counting first would be simpler, but any pause before a short call leaves cold caches, and the call then takes longer
than it does in its loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from ..capture.count.tape import Tape
from ..capture.hooks import internals
from ..capture.model.model_run import ModelRun
from ..capture.model.restore import AttributeContents
from ..capture.twin.known_values import forget, remember, was_written
from ..capture.twin.meta_copy import FEW, NoTwinError, make_twin, on_meta, refusal
from ..engine.counting import Recording, apart, count_on_twin, kept
from ..engine.run_profile import Options
from .copied_call import CopiedCall, copied_call


class CallAtEntry:
    """What the count of a call depends on: metadata of the inputs, attributes of the modules, versions of tensors."""

    def __init__(self, run: ModelRun) -> None:
        """Raises NoTwinError if it is known by now that the call cannot be counted on a twin."""
        why = refusal(run.model)
        if why is not None:
            raise NoTwinError(why)
        self.run = run
        self._parameters: list[torch.Tensor] = []
        """The memory of the parameters of the twin that was counted."""
        modules = list(run.model.named_modules())
        with internals.without_modes(), torch.no_grad():
            self._inputs = on_meta((run.args, dict(run.kwargs or {})))
            # path, name, tensor, its version and, of a small one, its values
            self._held = [
                (path, name, tensor, internals.version(tensor), tensor.clone() if tensor.numel() <= FEW else None)
                for path, name, tensor in _held_tensors(modules)
            ]
        self._attributes = AttributeContents(vars(module) for _, module in modules)

    def count_on_twin(self) -> Tape:
        """Count the call on a meta twin of the model as it was at entry; raises NoTwinError if that cannot be."""
        counted = count_on_twin(self.run, make=self._twin)
        self._parameters = counted.parameters
        return counted.recording.tape

    def copied(self) -> CopiedCall | None:
        """The call as a copy may make it again; None if there can be none, or the call writes into parameters."""
        if any(map(was_written, self._parameters)):
            return None
        with self._attributes_at_entry():
            return copied_call(self.run)

    def count_again(self) -> Tape:
        """Count the call by making it once more, from the state at entry; what that changes is put back."""
        recording = Recording(self.run.model, Options(run=self.run))
        with apart(), kept(self.run):
            self._attributes.put_back()
            with recording:
                self.run.forward()
        return recording.tape

    def _twin(self, run: ModelRun) -> ModelRun:
        with self._attributes_at_entry():
            model, _ = make_twin(run.model)
        for path, name, tensor, version, values in self._held:
            if internals.version(tensor) != version:  # the call wrote into it: the twin may know only what it held
                twin = getattr(model.get_submodule(path), name)
                forget(twin)
                if values is not None:
                    remember(twin, values)
        args, kwargs = self._inputs
        return replace(run, model=model, args=args, kwargs=kwargs)

    @contextmanager
    def _attributes_at_entry(self) -> Iterator[None]:
        """The model's attributes as they were before the call."""
        after = AttributeContents(vars(module) for module in self.run.model.modules())
        self._attributes.put_back()
        try:
            yield
        finally:
            after.put_back()


def _held_tensors(modules: Iterable[tuple[str, nn.Module]]) -> list[tuple[str, str, torch.Tensor]]:
    """Buffers, and tensors that modules keep as ordinary attributes, with their places."""
    return [
        (path, name, value)
        for path, module in modules
        for held in (module._buffers, vars(module))
        for name, value in held.items()
        if isinstance(value, torch.Tensor)
    ]
