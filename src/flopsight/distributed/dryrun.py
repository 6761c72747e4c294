"""One rank of a job that does not run: torch's fake process group stands for the other ranks, in this process alone."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from torch.futures import Future

from ..capture.hooks.patches import wrapped
from ..capture.hooks.release import TORCH
from ..errors import StateError
from .mesh_axes import written

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

OLDEST = (2, 11)
"""Before it, the fake group refuses tensors without data."""
FSDP2 = "torch.distributed.fsdp._fully_shard"


@contextmanager
def dry_job(mesh: Mapping[str, int], rank: int = 0) -> Iterator[DeviceMesh]:
    """Be this rank of a job inside the block: collectives return at once, and parameters may stay without data.

    Axes of size 1 are left out of the device mesh, as a real job would leave them out.
    """
    if not distributed.is_available():
        raise StateError("This torch is built without torch.distributed, so a mesh cannot be tried with it.")
    if TORCH < OLDEST:
        raise StateError(f"A mesh can be tried with torch 2.11 or newer; this is {torch.__version__}.")
    if distributed.is_initialized():
        raise StateError(
            f"A dry run makes a process group of its own, and this process is rank {distributed.get_rank()} of "
            f"{distributed.get_world_size()} already: try the mesh {written(mesh)} in a process outside that job."
        )
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore  # this import registers the fake backend

    named = {name: size for name, size in mesh.items() if size > 1} or {"dp": 1}
    distributed.init_process_group("fake", rank=rank, world_size=prod(named.values()), store=FakeStore())
    try:
        with _sharding_without_data(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="torch.distributed")  # about wrappers that are ours
            yield init_device_mesh("cpu", tuple(named.values()), mesh_dim_names=tuple(named))
    finally:
        distributed.destroy_process_group()
        _forget_groups()


class Answering(distributed.ProcessGroup):
    """The fake group for DistributedDataParallel, which asks for a result: the tensors themselves."""

    def __init__(self, fake: distributed.ProcessGroup) -> None:
        super().__init__(fake.rank(), fake.size())  # type: ignore[call-arg]
        self._fake = fake

    def allreduce(self, tensors: list[torch.Tensor], *options: Any) -> Any:  # type: ignore[override]
        """Reduce in the fake group, where the collective is counted, and hand the tensors back."""
        self._fake.allreduce(tensors, *options)
        done: Future[Any] = Future()
        done.set_result(tensors)
        return torch._C._distributed_c10d._create_work_from_future(done)  # type: ignore[attr-defined]

    def getBackendName(self) -> str:  # noqa: N802  # torch's name
        """What DistributedDataParallel logs."""
        return "fake"

    @property
    def group_name(self) -> Any:
        """The name of the fake group."""
        return self._fake.group_name


@contextmanager
def _sharding_without_data() -> Iterator[None]:
    """Let FSDP2 shard parameters on meta: it refuses them, and it would order their memory on a device's streams."""
    from torch.distributed import fsdp  # noqa: F401  # its private parts are imported with it

    group = getattr(sys.modules.get(f"{FSDP2}._fsdp_param_group"), "FSDPParamGroup", None)
    places = [
        (group, "_validate_no_meta_params"),
        (sys.modules.get(f"{FSDP2}._fsdp_collectives"), "record_grad_output_stream"),
    ]
    with ExitStack() as stack:
        for home, name in places:
            if hasattr(home, name):
                stack.enter_context(wrapped(home, name, _nothing))
        yield


def _nothing(_plain: Any) -> Any:
    return lambda *_args, **_kwargs: None


def _forget_groups() -> None:
    """Clear what DTensor remembers of meshes: an equal mesh of the next job would be given groups that are gone."""
    from torch.distributed.tensor import DTensor

    DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding.cache.cache_clear()
    clear_fast_path = getattr(torch._C, "_clear_DTensor_sharding_propagator_cache", None)  # from torch 2.10 on
    if clear_fast_path is not None:
        clear_fast_path()
