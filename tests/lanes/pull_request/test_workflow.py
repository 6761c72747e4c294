"""The workflow for pull requests: it is YAML that GitHub can read, and its steps run as they are in a small repository."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

WORKFLOW = Path(__file__).parents[3] / "examples" / "github" / "model-cost.yml"
MODEL = "from torch import nn\n\n\ndef build():\n    return nn.Sequential(nn.Linear(8, {width}), nn.ReLU(), nn.Linear({width}, 2))\n"
GH = """
import json, os, sys

words, kept = sys.argv[1:], os.environ["GH_COMMENTS"]
comments = json.load(open(kept)) if os.path.exists(kept) else []
assert words.pop(0) == "api"
method = words[words.index("--method") + 1] if "--method" in words else "GET"
(place,) = [word for word in words if word.startswith("repos/me/net/issues/")]
bodies = [word.partition("=@")[2] for word in words if word.startswith("body=@")]
if method == "GET":
    assert place == "repos/me/net/issues/7/comments"
    print(json.dumps(comments))
elif method == "POST":
    assert place == "repos/me/net/issues/7/comments"
    comments.append({"id": 100 + len(comments), "body": open(bodies[0]).read()})
else:
    (found,) = [one for one in comments if f"repos/me/net/issues/comments/{one['id']}" == place]
    found["body"] = open(bodies[0]).read()
json.dump(comments, open(kept, "w"))
"""
"""Stands for GitHub's program: keeps the comments of pull request 7 in a file."""


@pytest.fixture
def workflow():
    return yaml.load(WORKFLOW.read_text(), yaml.BaseLoader)


def commands(workflow):
    """The shell steps by name, without the installation."""
    return {
        step["name"]: step for step in workflow["jobs"]["cost"]["steps"] if "run" in step and step["name"] != "Install"
    }


class Repository:
    """A repository with a commit before and one after a change of the model, and programs on its path."""

    def __init__(self, folder):
        self.tree, self.bin, self.kept = folder / "work", folder / "bin", folder / "comments.json"
        self.tree.mkdir()
        self.bin.mkdir()
        self._program("gh", f"#!{sys.executable}\n{GH}")
        self._program("flopsight", f'#!/bin/sh\nexec "{sys.executable}" -m flopsight "$@"\n')
        self.environment = {
            **os.environ,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "GH_COMMENTS": str(self.kept),
            "GITHUB_REPOSITORY": "me/net",
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        self.git("init", "--quiet")

    def _program(self, name, text):
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def git(self, *words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        done = subprocess.run(
            ["git", *identity, *words], cwd=self.tree, env=self.environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, width):
        (self.tree / "model.py").write_text(MODEL.format(width=width))
        self.git("add", "model.py")
        self.git("commit", "--quiet", "-m", f"width {width}")
        return self.git("rev-parse", "HEAD")

    def comments(self):
        return json.loads(self.kept.read_text())

    def run(self, workflow, before):
        """Every step that GitHub would run; gives the exit code of each."""
        given = {
            "github.event.pull_request.base.sha": before,
            "github.event.pull_request.number": "7",
            "github.token": "secret",
            "steps.page.outputs.artifact-url": "https://github.com/me/net/actions/runs/1/artifacts/2",
        }

        def filled(text):
            return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: given[found[1]], text)

        whole = {**workflow["env"], "SHAPE": "4x8"}
        codes = {}
        for name, step in commands(workflow).items():
            if any(codes.values()) and "always()" not in step.get("if", ""):
                continue
            variables = {key: filled(value) for key, value in {**whole, **step.get("env", {})}.items()}
            codes[name] = subprocess.run(
                ["bash", "-e", "-c", filled(step["run"])],
                cwd=self.tree,
                env={**self.environment, **variables},
                capture_output=True,
            ).returncode
        return codes


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


def test_the_workflow_runs_on_pull_requests_and_may_comment(workflow):
    assert workflow["on"] == "pull_request"
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}


def test_a_fork_which_may_not_comment_gets_the_summary(workflow):
    same = "github.event.pull_request.head.repo.full_name == github.repository"

    assert [name for name, step in commands(workflow).items() if same in step.get("if", "")] == ["Comment"]


def test_no_step_puts_an_expression_into_a_shell(workflow):
    assert not any("${{" in step["run"] for step in commands(workflow).values())


def test_a_change_that_costs_more_fails_and_is_commented(workflow, repository):
    before = repository.commit(width=16)
    repository.commit(width=32)

    codes = repository.run(workflow, before)

    assert codes == {
        "Count the model after the change": 0,
        "Count the model before the change": 0,
        "Compare, and fail where the model costs more": 1,
        "Summary": 0,
        "Comment": 0,
    }
    comment = (repository.tree / "cost.md").read_text()
    # 4 rows: 4 * (8 * 16 + 16 * 2) = 640 MACs, and twice as many
    assert re.search(r"\| macs \| 640 \| 1\.28 k \| \+100\.0% \|", comment)
    (posted,) = repository.comments()
    assert posted["body"] == comment == (repository.tree.parent / "summary.md").read_text()
    assert comment.endswith("](https://github.com/me/net/actions/runs/1/artifacts/2)\n")
    assert "<html" in (repository.tree / "cost.html").read_text()


def test_a_second_push_updates_the_comment_and_leaves_those_of_others(workflow, repository):
    before = repository.commit(width=16)
    repository.commit(width=32)
    others = {"id": 1, "body": "Coverage fell. <!-- flopsight diff of Sequential -->"}
    repository.kept.write_text(json.dumps([others]))

    repository.run(workflow, before)
    repository.commit(width=64)
    shutil.rmtree(repository.tree.parent / "before")
    repository.git("worktree", "prune")
    repository.run(workflow, before)

    first, ours = repository.comments()
    assert first == others
    # 4 * (8 * 64 + 64 * 2) = 2,560 MACs, four times as many
    assert re.search(r"\| macs \| 640 \| 2\.56 k \| \+300\.0% \|", ours["body"])


def test_a_change_that_costs_nothing_passes(workflow, repository):
    before = repository.commit(width=16)

    codes = repository.run(workflow, before)

    assert set(codes.values()) == {0}
    assert "Nothing changed." in (repository.tree / "cost.md").read_text()
