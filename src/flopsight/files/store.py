"""A profile, a job of several ranks, a generation or a sweep, as a JSON file with a schema number; needs no torch.

`tree_codec` says how the module tree is written, `codec` how every other value is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import ProfileFileError
from ..results import caveats
from ..results.caveats import Caveat
from ..results.comm import CommRow
from ..results.costs import OpRow
from ..results.data_flow import DataFlow
from ..results.generation import Generation
from ..results.job import Job
from ..results.memory_curve import MemoryCurve
from ..results.node import Node
from ..results.plan import Plan
from ..results.profile import Profile
from ..results.rank_summary import fingerprint, summary_of
from ..results.records import PHASES, Span
from ..results.run import Run
from ..results.sweep import Sweep
from ..results.timings import Stat
from ..results.world import World
from .codec import (
    Codec,
    Convert,
    DamagedError,
    listed,
    member,
    number,
    one_of,
    shown,
    table,
    text,
    whole_number,
)
from .collector import collector_paused
from .sweep_codec import sweep_codec
from .tree_codec import TreeCodec
from .whole_files import read_text, write_text

SCHEMA = 2
"""Of the files that `save` writes. Schema 1 has nodes inside nodes; newer versions may add fields without a new number."""
KIND = "flopsight profile"
Saved = Profile | Job | Generation | Plan | Sweep
COMPACT = (",", ":")
ANY_SIGN = -(10**30)
MOST_RANKS = 10**6
"""A job is asked for its missing ranks one by one, so a size that no job has is refused."""


def save(profile: Saved, path: str | Path) -> Path:
    """Write a profile or a job; the directory is made if it is missing."""
    return write_text(path, dumps(profile))


def load(path: str | Path) -> Saved | Run:
    """Read the file `path` that `save` wrote: a Profile, a Job of several ranks, a Generation, a Plan, a Sweep or a monitored Run."""
    try:
        contents = read_text(path)
    except FileNotFoundError:
        raise ProfileFileError(f"There is no file {path}.") from None
    except (OSError, ValueError) as problem:
        raise ProfileFileError(f"{path} cannot be read: {problem}.") from None
    from .run_file import is_run, load_run

    return load_run(contents, str(path)) if is_run(contents) else loads(contents, str(path))


def load_profile(path: str | Path) -> Profile:
    """Read a profile; a job is read as the model that its ranks make up, a generation as the middle step of its decoding."""
    found = load_static(path)
    if isinstance(found, Generation):
        return found.middle
    return found.model if isinstance(found, Job) else found


def load_static(path: str | Path) -> Profile | Job | Generation:
    """Read anything but a monitored run, a plan and a sweep."""
    found = load(path)
    if isinstance(found, Plan | Run | Sweep):
        of = f" of {len(found.points)} points, not one" if isinstance(found, Sweep) else ", not a"
        what = {Plan: "plan", Run: "monitored run", Sweep: "sweep"}[type(found)]
        raise ProfileFileError(f"{path} is a {what}{of} profile. Show it: flopsight show {path}")
    return found


def dumps(profile: Saved) -> str:
    """A profile or a job as JSON text; a rank's profile has its summary in the first line."""
    page: dict[str, Any]
    with collector_paused():
        part, encode, _ = _CODINGS[type(profile)]
        if not isinstance(profile, Profile):
            page = {"kind": f"flopsight {part}", "schema": SCHEMA, part: encode(profile)}
            return json.dumps(page, separators=COMPACT)
        page = {"kind": KIND, "schema": SCHEMA}
        if profile.world.size > 1:
            page["summary"] = {"tree": fingerprint(profile.root), "profile": CODEC.encode(summary_of(profile))}
        head = json.dumps(page, separators=COMPACT).removesuffix("}")
        return f'{head},\n"profile":{json.dumps(CODEC.encode(profile), separators=COMPACT)}}}'


def loads(contents: str, source: str = "The text") -> Saved:
    """A profile or a job from JSON text."""
    from .run_file import is_run

    if is_run(contents):
        raise ProfileFileError(f"{source} is a monitored run, not a profile. Show it: flopsight show {source}")
    with collector_paused():
        page = _parse(contents, source)
        _check_schema(page, source)
        decode = {part: decode for part, _, decode in _CODINGS.values()}
        part = page["kind"].removeprefix("flopsight ")
        with _one_sentence(source, part):
            found: Saved = decode[part](page.get(part))
            return found


