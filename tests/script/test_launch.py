"""A script finds itself as `python` would have started it; where the two could differ, `python` itself is asked."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from interpreters import LIGHT
from script.running import SCRIPTS, plain, profiled, start, start_warm

import flopsight

PROBE = (SCRIPTS / "probe.py").read_text()
RUN = ["-m", "flopsight", "run"]


def outputs(folder, words, before=()):
    """What a command line prints by itself, and behind `flopsight run`."""
    by_itself, ours = (
        subprocess.run(
            [sys.executable, *before, *start, *map(str, words)],
            cwd=folder,
            capture_output=True,
            text=True,
            input="typed\n",
        )
        for start in ([], RUN)
    )
    assert by_itself.returncode == 0, by_itself.stderr
    assert ours.returncode == 0, ours.stderr
    return by_itself.stdout, ours.stdout


@pytest.fixture(name="folder")
def _folder(tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    (tmp_path / "probe.py").write_text(PROBE)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(PROBE)
    (package / "probe.py").write_text(PROBE)
    with zipfile.ZipFile(tmp_path / "probe.zip", "w") as archive:
        archive.writestr("__main__.py", PROBE)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["probe.py"],
        ["probe.py", "--step", "3", "-m", "x", "--", "--help", ""],
        ["./pack/../probe.py", "a b"],
        ["-m", "probe", "--steps", "2"],
        ["-m", "pack.probe", "-o", "x"],
        ["-m", "pack"],
        ["pack"],
        ["probe.zip", "-f"],
    ],
    ids=" ".join,
)
def test_a_script_sees_what_it_would_see_without_us(folder, words):
    by_itself, ours = outputs(folder, words)

    assert ours == by_itself
    assert "stdin typed" in ours


def test_a_script_in_a_link_looks_for_its_modules_where_the_file_is(folder):
    (folder / "links").mkdir()
    (folder / "links" / "linked.py").symlink_to(folder / "probe.py")

    by_itself, ours = outputs(folder, ["links/linked.py"])

    assert ours == by_itself


def test_without_a_search_path_of_its_own_a_script_gets_none_from_us(folder):
    by_itself, ours = outputs(folder, [folder / "probe.py"], before=["-P"])

    assert ours == by_itself


def test_torch_is_not_imported_before_the_script_does(folder):
    _, ours = outputs(folder, ["probe.py"])

    assert "torch False" in ours


@pytest.mark.parametrize("code", ["0", "3", "-1", "no such data"])
def test_the_exit_code_is_the_scripts_own(code):
    assert profiled("exits.py", code).code == plain("exits.py", code).code
    assert profiled("exits.py", code).profile.step == 5


def test_a_message_to_exit_with_is_on_stderr():
    assert "no such data" in profiled("exits.py", "no such data").err


def traceback_of(text):
    """From `Traceback` to the exception, without the frames of torch."""
    lines = text[text.index("Traceback") :].splitlines()
    end = next(i for i, line in enumerate(lines) if line and not line.startswith((" ", "Traceback")))
    return [line for line in lines[: end + 1] if "site-packages" not in line]


@pytest.mark.parametrize("at", ["5", "6", "9"])
def test_what_a_script_raises_is_shown_with_its_own_frames_only(tmp_path, at):
    """While its step is counted, while one is timed, and after the window."""
    done, by_itself = profiled("raises.py", at), start([SCRIPTS / "raises.py", at], tmp_path)

    assert done.code == by_itself.code == 1
    assert traceback_of(done.err) == traceback_of(by_itself.err)
    assert str(Path(flopsight.__file__).parent) not in done.err


def test_our_own_frames_are_there_when_they_are_asked_for(tmp_path):
    done = start_warm([*RUN, SCRIPTS / "raises.py", "5"], tmp_path, env=os.environ | {"FLOPSIGHT_TRACEBACK": "1"})

    assert "flopsight/capture/" in done.err
    assert "ValueError: nan in the input" in done.err


def test_a_script_that_does_not_compile_is_answered_as_python_answers(tmp_path):
    (tmp_path / "broken.py").write_text("x = (\n")

    by_itself = start(["broken.py"], tmp_path)
    ours = start([*RUN, "broken.py"], tmp_path)

    assert ours.code == by_itself.code == 1
    assert ours.err.startswith(by_itself.err)


def test_a_scripts_own_excepthook_is_used(tmp_path):
    (tmp_path / "hooked.py").write_text(
        "import sys\nsys.excepthook = lambda kind, value, tb: print('mine', kind.__name__, tb.tb_lineno)\nraise KeyError\n"
    )

    assert start([*RUN, "hooked.py"], tmp_path).out == "mine KeyError 3\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.py"], "There is no script nowhere.py."),
        (["-m", "no.where"], "There is no module no.where"),
        (["-m", "json.decoder.x"], "There is no module json.decoder.x"),
        (["--step", "1", "--steps", "2-3", "x.py"], "Give --step or --steps, not both."),
        (["--steps", "6-2", "x.py"], "--steps is"),
        (["--per", "epoch", "x.py"], "it can be optimizer or forward"),
        (["-o", "p.html", "x.py"], "must end in .json"),
        (["-o", "p.trace.json", "x.py"], "flopsight profile ... -o p.trace.json"),
        (["-f", "tre", "x.py"], "Did you mean 'tree'?"),
        (["--config", "none.json", "x.py"], "There is no settings file none.json"),
        ([], "Missing argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_run_is_refused_in_one_sentence(tmp_path, words, said):
    done = start_warm([*RUN, *words], tmp_path, imports=LIGHT)

    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert not done.files


def test_a_script_without_torch_runs_and_is_told_so(tmp_path):
    (tmp_path / "hello.py").write_text("print('hello')\n")

    done = start([*RUN, "hello.py"], tmp_path)

    assert (done.code, done.out) == (0, "hello\n")
    assert done.said == [line for line in done.said if "hello.py did not import torch" in line]
    assert len(done.said) == 1
