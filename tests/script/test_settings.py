"""Settings from a file: what they change, which of them win, and what is printed where."""

import json

from script.running import SCRIPTS, start_warm

from flopsight.files.store import loads

SCRIPT = SCRIPTS / "exits.py"


def run(folder, *flags, script=(SCRIPT, "0")):
    return start_warm(["-m", "flopsight", "run", *flags, *script], folder)


def write(folder, name, page):
    (folder / name).write_text(page if isinstance(page, str) else json.dumps(page))


def test_a_deepspeed_block_says_which_step_and_how_much_to_print(tmp_path):
    block = {"enabled": True, "profile_step": 3, "module_depth": -1, "top_modules": 3, "detailed": False}
    write(tmp_path, "ds.json", {"train_batch_size": 8, "flops_profiler": block})

    done = run(tmp_path, "--config", "ds.json")

    assert "flopsight-exits-step3.json" in done.files
    assert "Profile Summary at step 3:" in done.err
    assert "Detailed Profile" not in done.err


def test_the_text_goes_to_the_file_that_the_block_names(tmp_path):
    write(tmp_path, "f.json", {"flops_profiler": {"output_file": "out/text.txt", "formats": ["deepspeed", "table"]}})

    done = run(tmp_path, "--config", "f.json")

    text = (tmp_path / "out" / "text.txt").read_text()
    assert "Flops Profiler" in text
    assert "module" in text
    assert "Flops Profiler" not in done.err
    assert len(done.err.splitlines()) == 1


def test_a_page_is_written_beside_the_profile(tmp_path):
    write(tmp_path, "f.json", {"formats": ["html"], "profile_step": 2})

    done = run(tmp_path, "--config", "f.json", "-o", "p.json")

    assert done.files["p.html"].lstrip().lower().startswith("<!doctype html>")
    assert json.loads(done.files["p.json"])


def test_flags_win_over_the_file(tmp_path):
    write(tmp_path, "f.json", {"profile_step": 3, "formats": ["deepspeed"]})

    done = run(tmp_path, "--config", "f.json", "--steps", "1-2", "-f", "table")

    assert "flopsight-exits-steps1-2.json" in done.files
    assert "Flops Profiler" not in done.err


def test_the_pyproject_of_the_folder_is_read(tmp_path):
    write(tmp_path, "pyproject.toml", '[project]\nname = "x"\n[tool.flopsight]\nsteps = "2-4"\n')

    assert "flopsight-exits-steps2-4.json" in run(tmp_path).files


def test_a_file_without_a_step_leaves_it_at_5(tmp_path):
    write(tmp_path, "pyproject.toml", '[project]\nname = "x"\n')

    assert "flopsight-exits-step5.json" in run(tmp_path).files


def test_a_named_file_wins_over_the_pyproject(tmp_path):
    write(tmp_path, "pyproject.toml", "[tool.flopsight]\nprofile_step = 2\n")
    write(tmp_path, "f.toml", "profile_step = 1\n")

    assert "flopsight-exits-step1.json" in run(tmp_path, "--config", "f.toml").files


def test_a_broken_budget_is_said_and_the_exit_code_stays_the_scripts(tmp_path):
    write(tmp_path, "f.json", {"budgets": {"params": 7, "macs": "1k"}, "strict": True})

    done = run(tmp_path, "--config", "f.json")

    failed = [line for line in done.said if "FAILED" in line]
    assert done.code == 0
    assert failed == ["flopsight: FAILED params is 8, over the budget of 7."]


def test_only_the_phases_that_the_block_names_are_shown_and_saved(tmp_path):
    write(tmp_path, "f.json", {"flops_profiler": {"phases": ["forward", "optimizer"], "formats": ["table", "html"]}})

    done = run(tmp_path, "--config", "f.json", "-o", "p.json")

    seen = loads(done.files["p.json"])
    assert seen.macs == 4 * 3 * 2
    assert seen.backward.flops == 0
    assert seen.optimizer.flops == 3 * 2 + 2  # SGD adds a scaled gradient to every weight, one fused operation
    assert {row.phase for node in seen.walk() for row in node.ops} == {"forward", "optimizer"}
    assert seen.timing.backward is None
    assert seen.timing.forward is not None
    assert "Left out by the settings: backward." in done.err
    assert "Backward FLOPs" not in done.err


def test_an_unknown_phase_is_refused_before_the_script_runs(tmp_path):
    write(tmp_path, "f.json", {"phases": ["forwards"]})

    done = run(tmp_path, "--config", "f.json")

    assert done.code == 2
    assert "Did you mean 'forward'?" in done.err


def test_an_unknown_key_is_refused_before_the_script_runs(tmp_path):
    write(tmp_path, "f.json", {"profil_step": 3})

    done = run(tmp_path, "--config", "f.json")

    assert done.code == 2
    assert "Did you mean 'profile_step'?" in done.err


def test_ops_that_are_not_counted_are_named_where_strictness_is_asked_for(tmp_path):
    write(tmp_path, "f.json", {"strict": True})
    write(
        tmp_path,
        "opaque.py",
        "import torch\n"
        "from torch import nn\n"
        "lib = torch.library.Library('mylib', 'DEF')\n"
        "lib.define('twice(Tensor x) -> Tensor')\n"
        "lib.impl('twice', lambda x: x.clone(), 'CPU')\n"
        "model = nn.Linear(2, 2)\n"
        "for _ in range(9):\n"
        "    with torch.no_grad():\n"
        "        torch.ops.mylib.twice(model(torch.ones(1, 2)))\n",
    )

    inside = run(tmp_path, "--config", "f.json", script=("opaque.py",))

    assert inside.code == 0
    assert not [line for line in inside.said if "FAILED" in line]  # the op ran outside the forward, which is the step


def test_files_are_written_where_the_script_was_started_and_not_where_it_went(tmp_path):
    write(tmp_path, "f.json", {"output_file": "text.txt"})
    write(tmp_path, "moves.py", f"import os\nos.mkdir('far')\nos.chdir('far')\n{SCRIPT.read_text()}")

    done = run(tmp_path, "--config", "f.json", "-o", "p.json", script=("moves.py", "0"))

    assert (done.code, len(done.said)) == (0, 1)
    assert {"p.json", "text.txt"} <= done.files.keys()
    assert not list((tmp_path / "far").iterdir())
