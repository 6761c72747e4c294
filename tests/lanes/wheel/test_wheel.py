"""The wheel is built twice to the same bytes, and alone runs every command: without numpy, pandas and matplotlib.

What opens saved profiles does without torch too.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from hashlib import sha256
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
CONSTRAINTS = ["-c", str(ROOT / "constraints.txt")]
ABSENT = ("numpy", "pandas", "matplotlib")
NET = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
"""
TRAIN = """
import torch
from net import model

net = model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
MADE = {
    "demo": ["demo", "-o", "demo.json"],
    "profile": ["profile", "net.py:model", "-i", "4x8", "--train", "--no-measure", "-o", "p.json", "-o", "p.html"],
    "ops": ["ops"],
    "device": ["device", "h100-sxm"],
    "doctor": ["doctor"],
    "plan": ["plan", "zoo:gpt2", "--gpus", "2", "--on", "h100-sxm", "--batch", "4"],
    "sweep": ["sweep", "net.py:model", "batch=1,2", "-i", "4x8", "--meta", "-o", "s.csv"],
    "targets": ["targets"],
    "run": ["run", "--step", "1", "-o", "step.json", "train.py"],
}
"""What needs torch, or makes what the others open."""
OPENED = {
    "show": ["show", "p.json"],
    "advise": ["advise", "p.json", "--on", "h100-sxm"],
    "diff": ["diff", "p.json", "p.json"],
    "check": ["check", "p.json", "--budget", "budgets.toml"],
    "merge": ["merge", "ranks"],
}
"""What opens saved profiles."""
FORMATS = ("tree", "table", "bound", "memory", "markdown", "latex", "csv", "deepspeed", "tids", "aprofiler")


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def build(tree, folder):
    """The wheel and the sdist of a tree, as `make dist` builds them."""
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, tree]
    done = run(*words, env=os.environ | {"SOURCE_DATE_EPOCH": "1800000000"})
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="session", name="built")
def _built(tmp_path_factory):
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session", name="wheel")
def _wheel(built):
    (made,) = (path for name, path in built.items() if name.endswith(".whl"))
    return made


def pip(folder, *words):
    """Run pip on an environment that has none."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    into = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q"]
    done = run(*into, "--disable-pip-version-check", *CONSTRAINTS, *words)
    assert done.returncode == 0, done.stderr
    return done


def environment(folder, wheel):
    """An environment with the wheel and what it asks for, and nothing else."""
    pip(folder, wheel)
    return folder


def lend(folder, name, lent=None):
    """Link an installed package, and what it cannot do without, into an environment."""
    lent = set() if lent is None else lent
    if name in lent:
        return
    lent.add(name)
    (site,) = folder.glob("lib/python*/site-packages")
    found = distribution(name)
    for top in {path.parts[0] for path in found.files or () if path.parts[0] not in ("..", "__pycache__")}:
        if not (site / top).exists():
            (site / top).symlink_to(found.locate_file(top))
    for needed in requires(name) or ():
        if "extra ==" not in needed and "platform" not in needed:
            lend(folder, re.match(r"[\w.-]+", needed)[0], lent)


@pytest.fixture(scope="session", name="bare")
def _bare(wheel, tmp_path_factory):
    return environment(tmp_path_factory.mktemp("bare"), wheel)


@pytest.fixture(scope="session", name="lean")
def _lean(wheel, tmp_path_factory):
    folder = environment(tmp_path_factory.mktemp("lean"), wheel)
    lend(folder, "torch")
    return folder


