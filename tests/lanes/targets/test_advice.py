"""No advice for an architecture of the page names a move that the model makes already or that cannot apply."""

import inspect
import re
from dataclasses import dataclass
from math import prod

import architectures
import pytest
import torch

import flopsight
from flopsight.analysis.findings import findings
from flopsight.analysis.headline import headline
from flopsight.analysis.limits.roofline import ceilings_for
from flopsight.targets.blueprint import Sizes
from flopsight.targets.loading import load_target

DEVICES = ("h100-sxm", "t4", "mi300x")
NUMBER = r"([\d.]+) (ns|us|ms|s)\b"
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
TRAINED = architectures.TYPES[::4]
"""Every fourth type is trained too: a step takes about twice as long to count as a forward."""


@dataclass
class Seen:
    """What the rules are held against: the profile, and what only the model itself knows."""

    profile: flopsight.Profile
    takes: frozenset
    """Names of the arguments of the model's forward."""


def counted(name, folder, *, train):
    """The profile of an architecture as it is saved and loaded, and its model's arguments."""
    torch.manual_seed(0)
    sizes = Sizes(batch=2 if name in architectures.PAIRS else None)
    meta = name not in architectures.REAL
    target = load_target(f"hf:{architectures.target_text(name)}", meta=meta, sizes=sizes, train=train)
    with torch.set_grad_enabled(train):
        profile = flopsight.count(
            target.model.train(train), target.args, target.kwargs, train=train, on="meta" if meta else "real"
        )
    path = folder / "p.json"
    profile.save(path)
    return Seen(flopsight.load(path), frozenset(inspect.signature(target.model.forward).parameters))


def broken(seen, on):
    """What the findings of a profile say on a device that cannot be."""
    profile, ceilings = seen.profile, ceilings_for(seen.profile, on)
    limit = profile.limit(on) or 0.0  # without a known peak no time can be promised
    paths = {node.path for node in profile.walk()}
    for finding in findings(profile, on):
        text = f"{finding.name} on {on}: {finding}"
        if not (finding.seconds or finding.bytes):
            yield f"nothing to win: {text}"
        if finding.seconds < 0 or finding.seconds > limit * 1.0001 or not 0 <= finding.share <= 1:
            yield f"more than the step of {limit} s to win: {text}"
        if not finding.blocks and finding.bytes > (profile.peak_bytes or 0) and profile.peak_bytes:
            yield f"more memory to win than there is: {text}"
        if not set(finding.where) <= paths:
            yield f"a module that is not in the model: {text}"
        if any(float(share) > 100 for share in re.findall(r"([\d.]+)%", str(finding))):
            yield f"a part above its whole: {text}"
        if any(float(time) * SECONDS[unit] > limit * 1.01 for time, unit in re.findall(NUMBER, finding.evidence)):
            yield f"a time that is longer than the step of {limit} s: {text}"
        yield from (f"{why}: {text}" for why in MOVES.get(finding.name, no_rule)(seen, finding, ceilings))
    for share in re.findall(r"([\d.]+)%", " ".join(headline(profile, on)[1:4])):
        if float(share) > 100:
            yield f"a share of {share} % in the headline on {on}"


def no_rule(_seen, _finding, _ceilings):
    return ()


def attention(seen, finding, _ceilings):
    """Every module named has scores: a softmax over the last axis, a product that makes them and one that takes them."""
    for path in finding.where:
        rows = [row for row in seen.profile[path].ops if row.phase == "forward"]
        softmax = [row for row in rows if "softmax" in row.op]
        if any("_safe_softmax" in row.op for row in softmax):
            yield f"{path} runs scaled_dot_product_attention already"
        scores = {prod(shape) for row in softmax for shapes in row.shapes for shape in shapes[:1]}
        pairs = [shapes[-2:] for row in rows if "bmm" in row.op or row.op == "aten.matmul" for shapes in row.shapes]
        made = any(prod(a[:-1]) * b[-1] in scores for a, b in pairs)
        used = any({prod(a), prod(b)} & scores for a, b in pairs)
        if not (made and used):
            yield f"{path} makes no scores, or does not use them"


def batch(seen, finding, ceilings):
    most = int(re.search(r"up to about (\d+)", finding.next_move)[1])
    if most <= seen.profile.batch_size:
        yield "a larger batch that is not larger"
    if seen.profile.peak_bytes > ceilings.memory:
        yield "a larger batch in a memory that is too small as it is"


def memory(seen, finding, ceilings):
    if "smaller batch" in finding.next_move and (seen.profile.batch_size or 1) < 2:
        yield "a smaller batch than one"
    for dtype in re.findall(r"bfloat16|float16", finding.next_move):
        if not ceilings.peak(dtype) or seen.profile.environment.dtype == dtype:
            yield f"{dtype}, which the device lacks or the model has"


def precision(seen, finding, ceilings):
    dtype = re.search(r"dtype=torch\.(\w+)", finding.next_move)[1]
    if not ceilings.peak(dtype):
        yield f"{dtype}, which the device lacks"
    rows = [row for path in finding.where for row in seen.profile[path].ops if row.cost.macs]
    if all(row.dtype == dtype for row in rows):
        yield f"{dtype}, which the products run in"
    if "TF32" in finding.next_move and "float32/cudnn" not in ceilings.flops:
        yield "TF32, which the device lacks"
    stated = re.findall(r"at ([\d.]+) ([GTP])FLOP/s", finding.evidence)
    for rate, unit in stated:
        peak = float(rate) * {"G": 1e9, "T": 1e12, "P": 1e15}[unit]
        if not any(abs(peak / known - 1) < 0.01 for known in ceilings.flops.values()):
            yield f"a peak of {rate} {unit}FLOP/s, which no unit has"


def head(seen, finding, _ceilings):
    positions = seen.profile[finding.where[0]].output_shapes[0][-2]
    if "only the last" in finding.next_move and (positions < 2 or "logits_to_keep" not in seen.takes):
        yield "the last position of one, or of a model that cannot leave out the others"
    if "chunks" in finding.next_move and (finding.seconds or not seen.profile.trained):
        yield "a loss in chunks that saves time, or without a loss"


def unused(seen, finding, _ceilings):
    if "optimizer" in finding.next_move and not seen.profile.trained:
        yield "an optimizer without training"
    if any(seen.profile[path].own.forward.macs for path in finding.where if "never ran" in finding.what):
        yield "a module that ran"


def fusion(_seen, finding, _ceilings):
    if not finding.win.startswith("at most"):
        yield "a win that is not a bound"


def embedding(seen, finding, _ceilings):
    keys = {parameter.key for parameter in seen.profile[finding.where[0]].parameters}
    others = (node for node in seen.profile.walk() if node.own.forward.macs)
    if any(parameter.key in keys for node in others for parameter in node.parameters):
        yield "a sparse gradient of a table that a product uses too"


MOVES = {
    "attention": attention,
    "batch": batch,
    "memory": memory,
    "precision": precision,
    "head": head,
    "unused": unused,
    "fusion": fusion,
    "embedding": embedding,
}


@pytest.mark.parametrize("name", architectures.TYPES)
def test_advice_on_a_forward_applies(name, tmp_path):
    seen = counted(name, tmp_path, train=False)

    assert [said for on in DEVICES for said in broken(seen, on)] == []


@pytest.mark.parametrize("name", TRAINED)
def test_advice_on_a_training_step_applies(name, tmp_path):
    seen = counted(name, tmp_path, train=True)

    assert [said for on in DEVICES for said in broken(seen, on)] == []
