"""What is alive after a forward, found without flopsight: weak references to every storage that an op returned."""

import gc

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Births(TorchDispatchMode):
    """Every storage that an op returns, held weakly, by the bytes it has."""

    def __init__(self, there):
        super().__init__()
        self._there = {StorageWeakRef(tensor.untyped_storage()).cdata for tensor in there}
        self._born = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        for tensor in tensors(output):
            storage = tensor.untyped_storage()
            reference = StorageWeakRef(storage)
            if reference.cdata not in self._there:
                self._born[reference.cdata] = (reference, storage.nbytes())
        return output

    @property
    def bytes(self):
        """Of those that are still there."""
        gc.collect()
        return sum(size for reference, size in self._born.values() if not reference.expired())


class Peak(Births):
    """The most bytes alive at once, looked at after every op: what was there before, and what ops made."""

    def __init__(self, there):
        there = list(there)
        super().__init__(there)
        self._base = sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in there}.values())
        self.most = self._base

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = super().__torch_dispatch__(func, types, args, kwargs)
        self._born = {key: birth for key, birth in self._born.items() if not birth[0].expired()}
        self.most = max(self.most, self._base + sum(size for _, size in self._born.values()))
        return output


def tensors(value):
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def kept_bytes(model, args=(), kwargs=None):
    """Bytes that only the graph of a loss keeps alive: neither parameters, buffers, inputs nor an unsaved output."""
    births = Births([*model.parameters(), *model.buffers(), *tensors((args, kwargs))])
    with births:
        loss = sum(output.sum() for output in tensors(model(*args, **(kwargs or {}))))
    graph = loss.grad_fn
    del loss
    found = births.bytes
    del graph
    return found