def loads_summary(line: str, source: str = "The text") -> tuple[str, Profile] | None:
    """The fingerprint of a rank's tree and its totals, from the first line of its file; None if it has none."""
    try:
        page = _parse(line.rstrip().removesuffix(",") + "}", source)
    except ProfileFileError:
        return None
    summary = page.get("summary")
    if page["kind"] != KIND or not isinstance(summary, dict):
        return None
    _check_schema(page, source)
    with _one_sentence(source, "summary"):
        return text(summary.get("tree")), _decode_profile(summary.get("profile"))


def _check_schema(page: Mapping[str, Any], source: str) -> None:
    schema = page.get("schema")
    if type(schema) is not int or schema < 1:
        raise ProfileFileError(f"{source} has schema {shown(schema)}; a schema is a whole number from 1 on.")
    if schema > SCHEMA:
        raise ProfileFileError(
            f"{source} has schema {schema}, this flopsight reads up to {SCHEMA}. Upgrade flopsight to read it."
        )


@contextmanager
def _one_sentence(source: str, part: str) -> Iterator[None]:
    """Say what is wrong with a file, and where in it."""
    try:
        yield
    except DamagedError as problem:
        raise ProfileFileError(f"{source} is a damaged flopsight profile: {part}{problem}.") from None
    except RecursionError:
        raise ProfileFileError(f"{source} is a damaged flopsight profile: it is nested too deeply.") from None


def _parse(contents: str, source: str) -> dict[str, Any]:
    try:
        page = json.loads(contents, parse_constant=_refuse_constant)
    except ValueError:
        raise ProfileFileError(f"{source} is not a flopsight profile: it is not JSON.") from None
    except RecursionError:
        raise ProfileFileError(f"{source} is not a flopsight profile: it is nested too deeply.") from None
    if not isinstance(page, dict) or page.get("kind") not in [f"flopsight {part}" for part, _, _ in _CODINGS.values()]:
        raise ProfileFileError(
            f"{source} is JSON, but not a flopsight profile. Make one: flopsight profile ... -o p.json"
        )
    return page


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _decode_profile(page: Any) -> Profile:
    root = page.get("root") if isinstance(page, dict) else None
    nested = isinstance(page, dict) and "root" in page and not (isinstance(root, dict) and "modules" in root)
    return CODEC.decode(Profile, page | {"root": _flattened(root)} if nested else page)


