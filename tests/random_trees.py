"""Random module trees, with stacks of like blocks and tied parameters, for the properties that hold of every tree."""

from dataclasses import replace

from hypothesis import strategies as st
from profiles import module, rooted

from flopsight.results.costs import Cost, OpRow
from flopsight.results.records import Parameter

small = st.integers(0, 5)
costs = st.builds(Cost, macs=small, flops=st.integers(10, 20) | st.just(0), bytes=small)
parameters = st.lists(st.builds(Parameter, key=st.integers(0, 3), name=st.just("w"), numel=st.just(7)), max_size=2)
ops = st.lists(
    st.builds(
        OpRow,
        op=st.sampled_from(["aten.mm", "aten.add"]),
        phase=st.just("forward"),
        calls=st.integers(1, 3),
        cost=costs,
    ),
    max_size=2,
)
times = st.none() | st.just(0.0) | st.floats(1e-9, 1)


@st.composite
def nodes(draw, children=()):
    return module(
        "", draw(st.sampled_from(["Linear", "Block"])), *_named(draw, children), params=draw(parameters), calls=draw(st.integers(0, 2)),
        macs=draw(small), flops=draw(st.integers(10, 20)), backward=draw(costs), recompute=draw(costs), optimizer=draw(costs),
        latency=draw(times), saved=draw(small), ops=tuple(draw(ops)), backward_latency=draw(times), allocated_bytes=draw(st.none() | small),
        own_peak_bytes=draw(small),
    )  # fmt: skip


def _named(draw, children):
    """Siblings: each may be repeated, and all get names of one of the usual kinds."""
    repeated = [child for child in children for _ in range(draw(st.integers(1, 3)))]
    form = draw(st.sampled_from(["{}", "block{}", "part_{}_x"]))
    return tuple(replace(child, name=form.format(place)) for place, child in enumerate(repeated))


trees = st.recursive(
    nodes(), lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(lambda c: nodes(children=c)), max_leaves=6
).map(rooted)
