"""What a user writes: every line passes, and no result is Any."""

from typing import assert_type

import torch

import flopsight
from flopsight.results.plan import Plan
from flopsight.results.run import Run

model = torch.nn.Linear(8, 2)
result = flopsight.profile(model, (torch.ones(4, 8),), warmup=3, repeats=10, train=True)
assert_type(result, flopsight.Profile)
assert_type(flopsight.count(model, input_shape=(4, 8), on="meta"), flopsight.Profile)
assert_type(result.flops, int)
assert_type(result.params, int)
assert_type(result.latency, float | None)
assert_type(result.forward, flopsight.Cost)
assert_type(result.forward.macs, int)
assert_type(result["layers.0"], flopsight.Node)
assert_type(result.root.total.backward, flopsight.Cost)
assert_type(result.root.params, int)
assert_type(result.root.activation_bytes, int)
assert_type(result.root.kind, str)
assert_type(result.root.latency, float | None)
assert_type([node.path for node in result.walk()], list[str])
assert_type(result.render("table", depth=2), str)
assert_type(result.coverage.share, float)
assert_type(result.timing.forward.median if result.timing.forward else 0.0, float)

loaded = flopsight.load(result.save("p.json"))
assert_type(loaded, flopsight.Profile | flopsight.Job | flopsight.Generation | flopsight.Sweep | Run | Plan)
if isinstance(loaded, flopsight.Profile):
    assert_type(flopsight.compare(result, loaded), flopsight.Comparison)
    assert_type(flopsight.compare(result, loaded).render("markdown"), str)
assert_type(result.findings, tuple[flopsight.Finding, ...])

swept = flopsight.sweep("zoo:lenet", {"batch": [1, 2]})
assert_type(swept, flopsight.Sweep)
assert_type(swept.points[0].profile, flopsight.Profile | None)

with flopsight.recording(model) as seen:
    model(torch.ones(4, 8))
assert_type(seen.profile, flopsight.Profile)

profiler = flopsight.FlopsProfiler(model)
profiler.start_profile()
assert_type(profiler.profile, flopsight.Profile)


@flopsight.formula("mylib.myop")
def price(call: flopsight.OpRecord) -> flopsight.Cost:
    """One operation for every element."""
    return flopsight.Cost(flops=call.output.numel)
