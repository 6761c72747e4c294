"""The files that GitHub and towncrier read: each is YAML of the right shape, and fragments become a changelog."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
EXAMPLE = ROOT / "examples/github/model-cost.yml"
FORMS = sorted(path for path in ROOT.glob(".github/ISSUE_TEMPLATE/*.yml") if path.name != "config.yml")
OTHERS = [ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff", ROOT / ".github/ISSUE_TEMPLATE/config.yml"]


def read(path):
    return yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def named(path):
    return path.name


@pytest.mark.parametrize("path", [*WORKFLOWS, *FORMS, *OTHERS], ids=named)
def test_every_file_is_a_mapping_in_yaml(path):
    assert isinstance(read(path), dict)


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ("github-workflows", [*WORKFLOWS, EXAMPLE]),
        ("github-issue-forms", FORMS),
        ("citation-file-format", [ROOT / "CITATION.cff"]),
    ],
)
def test_a_file_is_what_github_reads(schema, paths):
    done = tool("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *paths)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflows_keep_no_credentials_and_run_nothing_from_outside():
    done = tool("zizmor", "--offline", "--config", ROOT / ".github/zizmor.yml", *WORKFLOWS, EXAMPLE)

    assert done.returncode == 0, done.stdout + done.stderr


def tool(name, *words):
    """A program that was installed beside this Python."""
    words = [Path(sys.executable).with_name(name), *words]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def test_there_is_a_workflow_for_each_habit():
    assert [path.stem for path in WORKFLOWS] == ["docs", "lanes", "lint", "release", "tests"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_a_workflow_has_a_trigger_few_rights_and_steps_that_can_run(path):
    workflow = read(path)

    assert workflow["on"]
    assert workflow["permissions"] == {"contents": "read"}, "a job that needs more says so itself"
    assert all(
        re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v1)", step["uses"]) for step in steps(workflow) if "uses" in step
    )
    assert all(("uses" in step) != ("run" in step) for step in steps(workflow))
    for job in workflow["jobs"].values():
        needed = job.get("needs", [])
        assert {needed} if isinstance(needed, str) else set(needed) <= set(workflow["jobs"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_a_workflow_runs_targets_that_make_has(path):
    for target in re.findall(r"make ([\w-]+)", " ".join(step.get("run", "") for step in steps(read(path)))):
        done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_tests_run_on_three_systems_and_every_python():
    matrix = read(ROOT / ".github/workflows/tests.yml")["jobs"]["test"]["strategy"]["matrix"]

    assert matrix["os"] == ["ubuntu", "macos", "windows"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]


def test_the_lanes_of_the_night_are_those_of_make(tmp_path):
    (listing,) = [step["run"] for step in steps(read(ROOT / ".github/workflows/lanes.yml")) if step.get("id") == "list"]
    command = re.search(r"\$\((.*?) \| jq", listing)[1]

    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.split() == sorted(path.parent.name for path in ROOT.glob("tests/lanes/*/requirements.txt"))


def test_every_hook_is_installed_by_one_command():
    hooks = read(ROOT / ".pre-commit-config.yaml")
    used = {stage for repo in hooks["repos"] for hook in repo["hooks"] for stage in hook.get("stages", ["pre-commit"])}

    assert set(hooks["default_install_hook_types"]) == used


def test_a_release_is_published_by_trust_and_not_by_a_password():
    workflow = read(ROOT / ".github/workflows/release.yml")

    assert workflow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FORMS, ids=named)
def test_a_form_asks_something(path):
    form = read(path)

    assert form["name"]
    assert form["description"]
    parts = form["body"]
    assert len({part["id"] for part in parts}) == len(parts)
    assert all(part["attributes"]["label"] for part in parts)
    assert any(part.get("validations", {}).get("required") == "true" for part in parts)


def test_the_citation_has_what_the_format_requires():
    assert {"cff-version", "message", "title", "authors"} <= set(read(ROOT / "CITATION.cff"))


def test_fragments_become_the_head_of_the_changelog(tmp_path):
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "142.fixed.md").write_text("`diff` counts a tied weight once.\n")
    (tmp_path / "changes" / "+mi400.added.md").write_text("The MI400's peaks.\n")
    before = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")

    words = ["build", "--yes", "--version", "9.9.0"]
    done = subprocess.run([sys.executable, "-m", "towncrier", *words], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    head, _, rest = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n## 0.2.0\n")
    assert rest == before.partition("\n## 0.2.0\n")[2]
    added, fixed = "### Added\n\n- The MI400's peaks.", "### Fixed\n\n- `diff` counts a tied weight once. (#142)"
    assert f"## 9.9.0\n\n{added}\n\n{fixed}\n" in head
    assert not list((tmp_path / "changes").iterdir())
