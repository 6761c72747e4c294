"""A small machine and workload whose figures are easy to add up by hand."""

from dataclasses import replace

from flopsight.analysis.plan.job_case import Case
from flopsight.analysis.plan.machine import Machine
from flopsight.analysis.plan.workload import Part, Workload
from flopsight.hardware.kernel_shares import Shares
from flopsight.results.ceilings import Ceilings
from flopsight.results.costs import Cost, OpRow

SHARES = Shares(
    products=0.5, attention=0.25, convolutions=0.5, batch_norm=0.1, memory=1.0, between_nodes=80, nvlink=0.5, network=1.0, latency=0.0,
    host=1e9, overlap=0.0,
)  # fmt: skip
CEILINGS = Ceilings(name="toy", flops={"bfloat16": 1e12}, bandwidth=1e11, memory=10**10, link=2e11)
MACHINE = Machine(CEILINGS, SHARES, gpus_per_node=8, chunks=1, fragments=0.0, reserved=0, launch=0.0, kernel=0.0)
"""Products at 0.5 TFLOP/s, attention at 0.25, 100 GB/s memory and in a node, 10 GB/s for each network card."""


def product(phase, seconds):
    """A product that takes so long on this machine."""
    return OpRow("aten.mm", phase, 1, Cost(macs=int(seconds * 0.25e12), bytes=1), dtype="bfloat16", kind="matrix")


def pointwise(phase, seconds):
    """A pointwise op that takes so long on this machine."""
    return OpRow("aten.add", phase, 1, Cost(bytes=int(seconds * 1e11)), dtype="bfloat16", kind="pointwise")


BLOCK = Part((product("forward", 1.0), product("backward", 2.0)), params=10**6, saved=1000, model_flops=3e12, count=4)
REST = Part((product("forward", 0.5), product("backward", 1.0)), params=2 * 10**6, saved=500, model_flops=1.5e12)
WORK = Workload((BLOCK,), REST, alive=10_000, alive_in_block=3000, handed_on=10**9, samples=1, tokens=100)
"""Four blocks of 1 s forward and 2 s backward, 0.5 s and 1 s outside of them."""


def case(mesh=None, accumulate=1, **changes):
    """A job on this mesh."""
    return replace(Case(mesh or {"dp": 1}, 1, accumulate), **changes)
