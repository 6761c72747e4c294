"""`make torch-matrix`: every release of torch that is listed, a newer one if there is, and the table in the docs."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from shutil import which
from textwrap import fill
from threading import Lock

from fetch import cache_folder, newest_release, python_version
from tried import MATRIX_TESTS, PROCESS_TESTS, ROOT, Outcome, tried

PAGE = ROOT / "docs" / "torch-versions.md"
NEEDED = ("filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "setuptools", "numpy", "rich", "typer",
          "pytest", "hypothesis", "mypy")  # fmt: skip
"""What torch, flopsight and its tests import; an interpreter beside ours gets these and no torch of its own."""
OTHERS = ("3.12", "3.13", "3.14")
WITH_PROCESSES = ("2.6", "2.9", "2.12", "2.15")
"""Releases whose rows run the tests with processes of their own too."""
WIDTH = 120
"""Columns of the page."""
DIFFERENCES = """\
## What releases do differently

The number of tests differs because some need what a release does not have: FSDP2 on a CPU before 2.7, grouped products on
a CPU and Muon before 2.9. Beyond that:

- Before 2.8 torch does not say which hooks for saved tensors are on. flopsight notes them from its own first call on, by
  wrapping the two functions of torch that push and pop hooks. Hooks that were on before (`with save_on_cpu():` around the
  first call) are not called while a model is counted, and the activation bytes are those without them.
- Before 2.8 `torch.export` cannot run inside `flopsight.recording`: it refuses to trace while compiled code is held back.
- Before 2.12 `scan`, and before 2.8 `map`, run their function more often than there are steps, to learn shapes. What runs
  is counted.
- In 2.9 torch's pipelines abort over gloo, with or without flopsight.
- FSDP2 with a `MixedPrecisionPolicy` that states `param_dtype` alone reduces gradients in that type before 2.15, and since then
  in the parameters' own: with bfloat16 weights of float32 parameters a reduce-scatter hands in twice the bytes. flopsight
  reports what is sent. With `reduce_dtype` stated, all releases send the same.
- A pipeline sets itself up in its first step, which `p.setup_comm` shows: before 2.9 shapes go to the next stage only, since
  then stages also send to the one before. Since 2.15 the ranks vote on whether shapes have to be exchanged, and wait for each
  other after every round in which pairs of them connect: all-reduces of 4 bytes each.
- Before 2.11 an average pool, and since 2.14 the backward of a group norm, give a dimension of one element another stride on a
  CPU than on meta. FLOPs and bytes of the op are the same; an op after it that looks at strides may make one copy more or less.
- Before 2.11 torch's fake process group refuses tensors on meta, so a mesh cannot be tried; and torch.compile does not trace a
  model without data, so a plan with `compile` shows the eager step's memory, and says so.
- Python 3.12 limits how deep calls nest through C, and no program can raise that limit: a model that nests to within 30
  levels of it (about 200 modules in one another) may not be counted there.
"""


def releases() -> tuple[str, ...]:
    """The releases that are listed as tested."""
    text = (ROOT / "src/flopsight/capture/hooks/release.py").read_text()
    names: dict[str, tuple[str, ...]] = {}
    line = next(line for line in text.splitlines() if line.startswith("RELEASES = "))
    exec(line, names)  # read as text: importing it would import torch
    return names["RELEASES"]


def number(release: str) -> tuple[int, ...]:
    """A release as numbers, to compare."""
    return tuple(map(int, release.split(".")))


def installed(version: str) -> str | None:
    """An interpreter of that version which works: on the path, or among pyenv's, whose command may point nowhere."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for python in (which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))):
        if python and not subprocess.run([python, "-c", "import ssl"], capture_output=True).returncode:
            return str(python)
    return None


def interpreters() -> list[str]:
    """Other Pythons that are here, each with an environment of its own in the cache folder."""
    found = []
    for version in OTHERS:
        base = installed(version)
        if base is None:
            print(f"There is no Python {version} here.")
            continue
        folder = cache_folder() / f"py{version}"
        python = folder / "bin" / "python"
        if not (folder / "ready").exists():
            subprocess.run([base, "-m", "venv", "--clear", str(folder)], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED], check=True)
            (folder / "ready").touch()
        found.append(str(python))
    return found


Row = tuple[str, str, tuple[str, ...]]
"""A release, an interpreter, and the tests to run."""


def tests_of(release: str, python: str) -> tuple[str, ...]:
    """The tests of a row: with those that start processes on some releases, and on our own interpreter only."""
    wide = python == sys.executable and short(release) in WITH_PROCESSES
    return (*MATRIX_TESTS, *PROCESS_TESTS) if wide else MATRIX_TESTS


def kept_results() -> tuple[Path, dict[str, dict]]:
    """Good results of the same sources, so that a matrix goes on where it stopped; what failed runs again."""
    digest = sha256()
    for part in ("src", "tests"):
        for file in sorted((ROOT / part).rglob("*")):
            if file.is_file() and not {"lanes", "__pycache__"} & set(file.parts):
                digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    path = cache_folder() / f"results-{digest.hexdigest()[:12]}.json"
    return path, json.loads(path.read_text()) if path.exists() else {}


def outcomes_of(rows: list[Row], jobs: int) -> list[Outcome]:
    """Run rows, several at once; each good result is kept as soon as it is there."""
    path, kept = kept_results()
    lock = Lock()

    def run(row: Row) -> Outcome:
        release, python, tests = row
        key = " ".join((release, python, *tests))
        if key in kept:
            outcome = Outcome(**{**kept[key], "failed": ()})
        else:
            outcome = tried(release, tests, python)
        with lock:
            print(told(outcome), flush=True)
            if outcome.fine:
                kept[key] = asdict(outcome)
                path.write_text(json.dumps(kept))
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run, rows))


