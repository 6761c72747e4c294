"""What may not be in the repository: paths of somebody's machine, hosts of package registries, large files."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FORBIDDEN = {
    "a machine's path": re.compile(r"(?<![\w.])/(?:home/\w+|Users/\w+|root/\w|work/\w|tmp/\w+/)"),
    "a package registry": re.compile(
        r"https?://[\w.-]*(?:pypi|npmjs|registry|artifactory|nexus)[\w.-]*", re.IGNORECASE
    ),
}
BUILT = {"__pycache__", "build", "dist", "node_modules", "out"}
LARGEST = 1_500_000


def tracked():
    """What git tracks; without git, or in a copy that git does not know, every file that is not built here."""
    if shutil.which("git"):
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
        if listed.returncode == 0 and listed.stdout:
            return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and not is_built(path.relative_to(ROOT))]


def is_built(path):
    return any(part.startswith(".") or part in BUILT or part.endswith(".egg-info") for part in path.parts)


def findings(text):
    return [f"{what}: {found[0]}" for what, pattern in FORBIDDEN.items() for found in pattern.finditer(text)]


def test_no_tracked_file_names_a_machine_or_a_registry():
    wrong = {}
    for path in tracked():
        try:
            found = findings(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
        if found:
            wrong[str(path.relative_to(ROOT))] = found[:3]

    assert not wrong, wrong


def test_no_tracked_file_is_large():
    assert not [path for path in tracked() if path.stat().st_size > LARGEST]


def spelled(*parts):
    """A path that this file does not hold itself."""
    return "/".join(parts)


@pytest.mark.parametrize(
    "text",
    [
        f"open('{spelled('', 'home', 'ann', 'x')}')",
        spelled("", "work", "main", "src"),
        spelled("https:", "", "pypi.org", "simple"),
        spelled("http:", "", "nexus.corp:8081", "x"),
    ],
)
def test_the_search_finds_what_it_looks_for(text):
    assert findings(text)


@pytest.mark.parametrize(
    "text", ["a/b", "https://github.com/x/y", "docs/root/", "see /proc/cpuinfo", spelled("1", "work")]
)
def test_the_search_leaves_the_rest_alone(text):
    assert not findings(text)


def test_the_files_are_found_without_git(monkeypatch):
    by_git = set(tracked())
    monkeypatch.setenv("PATH", "")
    by_hand = set(tracked())

    assert {ROOT / "README.md", ROOT / "src/flopsight/__init__.py", Path(__file__)} <= by_git & by_hand
    assert all(path.suffix != ".pyc" for path in by_hand)
