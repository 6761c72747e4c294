"""`make torch-matrix`: every release of torch that is listed, a newer one if there is, and the table in the docs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from shutil import which
from textwrap import fill

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


def kept_results(tests: tuple[str, ...]) -> tuple[Path, dict[str, dict]]:
    """Results of the same sources and tests, so that an interrupted matrix goes on where it stopped."""
    files = sorted(
        file for part in ("src", "tests") for file in (ROOT / part).rglob("*.py") if "lanes" not in file.parts
    )
    texts = [f"{file.relative_to(ROOT)}\n{file.read_text()}" for file in files]
    key = sha256("\n".join([*texts, *tests]).encode()).hexdigest()[:12]
    path = cache_folder() / f"results-{key}.json"
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
        wanted += [(release, python) for python in interpreters() for release in dict.fromkeys((listed[0], listed[-1]))]
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
    pythons = sorted({outcome.python for outcome in outcomes}, key=number)
    rows = "\n".join(
        f"| {o.release}{' (newer than the list)' if o.release == newer else ''} | {o.python} | {result(o)} | {o.doctor} |"
        for o in outcomes
    )
    folders = fill(f"The tests of this table: {', '.join(f'`tests/{name}`' for name in tests)}.", 120)
    return f"""# Torch versions

Tested on torch {low} to {high} and Python {" to ".join(dict.fromkeys((pythons[0], pythons[-1])))}. An older torch is refused in one sentence.
A newer one is unproven and not refused: `flopsight doctor` says in seconds what works with it.

| torch | Python | tests | doctor |
| --- | --- | --- | --- |
{rows}

## What older releases do differently

The number of tests differs because some need what a release does not have: FSDP2 on a CPU before 2.7, grouped products on
a CPU and Muon before 2.9. Beyond that:

- Before 2.8 torch does not say which hooks for saved tensors are on. flopsight notes them from its own first call on, by
  wrapping the two functions of torch that push and pop hooks. Hooks that were on before (`with save_on_cpu():` around the
  first call) are not called while a model is counted, and the activation bytes are those without them.
- Before 2.8 `torch.export` cannot run inside `flopsight.recording`: it refuses to trace while compiled code is held back.
- Before 2.12 `scan`, and before 2.8 `map`, run their function more often than there are steps, to learn shapes. What runs
  is counted.

## How the table is made

`make torch-matrix` writes this page: every release that `src/flopsight/capture/hooks/release.py` lists, and the oldest and
the newest again on every other Python that is installed. Each release comes from its own wheel and runs on the CPU; on a
machine without CUDA, stub libraries stand for CUDA's. Releases are kept in `~/.cache/flopsight/torch`, or where
`FLOPSIGHT_TORCH_CACHE` says. A matrix that was interrupted goes on where it stopped. A release newer than the list is
found, run and reported, and fails nothing. `make lane-releases` runs fewer tests on the oldest and the newest.

{folders}
"""


if __name__ == "__main__":
    sys.exit(main())
