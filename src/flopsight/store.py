"""Profile or Job <-> JSON with a schema number; needs no torch."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from . import caveats
from .caveats import Caveat
from .errors import ProfileFileError
from .job import Job
from .rank_summary import fingerprint, summary_of
from .tree import Node, Profile

SCHEMA = 2
KIND, JOB = "flopsight profile", "flopsight job"
COMPACT = (",", ":")


def save(profile: Profile | Job, path: Path) -> Path:
    """Write a profile or a job; the directory is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps(profile), encoding="utf-8")
    return path


def load(path: str | Path) -> Profile | Job:
    """Read a profile, or a job of several ranks, that `save` wrote."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ProfileFileError(f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise ProfileFileError(f"{path} cannot be read: {problem}.") from None
    return loads(text, str(path))


def load_profile(path: str | Path) -> Profile:
    """Read a profile; a job is read as the model that its ranks make up."""
    found = load(path)
    return found.model if isinstance(found, Job) else found


def dumps(profile: Profile | Job) -> str:
    """A profile or a job as JSON text; a rank's profile has its summary in the first line."""
    if isinstance(profile, Job):
        return json.dumps({"kind": JOB, "schema": SCHEMA, "job": _encode_job(profile)}, separators=COMPACT)
    page = {"kind": KIND, "schema": SCHEMA}
    if profile.world.size > 1:
        page["summary"] = {"tree": fingerprint(profile.root), "profile": _encode(summary_of(profile))}
    head = json.dumps(page, separators=COMPACT).removesuffix("}")
    return f"{head},\n{json.dumps('profile')}:{json.dumps(_encode(profile), separators=COMPACT)}}}"


def loads(text: str, source: str = "The text") -> Profile | Job:
    """A profile or a job from JSON text."""
    page = _page(text, source)
    return _decoded(page, source)


def loads_summary(line: str, source: str = "The text") -> tuple[str, Profile] | None:
    """The fingerprint of a rank's tree and its totals, from the first line of its file; None where it has none."""
    try:
        page = json.loads(line.rstrip().removesuffix(",") + "}")
    except ValueError:
        return None
    if not isinstance(page, dict) or page.get("kind") != KIND or "summary" not in page:
        return None
    _check_schema(page, source)
    try:
        summary = page["summary"]
        decoded = _decode(Profile, summary["profile"])
        return str(summary["tree"]), decoded
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise _damaged(source, problem) from None


def _page(text: str, source: str) -> dict[str, Any]:
    try:
        page = json.loads(text)
    except ValueError:
        raise ProfileFileError(f"{source} is not a flopsight profile: it is not JSON.") from None
    if not isinstance(page, dict) or page.get("kind") not in (KIND, JOB):
        raise ProfileFileError(
            f"{source} is JSON, but not a flopsight profile. Make one: flopsight profile ... -o p.json"
        )
    _check_schema(page, source)
    return page


def _check_schema(page: dict[str, Any], source: str) -> None:
    if not isinstance(page.get("schema"), int) or page["schema"] > SCHEMA:
        raise ProfileFileError(
            f"{source} has schema {page.get('schema')}, this flopsight reads up to {SCHEMA}. Upgrade flopsight to read it."
        )


def _decoded(page: dict[str, Any], source: str) -> Profile | Job:
    try:
        decoded = _decode_job(page["job"]) if page["kind"] == JOB else _decode(Profile, page["profile"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as problem:
        raise _damaged(source, problem) from None
    assert isinstance(decoded, Profile | Job)
    return decoded


def _damaged(source: str, problem: Exception) -> ProfileFileError:
    return ProfileFileError(f"{source} is a damaged flopsight profile ({type(problem).__name__}: {problem}).")


def _encode_job(job: Job) -> dict[str, Any]:
    """Ranks that share a tree have it once in the file."""
    trees: dict[int, tuple[int, Any]] = {}
    ranks = []
    for rank, profile in sorted(job.ranks.items()):
        if id(profile.root) not in trees:
            trees[id(profile.root)] = len(trees), _encode(profile.root)
        rest = {f.name: _encode(getattr(profile, f.name)) for f in _stated(profile) if f.name != "root"}
        ranks.append({"rank": rank, "tree": trees[id(profile.root)][0], "profile": rest})
    return {
        "size": job.size,
        "problems": {str(rank): why for rank, why in job.problems.items()},
        "trees": [tree for _, tree in trees.values()],
        "ranks": ranks,
    }


def _decode_job(page: dict[str, Any]) -> Job:
    trees = [_decode(Node, tree) for tree in page["trees"]]
    hints = _hints(Profile)
    ranks = {}
    for entry in page["ranks"]:
        rest = {key: _decode(hints[key], item) for key, item in entry["profile"].items()}
        ranks[int(entry["rank"])] = Profile(root=trees[entry["tree"]], **rest)
    return Job(ranks, int(page["size"]), {int(rank): str(why) for rank, why in page["problems"].items()})


def _encode(value: Any) -> Any:
    """Dataclasses become objects without their default fields, tuples lists."""
    if is_dataclass(value) and not isinstance(value, type):
        page: dict[str, Any] = {"caveat": type(value).__name__} if isinstance(value, Caveat) else {}
        for f in _stated(value):
            page[f.name] = _encode(getattr(value, f.name))
        return page
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    return value


def _stated(value: Any) -> Iterator[Field[Any]]:
    """The fields of a dataclass that are not what they are by default."""
    for f in fields(value):
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        if getattr(value, f.name) != default:
            yield f


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, localns={"Caveat": Caveat})


def _decode(hint: Any, value: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (hint,) = [arg for arg in args if arg is not types.NoneType]
        return _decode(hint, value)
    if origin is tuple:
        return tuple(_decode(args[0], item) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        return {key: _decode(args[1], item) for key, item in value.items()}
    if hint is Caveat:
        return _decode_caveat(dict(value))
    if is_dataclass(hint):
        hints = _hints(hint)  # type: ignore[arg-type]
        return hint(**{key: _decode(hints[key], item) for key, item in value.items()})  # type: ignore[operator]
    return float(value) if hint is float else value


def _decode_caveat(page: dict[str, Any]) -> Caveat:
    name = page.pop("caveat")
    kind = caveats.all_kinds().get(name)
    if kind is None:
        return caveats.Note(f"{name}: {page}")
    hints = _hints(kind)  # type: ignore[arg-type]
    return kind(**{key: _decode(hints[key], item) for key, item in page.items()})
