"""The commands, run as a user runs them: what they print, what they write, what they return."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from releases import since

import flopsight
from flopsight import cli, zoo

ROOT = Path(__file__).parent.parent.parent
NET = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

class Raises(nn.Module):
    def forward(self, x):
        return self.deeper(x)
    def deeper(self, x):
        raise ValueError("a bad day")
"""
FAST = ["--repeats", "1", "--warmup", "0"]


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit code {self.code}\n{self.out}\n{self.err}"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A user's folder to work in; the import path and what came from it are put back."""
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in [name for name in sys.modules if name in {"net", "lenet"} or name.startswith("_flopsight_target")]:
        del sys.modules[name]


@pytest.fixture
def flops(capsys):
    """Run `flopsight ...` in this process."""

    def run(*argv):
        code = cli.main([str(word) for word in argv])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved profile of a small model: 4 x (8 -> 16 -> 2)."""
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    return flopsight.count(model, (torch.ones(4, 8),)).save(tmp_path_factory.mktemp("saved") / "p.json")


def in_shell(*argv, **options):
    return subprocess.run([sys.executable, "-m", "flopsight", *argv], capture_output=True, text=True, **options)


# --- profile


def test_profile_prints_the_tree_and_saves_what_it_printed(flops, folder):
    done = flops("profile", "net.py:model", "-i", "4x8", "-o", "p.json", *FAST)

    assert done.code == 0, done
    assert "Linear" in done.out
    assert "Saved p.json" in done.err, "remarks stay out of the result"
    assert flopsight.load("p.json").macs == 4 * (8 * 16 + 16 * 2)


def test_the_example_of_the_readme_counts_the_published_macs(flops):
    done = flops("profile", f"{ROOT}/examples/lenet.py:model", "-i", "1024x1x32x32", "-o", "lenet.json", *FAST)

    assert done.code == 0, done
    assert flopsight.load("lenet.json").macs == 426_516_480
    assert "426.52 MMACs, 100.00% MACs" in flops("show", "lenet.json", "-f", "deepspeed").out


def test_without_train_it_runs_as_in_inference(flops):
    flops("profile", "net.py:model", "-i", "4x8", "-o", "p.json", *FAST)
    profile = flopsight.load("p.json")

    assert not profile.trained
    assert profile.activation_bytes == 0, "nothing is saved for a backward that never comes"


@pytest.mark.parametrize("where", [FAST, ("--meta",)])
def test_train_counts_a_backward_and_an_optimizer_step(flops, where):
    done = flops("profile", "net.py:model", "-i", "4x8", "--train", "--optimizer", "adamw", "-o", "p.json", *where)
    profile = flopsight.load("p.json")

    assert done.code == 0, done
    assert profile.trained
    # weight gradients of both layers, input gradient of the second
    assert profile.backward.macs == 4 * (8 * 16 + 16 * 2) + 4 * 16 * 2
    assert profile.optimizer.flops > 0
    assert profile.root.optimizer_bytes == 2 * 4 * (8 * 16 + 16 + 16 * 2 + 2) + 4 * 4  # two averages, and four counts


def test_the_header_of_a_meta_run_names_no_local_device(flops):
    plain = flops("profile", "net.py:model", "-i", "4x8", "--meta").out
    wanted = flops("profile", "net.py:model", "-i", "4x8", "--meta", "--on", "h100-sxm").out

    assert plain.startswith("Sequential (meta, float32, batch 4")
    assert wanted.startswith("Sequential (for H100 SXM5 80GB, float32, batch 4")


def test_meta_counts_without_memory_or_time(flops):
    done = flops("profile", "zoo:bert-large", "-i", "input_ids=80x128:int64", "--meta", "-o", "p.json")
    profile = flopsight.load("p.json")

    assert done.code == 0, done
    assert profile.params == 336_234_306
    assert profile["bert.encoder"].macs == 3_092_376_453_120 + 64_424_509_440
    assert profile.latency is None


def test_a_dtype_reaches_the_model_and_its_inputs(flops):
    flops("profile", "net.py:model", "-i", "4x8", "--dtype", "bf16", "-o", "p.json", *FAST)

    assert flopsight.load("p.json").root.param_bytes == 2 * (8 * 16 + 16 + 16 * 2 + 2)


@pytest.mark.parametrize(
    ("name", "begins"),
    [("p.md", "### "), ("p.csv", "path,name,kind"), ("p.txt", "Sequential"), ("p.html", "<!"), ("deep/er/p.json", "{")],
)
def test_the_suffix_of_the_output_says_its_format(flops, name, begins):
    done = flops("profile", "net.py:model", "-i", "4x8", "-o", name, *FAST)

    assert done.code == 0, done
    assert Path(name).read_text(encoding="utf-8").startswith(begins)


def test_a_text_file_holds_the_format_that_was_asked_for(flops):
    done = flops("profile", "net.py:model", "-i", "4x8", "-f", "deepspeed", "-o", "p.txt", *FAST)

    assert Path("p.txt").read_text(encoding="utf-8") == done.out
    assert "Flops Profiler" in done.out


@pytest.fixture
def no_formula(monkeypatch):
    """An op that every linear layer uses has no formula."""
    from flopsight.formulas import FORMULAS

    monkeypatch.delitem(FORMULAS, "aten.addmm")


def test_strict_fails_after_showing_what_it_could_not_count(flops, no_formula):
    done = flops("profile", "net.py:model", "-i", "4x8", "--strict", "-o", "p.json", *FAST)

    assert done.code == 1, done
    assert "aten.addmm" in done.err
    assert Path("p.json").exists()


# --- show, ops, diff, check, device, demo


@pytest.mark.parametrize(
    "format", ["tree", "table", "memory", "deepspeed", "tids", "aprofiler", "markdown", "csv", "json"]
)
def test_show_draws_every_format(flops, saved, format):
    done = flops("show", saved, "-f", format)

    assert done.code == 0, done
    assert "Linear" in done.out
    assert done.out.endswith("\n")


def test_show_takes_depth_rows_and_width(flops, saved):
    assert "Linear" not in flops("show", saved, "--depth", "0").out
    assert len(flops("show", saved, "-f", "table", "--top", "1").out) < len(flops("show", saved, "-f", "table").out)
    assert max(map(len, flops("show", saved, "--width", "60").out.splitlines())) <= 60
    assert flops("show", saved, "--full").code == 0


def test_show_writes_several_files_each_in_its_own_format(flops, saved):
    done = flops("show", saved, "-o", "a.json", "-o", "b.html", "-o", "c.csv")

    assert done.code == 0, done
    assert flopsight.load("a.json") == flopsight.load(saved)
    assert Path("b.html").read_text(encoding="utf-8").startswith("<!")
    assert Path("c.csv").read_text(encoding="utf-8").startswith("path,")


def test_depth_cuts_what_is_printed_and_not_the_page(flops, saved):
    for depth in ("0", "9"):
        assert flops("show", saved, "--depth", depth, "-o", f"{depth}.html").code == 0
    assert Path("0.html").read_text(encoding="utf-8") == Path("9.html").read_text(encoding="utf-8")


def test_what_is_written_is_as_full_and_as_deep_as_what_is_printed(flops, saved):
    flops("show", saved, "--depth", "0", "-o", "top.md")
    flops("show", saved, "-o", "all.md")

    assert "Linear" not in Path("top.md").read_text(encoding="utf-8")
    assert "Linear" in Path("all.md").read_text(encoding="utf-8")


def test_ops_lists_formulas_with_file_and_line(flops):
    done = flops("ops")
    (line,) = [line for line in done.out.splitlines() if line.startswith("aten.mm ")]

    place = line.split()[1]
    file, number = place.split(":")
    source = (ROOT / "src" / file).read_text(encoding="utf-8").splitlines()
    assert any("def mm" in text for text in source[int(number) - 1 : int(number) + 4])


def test_ops_of_a_target_shows_what_it_used(flops):
    done = flops("ops", "net.py:model", "-i", "4x8")
    (line,) = [line for line in done.out.splitlines() if line.startswith("aten.addmm")]

    assert line.split()[:4] == ["aten.addmm", "forward", "2", "640"]
    assert "100% of" in done.out


def test_ops_of_a_saved_profile_needs_no_target(flops, saved):
    assert "aten.addmm" in flops("ops", saved).out


def test_ops_names_what_is_not_counted(flops, no_formula):
    assert "not counted: aten.addmm in 0, 2: no formula" in flops("ops", "net.py:model", "-i", "4x8").out


def test_diff_says_what_changed_and_fails_on_a_limit(flops, saved):
    flops("profile", "net.py:model", "-i", "8x8", "-o", "twice.json", *FAST)

    same = flops("diff", saved, saved, "--fail-on", "flops:0%")
    more = flops("diff", saved, "twice.json", "--fail-on", "macs:50%")
    less = flops("diff", "twice.json", saved, "--fail-on", "macs:0%")
    allowed = flops("diff", saved, "twice.json", "--fail-on", "macs:100%")

    assert same.code == less.code == allowed.code == 0, (same, less, allowed)
    assert more.code == 1
    assert "macs grew by 100.00%" in more.err
    assert "640" in more.out
    assert flops("diff", saved, "twice.json", "-f", "markdown").out.startswith(
        "<!-- flopsight diff of Sequential -->\n### "
    )


def test_check_holds_a_profile_to_a_budget(flops, saved):
    Path("tight.toml").write_text("macs = 639\nparams = 1000\n")
    Path("wide.toml").write_text('macs = "640"\n')

    tight, wide = flops("check", saved, "--budget", "tight.toml"), flops("check", saved, "--budget", "wide.toml")

    assert (tight.code, wide.code) == (1, 0), (tight, wide)
    assert "FAILED  macs is 640, over the budget of 639." in tight.out
    assert "ok      params keeps to 1000." in tight.out
    assert "breaks 1 of 2 budgets" in tight.err


def test_device_says_what_is_here(flops):
    done = flops("device", "cpu")

    assert done.code == 0, done
    assert "a CPU: no table can tell its peak" in done.out
    assert "989" in flops("device", "cpu", "--peak", "bf16=989e12").out


def test_demo_shows_a_model_and_says_where_it_is_saved(flops, folder):
    done = flops("demo", "-o", "first try.json")

    assert done.code == 0, done
    assert "BasicBlock" in done.out
    assert str(folder / "first try.json") in done.out
    assert flopsight.load("first try.json").params == 11_689_512
    told = [shlex.split(line.strip()) for line in done.out.splitlines() if " show " in line]
    assert [words[words.index("show") + 1] for words in told] == ["first try.json"] * 2, (
        "a shell takes them as they are"
    )


def test_without_a_word_it_says_what_it_can_do(flops):
    assert "Commands:" in flops().out


def test_the_version_is_said(flops):
    assert flops("--version").out.strip() == f"flopsight {flopsight.__version__}"


# --- bad input: one sentence, exit code 2, no traceback of ours


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["profile", "zoo:resnet81"], "There is no embedded model 'resnet81'"),
        (["profile", "net.py:modle", "-i", "4x8"], "Did you mean 'model'?"),
        (["profile", "nowhere.py:model", "-i", "4x8"], "There is no file nowhere.py."),
        (["profile", "net.py:model"], "comes without inputs"),
        (["profile", "net.py:model", "-i", "4x"], "'4x' is not an input"),
        (["profile", "net.py:model", "-i", "4x8,4x8"], "too many positional arguments"),
        (["profile", "net.py:model", "-i", "inputs=4x8"], "has no argument 'inputs'. Did you mean 'input'?"),
        (["profile", "net.py:model", "-i", "4x8", "-f", "tabel"], "Did you mean 'table'?"),
        (["profile", "net.py:model", "-i", "4x8", "-f", "csv", "--depth", "2"], "--depth is not for -f csv"),
        (["profile", "net.py:model", "-i", "4x8", "-f", "tids", "--top", "2"], "The format tids shows everything"),
        (["profile", "net.py:model", "-i", "4x8", "-o", "p.pickle"], "says no format; it can be .json"),
        (["profile", "net.py:model", "-i", "4x8", "-o", "net.py/p.json"], "cannot be written"),
        (["profile", "net.py:model", "-i", "4x8", "--dtype", "float23"], "There is no dtype 'float23'"),
        (["profile", "net.py:model", "-i", "4x8", "--optimizer", "sgd"], "add --train"),
        (["profile", "net.py:model", "-i", "4x8", "--train", "--optimizer", "adamv"], "Did you mean 'adam"),
        pytest.param(
            ["profile", "net.py:model", "-i", "4x8", "--train", "--optimizer", "muon"],
            "Muon cannot be made for this model",
            marks=since((2, 9), "Muon"),
        ),
        (["profile", "net.py:model", "-i", "4x8", "--train", "--optimizer", "lbfgs"], "flopsight.step_profiler"),
        (["profile", "net.py:model", "-i", "4x8", "--device", "cuda:99"], "There is no device 'cuda:99' here"),
        (["profile", "net.py:model", "-i", "4x8", "--device", "cpu", "--meta"], "--meta runs on no device"),
        (["profile", "net.py:model", "-i", "4x8", "--repeats", "0"], "--repeats"),
        (["show", "nowhere.json"], "There is no file nowhere.json."),
        (["show", "net.py"], "is not a flopsight profile"),
        (["show", "p.json", "-f", "html"], "The format html is a file, not text to print"),
        (["diff", "nowhere.json", "nowhere.json"], "There is no file nowhere.json."),
        (["ops", "--train"], "name one"),
        (["device", "nonsense"], "nonsense"),
        (["shwo", "p.json"], "shwo"),
        (["show", "p.json", "--colour"], "--colour"),
        (["show"], "PROFILE"),
        (["profile"], "TARGET"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(flops, argv, said):
    done = flops(*argv)

    assert done.code == 2, done
    assert said in done.err
    assert done.err.startswith("flopsight: ")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    assert not done.out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--fail-on", "flops"], "not a limit"),
        (["--fail-on", "flop:1%"], "Did you mean 'flops'?"),
        (["--fail-on", "flops:x"], "flops:0%|not a number"),
        (["-f", "html"], "Formats: text, markdown"),
    ],
)
def test_a_bad_limit_or_format_of_a_diff_is_named(flops, saved, argv, said):
    done = flops("diff", saved, saved, *argv)

    assert done.code == 2, done
    assert any(part in done.err for part in said.split("|"))


def test_an_unknown_figure_in_a_budget_is_named(flops, saved):
    Path("b.toml").write_text("flop = 3\n")

    done = flops("check", saved, "--budget", "b.toml")

    assert done.code == 2, done
    assert "Did you mean 'flops'?" in done.err


def test_a_profile_of_a_newer_schema_says_to_upgrade(flops, saved):
    page = json.loads(Path(saved).read_text(encoding="utf-8"))
    Path("newer.json").write_text(json.dumps(page | {"schema": 999}))

    done = flops("show", "newer.json")

    assert done.code == 2, done
    assert "Upgrade flopsight" in done.err


# --- the user's code raises: exit code 3, their traceback


def test_a_model_that_raises_shows_its_own_traceback(flops):
    done = flops("profile", "net.py:Raises", "-i", "4x8", *FAST)

    assert done.code == 3, done
    assert 'raise ValueError("a bad day")' in done.err
    assert "return self.deeper(x)" in done.err
    assert "ValueError: a bad day" in done.err
    assert str(Path(flopsight.__file__).parent) not in done.err, "none of our frames"


def test_inputs_of_a_wrong_shape_are_the_models_own_complaint(flops):
    done = flops("profile", "net.py:model", "-i", "4x9", *FAST)

    assert done.code == 3, done
    assert "mat1 and mat2 shapes cannot be multiplied (4x9 and 8x16)" in done.err


# --- without torch, and with whoever reads us gone


@pytest.mark.parametrize(
    "argv",
    [
        ["show", "{saved}"],
        ["show", "{saved}", "-f", "deepspeed"],
        ["ops"],
        ["ops", "{saved}"],
        ["diff", "{saved}", "{saved}"],
        ["check", "{saved}", "--budget", "b.toml"],
        ["--help"],
        ["profile", "--help"],
    ],
)
def test_what_needs_no_torch_runs_without_it(saved, argv):
    """A module named torch that refuses to be imported stands before the real one."""
    Path("blocked").mkdir()
    Path("blocked/torch.py").write_text("raise ImportError('torch was imported')\n")
    Path("b.toml").write_text("macs = 640\n")
    words = [word.format(saved=saved) for word in argv]

    done = in_shell(*words, env=os.environ | {"PYTHONPATH": f"blocked{os.pathsep}{os.environ.get('PYTHONPATH', '')}"})

    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_block_on_torch_works():
    Path("blocked").mkdir()
    Path("blocked/torch.py").write_text("raise ImportError('torch was imported')\n")

    done = in_shell(
        "profile",
        "zoo:lenet5",
        env=os.environ | {"PYTHONPATH": f"blocked{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
    )

    assert "torch was imported" in done.stderr


@pytest.mark.parametrize("format", ["tree", "deepspeed"])
def test_a_closed_pipe_is_no_error(saved, format):
    """Nobody reads: the read end is closed before we write."""
    read, write = os.pipe()
    os.close(read)

    done = subprocess.run(
        [sys.executable, "-m", "flopsight", "show", saved, "-f", format],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)

    assert (done.returncode, done.stderr) == (0, "")


def test_files_are_written_also_where_a_reader_closes_the_pipe(saved, tmp_path):
    """`flopsight show p.json -o table.md | head -1` has its file."""
    read, write = os.pipe()
    os.close(read)

    subprocess.run([sys.executable, "-m", "flopsight", "show", saved, "-o", tmp_path / "table.md"], stdout=write)
    os.close(write)

    assert (tmp_path / "table.md").read_text(encoding="utf-8").startswith("### Sequential")


def test_every_embedded_model_can_be_counted_from_the_command_line(flops):
    for name in zoo.names():
        done = flops("profile", f"zoo:{name}", "--meta")
        assert done.code == 0, done


# --- files that are no files, output that cannot be written, and faults of our own


@pytest.fixture
def no_files(folder):
    """A pipe, a folder and a device, where a file is expected."""
    os.mkfifo("pipe.json")
    Path("folder.json").mkdir()
    Path("device.json").symlink_to("/dev/zero")
    return ["pipe.json", "folder.json", "device.json"]


@pytest.mark.parametrize(
    "argv",
    [
        ["show", "{}"], ["ops", "{}"], ["diff", "{}", "{saved}"], ["diff", "{saved}", "{}"],
        ["check", "{}", "--budget", "b.toml"], ["check", "{saved}", "--budget", "{}"], ["run", "--config", "{}", "net.py"],
    ],
)  # fmt: skip
def test_an_input_that_is_no_file_is_one_sentence(flops, saved, no_files, argv):
    Path("b.toml").write_text("macs = 640\n")
    for name in no_files:
        done = flops(*(word.format(name, saved=saved) for word in argv))

        assert done.code == 2, done
        assert done.err.count("\n") == 1, done
        assert f"{name} cannot be read" in done.err


def test_an_output_that_is_no_file_is_one_sentence(flops, saved, no_files):
    for name in ("pipe.json", "folder.json"):
        done = flops("show", saved, "-o", name)

        assert (done.code, done.err.count("\n")) == (2, 1), done
        assert f"{name} cannot be written" in done.err


def test_output_that_does_not_fit_is_one_sentence(saved):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "flopsight", "show", saved], stdout=full, stderr=subprocess.PIPE, text=True
        )

    assert done.returncode == 2
    assert done.stderr == "flopsight: The output cannot be written: No space left on device.\n"


def test_a_closed_standard_output_is_no_error(saved):
    command = shlex.join([sys.executable, "-m", "flopsight", "show", str(saved)])
    done = subprocess.run(f"exec {command} >&-", shell=True, stderr=subprocess.PIPE, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_that_cannot_write_a_name_gets_its_escape(saved):
    page = Path(saved).read_text(encoding="utf-8").replace('"Sequential"', '"R\u00e9seau"')
    Path("accent.json").write_text(page, encoding="utf-8")

    done = in_shell("show", "accent.json", env=os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "120"})

    assert done.returncode == 0, done.stderr
    assert r"R\xe9seau" in done.stdout


def test_a_fault_of_our_own_is_no_failed_check(flops, saved, monkeypatch):
    def fault(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("flopsight.cli.show.load", fault)

    done = flops("show", saved)

    assert done.code == 4, done
    assert "ZeroDivisionError" in done.err
    assert "a fault in flopsight itself" in done.err


def test_without_torch_a_command_that_needs_it_says_so(saved):
    Path("blocked").mkdir()
    Path("blocked/torch.py").write_text("raise ModuleNotFoundError('No module named torch', name='torch')\n")

    done = in_shell(
        "profile",
        "zoo:lenet5",
        env=os.environ | {"PYTHONPATH": f"blocked{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
    )

    assert done.returncode == 2, done.stderr
    assert done.stderr == "flopsight: This command needs torch, which is not installed. Install it: pip install torch\n"
