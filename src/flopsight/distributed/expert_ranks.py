"""Expert parallelism by a model's own plan: each rank has some experts, and tokens are sent to those they chose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from ..errors import InputError, does_not_divide
from .tp_styles import library_style, planned

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

WEIGHTS, EXCHANGE = "grouped_gemm", "ep_dispatch_experts"
"""transformers' styles: weights that hold one expert after the other, and the module that sends tokens to them."""


def spread_experts(model: nn.Module, mesh: DeviceMesh) -> list[nn.Module]:
    """Leave on this rank its experts, and send tokens to the others' as transformers does; gives the modules of experts.

    Every rank has inputs of its own, so that the tokens of all of them are exchanged.
    """
    plan: Any = getattr(model, "_ep_plan", None)
    entries = list(planned(model, plan)) if isinstance(plan, Mapping) else []
    if not entries:
        raise InputError(
            f"ep={mesh.size()} divides experts by a model's own plan (transformers' `_ep_plan`), and this model brings none; "
            f"leave ep out."
        )
    found = []
    for path, module, parameter, name in entries:
        style = library_style(name)
        if style is None or name not in (WEIGHTS, EXCHANGE):
            raise InputError(
                f"The expert-parallel plan of this model divides {path} ({type(module).__name__}) as {name!r}, which a dry "
                f"run does not build: it builds {WEIGHTS!r} and {EXCHANGE!r} of transformers 5.21 or newer. Leave ep out."
            )
        if parameter is None:
            style.install_forward(module, mesh)
            found.append(module)
        else:
            weights: Any = module._parameters[parameter]
            if weights.shape[0] % mesh.size():
                experts = weights.shape[0]
                raise does_not_divide("ep", mesh.size(), experts, f"the {experts} experts of this model")
            style.shard_param(module, parameter, mesh)
    return found
