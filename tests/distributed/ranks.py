"""Profiles as ranks of one job would make them, worked out by hand."""

from flopsight.results.costs import Cost, Phases
from flopsight.results.node import Node
from flopsight.results.profile import Environment, Profile
from flopsight.results.records import Parameter
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import Whole, World

MACS, PARAMS = 4_096, 512


def rank(number, size=2, *, macs=MACS, params=PARAMS, seconds=None, names=("up", "down"), **world):
    """A rank whose two layers share its MACs and parameters evenly."""
    layers = tuple(
        Node(
            name, name, "Linear", own=Phases(forward=Cost(macs=macs // 2)),
            parameters=(Parameter(key, "weight", params // 2, expert=name.startswith("expert")),),
            calls=1, input_shapes=((8, 16),), latency=seconds,
        )
        for key, name in enumerate(names)
    )  # fmt: skip
    root = Node("", "", "Pair", children=layers, calls=1, latency=seconds)
    timing = Timing(forward=Stat((seconds,))) if seconds else Timing()
    facts = {"unsharded": world.pop("unsharded", None), "part": world.pop("part", "")}
    environment = Environment(job=world.pop("job", ""))
    return Profile(root, timing=timing, environment=environment, world=World(size, number, **world), **facts)


def halves(number, size=2):
    """A rank of tensor parallelism, which knows the whole."""
    return rank(number, size, model_parallel=size, unsharded=Whole(size * PARAMS, size * MACS, 2 * size * MACS))