@pytest.fixture(scope="session", name="work")
def _work(lean, tmp_path_factory):
    """A folder in which every command that needs torch has run, with what each answered."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "net.py").write_text(NET)
    (folder / "train.py").write_text(TRAIN)
    (folder / "budgets.toml").write_text('flops = "1G"\n')
    answers = {name: run(lean / "bin" / "flopsight", *words, cwd=folder) for name, words in MADE.items()}
    (folder / "ranks").mkdir()
    (folder / "ranks" / "rank0.json").write_text((folder / "p.json").read_text())
    return folder, answers


def test_the_same_tree_gives_the_same_bytes(built, tmp_path):
    tree = tmp_path / "elsewhere"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        ".gitignore",
    ):
        (tree / name).write_bytes((ROOT / name).read_bytes())  # at another time

    again = build(tree, tmp_path / "dist")

    hashes = [{name: sha256(path.read_bytes()).hexdigest() for name, path in made.items()} for made in (built, again)]
    assert hashes[0] == hashes[1]
    assert len(again) == 2


def test_the_wheel_is_small_typed_and_bears_the_version(wheel):
    version = re.search(r'^__version__ = "(.*)"', (ROOT / "src/flopsight/__init__.py").read_text(), re.MULTILINE)[1]
    names = zipfile.ZipFile(wheel).namelist()

    assert wheel.name == f"flopsight-{version}-py3-none-any.whl"
    assert wheel.stat().st_size < 1_500_000
    assert "flopsight/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"flopsight", f"flopsight-{version}.dist-info"}


def test_the_sdist_holds_what_it_is_built_from(built):
    (made,) = (path for name, path in built.items() if name.endswith(".tar.gz"))
    names = {name.partition("/")[2] for name in tarfile.open(made).getnames()}

    assert {"pyproject.toml", "LICENSE", "README.md", "src/flopsight/py.typed", "PKG-INFO"} <= names
    assert not [name for name in names if name.startswith(("tests", "frontend", ".venv", ".github"))]


def test_the_sdist_builds_the_same_wheel(built, wheel, tmp_path):
    (made,) = (path for name, path in built.items() if name.endswith(".tar.gz"))
    tarfile.open(made).extractall(tmp_path, filter="data")

    again = build(tmp_path / made.name.removesuffix(".tar.gz"), tmp_path / "dist")

    assert again[wheel.name].read_bytes() == wheel.read_bytes()


def test_the_readme_of_the_package_names_files_of_its_version_in_full(wheel):
    version = wheel.name.split("-")[1]
    (name,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("METADATA"))
    links = re.findall(r"\]\(([^)]+)\)", zipfile.ZipFile(wheel).read(name).decode())
    files = [
        re.fullmatch(rf"https://github.com/flopsight/flopsight/(blob|raw)/v{version}/(.*)", link) for link in links
    ]

    assert len(files) > 20
    assert not [link for link, file in zip(links, files, strict=True) if not file or not (ROOT / file[2]).exists()]
    assert {file[2] for file in files if file[1] == "raw"} == {"docs/images/report.png", "docs/images/peers-right.png"}


@pytest.mark.parametrize(
    ("extra", "brings", "words"),
    [
        ("plots", "matplotlib", ["show", "p.json", "-o", "icicle.svg"]),
        ("energy", "pynvml", ["show", "p.json"]),
    ],
)
def test_an_extra_brings_its_package_and_the_commands_run_with_it(wheel, work, tmp_path, extra, brings, words):
    pip(tmp_path / "env", f"{wheel}[{extra}]")

    done = run(tmp_path / "env" / "bin" / "flopsight", *words, cwd=work[0])

    assert run(tmp_path / "env" / "bin" / "python", "-c", f"import {brings}").returncode == 0
    assert done.returncode == 0, done.stderr
    assert done.stdout or done.stderr


def test_the_extra_torch_asks_for_a_torch_that_is_supported(wheel, tmp_path):
    report = tmp_path / "report.json"
    pip(tmp_path / "env", "--dry-run", "--report", report, f"{wheel}[torch]")

    found = {
        item["metadata"]["name"]: item["metadata"]["version"] for item in json.loads(report.read_text())["install"]
    }

    assert f"torch=={found['torch'].partition('+')[0]}" in (ROOT / "constraints.txt").read_text().split()


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_left_out_is_not_there(bare, lean, name):
    for folder in (bare, lean):
        done = run(folder / "bin" / "python", "-c", f"import importlib.util as u; print(u.find_spec({name!r}))")
        assert done.stdout.strip() == "None"


def test_torch_is_in_one_environment_and_not_in_the_other(bare, lean):
    code = "import importlib.util as u; print(u.find_spec('torch') is not None)"

    assert run(bare / "bin" / "python", "-c", code).stdout.strip() == "False"
    assert run(lean / "bin" / "python", "-c", code).stdout.strip() == "True"


def test_every_command_is_tried_here(bare):
    page = run(bare / "bin" / "flopsight", "--help").stdout
    commands = re.findall(r"^  (\w+) ", page.partition("Commands:")[2], re.MULTILINE)

    assert sorted(commands) == sorted([*MADE, *OPENED])


@pytest.mark.parametrize("command", MADE)
def test_a_command_runs_without_numpy(work, command):
    done = work[1][command]

    assert done.returncode == 0, done.stderr
    assert done.stdout or done.stderr
    assert command == "run" or "NumPy" not in done.stderr  # torch's warning; what a script prints stays as it is


@pytest.mark.parametrize("command", OPENED)
def test_saved_profiles_are_opened_without_torch(bare, work, command):
    done = run(bare / "bin" / "flopsight", *OPENED[command], cwd=work[0])

    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_drawn_without_torch(bare, work, format):
    done = run(bare / "bin" / "flopsight", "show", "p.json", "-f", format, cwd=work[0])

    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", ["ops", "device", "targets"])
def test_what_is_looked_up_needs_no_torch(bare, command, tmp_path):
    done = run(bare / "bin" / "flopsight", *MADE[command], cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", ["demo", "profile", "sweep", "plan"])
def test_a_command_that_needs_torch_says_so_in_a_sentence(bare, work, command):
    done = run(bare / "bin" / "flopsight", *MADE[command], cwd=work[0])

    assert done.returncode == 2
    assert re.search(r"torch(, which)? is not installed", done.stderr)
    assert done.stderr.count("\n") == 1


def test_a_frame_without_pandas_is_refused_in_a_sentence(bare, work):
    code = (
        "import flopsight\ntry:\n flopsight.load('p.json').to_frame()\nexcept flopsight.FlopsightError as e: print(e)"
    )

    assert "pandas" in run(bare / "bin" / "python", "-c", code, cwd=work[0]).stdout