def main() -> int:
    """Try every release and write the page; 1 where a listed release fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="*", help="these instead of all, and no page")
    parser.add_argument("--tests", nargs="+", help="folders of tests instead of the usual ones, and no page")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="rows at a time; by default one a core")
    asked = parser.parse_args()
    cache_folder().mkdir(parents=True, exist_ok=True)
    listed = releases()
    rows = [(release, sys.executable) for release in asked.releases or listed]
    newer = newer_release(listed)
    if not asked.releases:
        rows += [(release, python) for python in interpreters() for release in dict.fromkeys((listed[0], listed[-1]))]
        rows += [(newer, sys.executable)] if newer else []
    tests = tuple(asked.tests or ())
    outcomes = outcomes_of([(*row, tests or tests_of(*row)) for row in rows], asked.jobs)
    if not asked.releases and not tests:
        PAGE.write_text(page(outcomes, newer, listed))
    return int(any(not outcome.fine for outcome in outcomes if outcome.release != newer))


def newer_release(listed: tuple[str, ...]) -> str | None:
    """A release that the index has and the list has not."""
    try:
        newest = newest_release()
    except RuntimeError as problem:
        print(f"Whether there is a newer torch is not known: {problem}")
        return None
    return newest if number(newest) > number(listed[-1]) else None


def told(outcome: Outcome) -> str:
    """One line about a release, and one for each test that failed."""
    state = "ok" if outcome.fine else "FAILED"
    line = f"torch {outcome.release}, Python {outcome.python}: {state}, {result(outcome)}, {outcome.seconds} s"
    return "\n  ".join([line, *outcome.failed])


def result(outcome: Outcome) -> str:
    """What came out, in words."""
    if outcome.crash:
        return f"the interpreter crashed ({outcome.crash})"
    counts = f"{outcome.passed:,} pass"
    return f"{counts}, {len(outcome.failed)} fail" if outcome.failed else counts


def passing(outcomes: list[Outcome], listed: tuple[str, ...]) -> str:
    """Which releases pass on which Python, as a sentence."""
    good: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.fine and outcome.release in listed:
            good.setdefault(outcome.python, []).append(outcome.release)
    pythons: dict[str, list[str]] = {}
    for python, some in good.items():
        pythons.setdefault(span(some, listed), []).append(python)
    parts = [f"on torch {some} with Python {enumerated(versions)}" for some, versions in pythons.items()]
    return (
        f"Every test of the table below passes {', and '.join(parts)}."
        if parts
        else "No release passes every test of the table below."
    )


def span(some: list[str], listed: tuple[str, ...]) -> str:
    """Releases without their last number: `2.6 to 2.15` where none between them is missing, else each of them."""
    names = [short(release) for release in some]
    first = listed.index(some[0])
    unbroken = len(some) > 2 and tuple(some) == listed[first : first + len(some)]
    return f"{names[0]} to {names[-1]}" if unbroken else enumerated(names)


def short(release: str) -> str:
    """A release without its last number."""
    return ".".join(release.split(".")[:2])


def enumerated(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def page(outcomes: list[Outcome], newer: str | None, listed: tuple[str, ...]) -> str:
    """docs/torch-versions.md."""
    rows = "\n".join(
        f"| {o.release}{' (newer than the list)' if o.release == newer else ''} | {o.python} | {result(o)} | {o.doctor} |"
        for o in outcomes
    )
    opening = (
        f"{passing(outcomes, listed)} An older torch is refused in one sentence. A newer one is unproven and not refused: "
        f"`flopsight doctor` says in seconds what works with it."
    )
    folders = (
        f"flopsight {flopsight_version()}. The tests of this table: {folders_named(MATRIX_TESTS)}; on torch "
        f"{enumerated(list(WITH_PROCESSES))} with Python {python_version(sys.executable)} also {folders_named(PROCESS_TESTS)}, "
        "which start processes of their own. The others run on the pinned torch alone."
    )
    return f"""# Torch versions

{fill(opening, WIDTH)}

| torch | Python | tests | doctor |
| --- | --- | --- | --- |
{rows}

{fill(folders, WIDTH)}

{DIFFERENCES}
## How the table is made

`make torch-matrix` writes this page: every release that `src/flopsight/capture/hooks/release.py` lists, and the oldest and
the newest again on every other Python that is installed. Each release comes from its own wheel and runs on the CPU; on a
machine without CUDA, stub libraries stand for CUDA's. Releases are kept in `~/.cache/flopsight/torch`, or where
`FLOPSIGHT_TORCH_CACHE` says, each with the output of its tests (`tests.log`). As many rows run at once as there are cores. A
matrix that was interrupted goes on where it stopped. A release newer than the list is found, run and reported, and fails
nothing. `make lane-releases` runs fewer tests on the oldest and the newest.
"""


def folders_named(tests: tuple[str, ...]) -> str:
    """Folders of tests as the page writes them."""
    return ", ".join(f"`tests/{name}`" for name in tests)


def flopsight_version() -> str:
    """The version of the sources, read as text: importing them would import torch."""
    found = re.search(r'__version__ = "(.*)"', (ROOT / "src/flopsight/__init__.py").read_text())
    assert found is not None
    return found[1]


if __name__ == "__main__":
    sys.exit(main())
