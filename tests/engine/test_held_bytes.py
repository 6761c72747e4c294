"""Bytes of parameters are those that are held: codes and scales of a quantised weight, the shard of a sharded one."""

import torch
from torch import nn
from torch.utils._python_dispatch import return_and_correct_aliasing

import flopsight

OUT, IN = 64, 32


class Int8(torch.Tensor):
    """A weight that looks like floats and holds one byte an element with a scale a row."""

    @staticmethod
    def __new__(cls, codes, scales):
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scales.dtype)

    def __init__(self, codes, scales):
        self.codes, self.scales = codes, scales

    def __tensor_flatten__(self):
        return ["codes", "scales"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, _meta, _size, _stride):
        return cls(inner["codes"], inner["scales"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            (same,) = args
            return return_and_correct_aliasing(func, args, kwargs or {}, cls(same.codes, same.scales))
        plain = [arg.codes * arg.scales if isinstance(arg, cls) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


def test_a_quantised_weight_takes_the_bytes_of_its_codes_and_scales(tmp_path):
    model = nn.Linear(IN, OUT, bias=False)
    codes, scales = torch.ones(OUT, IN, dtype=torch.int8), torch.ones(OUT, 1)
    model.weight = nn.Parameter(Int8(codes, scales), requires_grad=False)

    profile = flopsight.count(model, (torch.ones(4, IN),))

    assert profile.params == OUT * IN
    assert profile.root.param_bytes == OUT * IN * 1 + OUT * 4
    assert flopsight.load(profile.save(tmp_path / "p.json")).root.param_bytes == profile.root.param_bytes
