"""The forks in which most scripts of these tests run: they see and do what a fresh interpreter would."""

import pytest
from script.running import SCRIPTS, start, start_warm

ENDINGS = {
    "raise SystemExit(3)": 3,
    "raise SystemExit('no such data')": 1,
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)": -15,
    "import os; os._exit(7)": 7,
    "1 / 0": 1,
    "import atexit; atexit.register(print, 'last words')": 0,
    "import sys; sys.stdout.close()": 0,
    "import subprocess; subprocess.run(['echo', 'child'])": 0,
}


@pytest.mark.parametrize("words", [["./probe.py", "-m", "a b"], ["-m", "probe", "--steps", "2"]], ids=" ".join)
def test_a_fork_sees_what_a_fresh_interpreter_sees(tmp_path, words):
    (tmp_path / "probe.py").write_text((SCRIPTS / "probe.py").read_text())

    fresh, warm = start(words, tmp_path), start_warm(words, tmp_path)

    assert warm.out == fresh.out
    assert "torch False" in warm.out


@pytest.mark.parametrize("code", ENDINGS)
def test_a_fork_ends_as_a_fresh_interpreter_ends(tmp_path, code):
    (tmp_path / "ends.py").write_text(f"print('first words')\n{code}\n")

    fresh, warm = start(["ends.py"], tmp_path), start_warm(["ends.py"], tmp_path)

    assert warm.code == fresh.code == ENDINGS[code]
    assert warm.out == fresh.out
    assert warm.err.splitlines()[-1:] == fresh.err.splitlines()[-1:]


def test_the_import_of_torch_is_one_that_a_hook_sees(tmp_path):
    (tmp_path / "imports.py").write_text(
        "import sys\n"
        "class Notes:\n"
        "    seen = []\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        self.seen.append(name)\n"
        "sys.meta_path.insert(0, Notes())\n"
        "import torch.nn as nn\n"
        "import torch\n"
        "print(Notes.seen.count('torch'), torch.nn is nn, torch.__spec__.origin == torch.__file__)\n"
    )

    assert start_warm(["imports.py"], tmp_path).out == "1 True True\n"


def test_a_case_leaves_nothing_to_the_next(tmp_path):
    (tmp_path / "leaves.py").write_text("import os, torch\nprint(torch.get_default_dtype(), os.environ.get('LEFT'))\n"
        "torch.set_default_dtype(torch.float64)\nos.environ['LEFT'] = 'behind'\n")  # fmt: skip

    assert [start_warm(["leaves.py"], tmp_path).out for _ in range(2)] == ["torch.float32 None\n"] * 2
