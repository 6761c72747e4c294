"""`make torch-matrix`: every release of torch that is listed, a newer one if there is, and the table in the docs."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from shutil import which

from fetch import cache_folder, newest_release
from tried import MATRIX_TESTS, ROOT, Outcome, tried

PAGE = ROOT / "docs" / "torch-versions.md"
NEEDED = ("filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "setuptools", "numpy", "rich", "typer",
          "pytest", "hypothesis", "mypy")  # fmt: skip
"""What torch, flopsight and its tests import; an interpreter beside ours gets these and no torch of its own."""
OTHERS = ("3.12", "3.13", "3.14")


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


def interpreters() -> dict[str, str]:
    """Other Pythons that are here, each with an environment of its own in the cache folder."""
    found = {}
    for version in OTHERS:
        base = which(f"python{version}")
        if base is None or subprocess.run([base, "-c", "import ssl"], capture_output=True).returncode:
            continue
        folder = cache_folder() / f"py{version}"
        python = folder / "bin" / "python"
        if not (folder / "ready").exists():
            subprocess.run([base, "-m", "venv", "--clear", str(folder)], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED], check=True)
            (folder / "ready").touch()
        found[version] = str(python)
    return found


def kept_results(tests: tuple[str, ...]) -> tuple[Path, dict[str, dict]]:
    """Results of the same state of the tree, so that an interrupted matrix goes on where it stopped."""
    state = subprocess.run(["git", "stash", "create"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    tree = subprocess.run(["git", "rev-parse", f"{state or head}^{{tree}}"], cwd=ROOT, capture_output=True, text=True)
    path = cache_folder() / f"results-{tree.stdout.strip()[:12]}-{len(tests)}.json"
    return path, json.loads(path.read_text()) if path.exists() else {}


def main() -> int:
    """Try every release and write the page; 1 where a listed release fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="*", help="these instead of all")
    parser.add_argument("--tests", nargs="*", default=MATRIX_TESTS, help="folders of tests instead of the usual ones")
    asked = parser.parse_args()
    cache_folder().mkdir(parents=True, exist_ok=True)
    tests = tuple(asked.tests)
    path, results = kept_results(tests)
    listed = releases()
    wanted = [(release, sys.executable) for release in asked.releases or listed]
    newer = newer_release(listed)
    if not asked.releases:
        wanted += [(listed[-1], python) for python in interpreters().values()]
        wanted += [(newer, sys.executable)] if newer else []
    outcomes = []
    for release, python in wanted:
        key = f"{release} {python}"
        if key not in results:
            print(f"torch {release} ...", flush=True)
            results[key] = asdict(tried(release, tests, python))
            path.write_text(json.dumps(results))
        outcome = Outcome(**{**results[key], "failed": tuple(results[key]["failed"])})
        print(told(outcome), flush=True)
        outcomes.append(outcome)
    if not asked.releases:
        PAGE.write_text(page(outcomes, newer, listed, tests))
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


def page(outcomes: list[Outcome], newer: str | None, listed: tuple[str, ...], tests: tuple[str, ...]) -> str:
    """docs/torch-versions.md."""
    low, high = (".".join(release.split(".")[:2]) for release in (listed[0], listed[-1]))
    rows = "\n".join(
        f"| {o.release}{' (newer than the list)' if o.release == newer else ''} | {o.python} | {result(o)} | {o.doctor} |"
        for o in outcomes
    )
    folders = ", ".join(f"`tests/{name}`" for name in tests)
    return f"""# Torch versions

Tested on torch {low} to {high}. An older torch is refused in one sentence; a newer one is unproven, and
`flopsight doctor` says in seconds what works with it.

| torch | Python | tests | doctor |
| --- | --- | --- | --- |
{rows}

The tests of this table: {folders}. `make torch-matrix` writes this page anew, with every test that needs no process of its own:
every release that
`src/flopsight/capture/hooks/release.py` lists, each from its own wheel, on the CPU. On a machine without CUDA stub libraries
stand for CUDA's. Releases are kept in `~/.cache/flopsight/torch`, or where `FLOPSIGHT_TORCH_CACHE` says; a matrix that was
interrupted goes on where it stopped. A release newer than the list is found, run and reported, and fails nothing.
`make lane-releases` runs fewer tests on the oldest and the newest.
"""


if __name__ == "__main__":
    sys.exit(main())