def _decode_generation(page: Any) -> Generation:
    made = CODEC.decode(Generation, page)
    numbers = [step.number for step in made.steps]
    wanted = {0, (made.new_tokens - 1) // 2, made.new_tokens - 1}
    if numbers != sorted(set(numbers)) or not wanted <= set(numbers):
        raise DamagedError(f".steps are those of the tokens {shown(numbers)}, and {made.new_tokens} tokens are new")
    return made


def _decode_plan(page: Any) -> Plan:
    decoded = CODEC.decode(Plan, page)
    if not decoded.options:
        raise DamagedError(".options is empty, and a plan has at least one")
    if any(not option.parts or not option.memory or option.samples < 1 for option in decoded.options):
        raise DamagedError(".options has one without a step, memory or samples")
    return decoded


def _flattened(root: Any) -> dict[str, Any]:
    """Schema 1 to 2: nodes inside nodes become one list."""
    rows, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        children = node.get("children", []) if isinstance(node, dict) else []
        if not isinstance(node, dict) or not isinstance(children, list):
            raise DamagedError(f".root holds {shown(node)} where a module should be")
        rows.append({**node, "children": len(children)})
        waiting.extend(reversed(children))
    return {"modules": rows}


def _encode_job(job: Job) -> dict[str, Any]:
    """Ranks that share a tree have it once in the file."""
    trees: dict[int, tuple[int, Any]] = {}
    ranks = []
    for rank, profile in sorted(job.ranks.items()):
        if id(profile.root) not in trees:
            trees[id(profile.root)] = len(trees), CODEC.encode(profile.root)
        ranks.append({"rank": rank, "tree": trees[id(profile.root)][0], "profile": _RANK_ENCODER(profile)})
    return {
        "size": job.size,
        "problems": {str(rank): why for rank, why in job.problems.items()},
        "left_out": list(job.left_out),
        "trees": [tree for _, tree in trees.values()],
        "ranks": ranks,
    }


def _decode_job(page: Any) -> Job:
    trees = member(page, "trees", partial(listed, partial(CODEC.decode, Node)))
    ranks = dict(member(page, "ranks", partial(listed, partial(_decode_rank, trees), least=1)))
    problems = {_rank_number(rank): text(why) for rank, why in member(page, "problems", table).items()}
    left_out = listed(text, page.get("left_out", []))  # earlier files do not have it
    return Job(ranks, member(page, "size", _number_of_ranks), problems, left_out)


def _decode_rank(trees: Sequence[Node], entry: Any) -> tuple[int, Profile]:
    tree = member(entry, "tree", whole_number)
    if tree >= len(trees):
        raise DamagedError(f".tree is {shown(tree)}, and there are {len(trees)} trees")
    return member(entry, "rank", whole_number), Profile(root=trees[tree], **member(entry, "profile", _RANK_DECODER))


def _rank_number(name: str) -> int:
    """The rank that a key of a table names."""
    if not (name.isascii() and name.isdecimal() and len(name) < 10):
        raise DamagedError(f".problems names {shown(name)}, not a rank")
    return int(name)


def _encode_caveat(caveat: Caveat) -> dict[str, Any]:
    return {"caveat": type(caveat).__name__, **CODEC.fields_encoder(type(caveat))(caveat)}


def _decode_caveat(page: Any) -> Caveat:
    if type(page) is not dict or type(page.get("caveat")) is not str:
        raise DamagedError(f" is {shown(page)}, not a caveat with its name")
    name = page["caveat"]
    fields = {key: value for key, value in page.items() if key != "caveat"}
    kind = caveats.all_kinds().get(name)
    if kind is None:  # a newer version knows more doubts
        return caveats.Note(f"{name}: {fields}")
    return kind(**CODEC.fields_decoder(kind)(fields))


def _decode_curve(page: Any) -> MemoryCurve:
    curve = MemoryCurve(**CODEC.fields_decoder(MemoryCurve)(page))
    columns = (*curve.kinds.values(), curve.modules, curve.phases)
    if not curve.at or any(len(column) != len(curve.at) for column in columns):
        raise DamagedError(" does not have one value a point in every column")
    return curve


def _decode_flow(page: Any) -> DataFlow:
    flow = DataFlow(**CODEC.fields_decoder(DataFlow)(page))
    if not len(flow.modules) == len(flow.turns) == len(flow.work) or not len(flow.sources) == len(flow.targets) == len(
        flow.bytes
    ):
        raise DamagedError(" does not have one value a place and one a flow in every column")
    if max((*flow.sources, *flow.targets), default=-1) >= len(flow.modules):
        raise DamagedError(f" leads to a place that is not there, and there are {len(flow.modules)}")
    return flow


_ANY_WHOLE = partial(whole_number, least=ANY_SIGN)
_number_of_ranks = partial(whole_number, most=MOST_RANKS)

CODEC = Codec(
    checks={
        (Node, "allocated_bytes"): lambda value: None if value is None else _ANY_WHOLE(value),
        (Span, "begin"): _ANY_WHOLE,
        (Span, "end"): _ANY_WHOLE,
        (Span, "lane"): _ANY_WHOLE,
        (Span, "kind"): one_of(("module", "op", "kernel")),
        (Span, "phase"): one_of(("", *PHASES)),
        (OpRow, "phase"): one_of(PHASES),
        (OpRow, "status"): one_of(("counted", "free", "unknown")),
        (CommRow, "phase"): one_of(PHASES),
        (Stat, "samples"): partial(listed, number, least=1),
        (World, "size"): _number_of_ranks,
    },
    names={"Caveat": Caveat, "Generation": Generation},
)
_TREE = TreeCodec(CODEC)
CODEC.add(Node, _TREE.encode, _TREE.decode)
CODEC.add(MemoryCurve, CODEC.fields_encoder(MemoryCurve), _decode_curve)
CODEC.add(DataFlow, CODEC.fields_encoder(DataFlow), _decode_flow)
CODEC.add(Caveat, _encode_caveat, _decode_caveat)
_RANK_ENCODER = CODEC.fields_encoder(Profile, {"root"})
_RANK_DECODER = CODEC.fields_decoder(Profile, {"root"})
_CODINGS: Mapping[type, tuple[str, Convert, Convert]] = {
    Profile: ("profile", CODEC.encode, _decode_profile),
    Job: ("job", _encode_job, _decode_job),
    Generation: ("generation", CODEC.encode, _decode_generation),
    Plan: ("plan", CODEC.encode, _decode_plan),
    Sweep: ("sweep", *sweep_codec(CODEC.encode, _decode_profile, _decode_generation)),
}
"""Every value that has a file: what the file calls it, how it is written and how it is read."""
