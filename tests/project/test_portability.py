"""What only some systems have is asked for before it is used, and text files name their encoding."""

import ast
from pathlib import Path

import pytest
from interpreters import fork

SOURCE = Path(__file__).parents[2] / "src" / "flopsight"
POSIX_MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
POSIX_NAMES = {
    "os": {"fork", "getloadavg", "getuid", "geteuid", "killpg", "mkfifo", "nice", "register_at_fork", "setsid"}
    | {"sched_getaffinity", "sysconf", "sysconf_names", "uname", "wait", "waitpid"},
    "signal": {"SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2", "alarm", "setitimer"},
    "socket": {"AF_UNIX"},
}
GUARDED = {
    "hardware/free_memory.py": {"os.sysconf"},
    "hardware/known_ceilings.py": {"os.sched_getaffinity"},
    "loop/monitor/endings.py": {"os.register_at_fork"},
    "loop/monitor/process_memory.py": {"resource"},
    "script/script_loop.py": {"os.register_at_fork"},
}
"""Uses that stand behind a question whether this system has it."""
OPENERS = {"open", "read_text", "write_text"}


def posix_only(tree):
    """Modules and names of the standard library that Windows does not have."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & POSIX_MODULES
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {node.module} & POSIX_MODULES
            found |= {f"{node.module}.{a.name}" for a in node.names if a.name in POSIX_NAMES.get(node.module, ())}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in POSIX_NAMES.get(node.value.id, ()):
                found.add(f"{node.value.id}.{node.attr}")
    return found


def unnamed_encodings(tree):
    """Lines that open a file as text in whatever encoding the machine has."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        method = isinstance(node.func, ast.Attribute)
        name = node.func.attr if method else node.func.id
        of_a_module = method and isinstance(node.func.value, ast.Name) and node.func.value.id == "os"
        takes_one = name == "open" or method
        if name not in OPENERS or of_a_module or not takes_one:
            continue
        words = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        binary = name == "open" and any("b" in word for word in words)
        if not binary and not any(keyword.arg == "encoding" for keyword in node.keywords):
            yield node.lineno


def pages():
    return {str(path.relative_to(SOURCE).as_posix()): ast.parse(path.read_bytes()) for path in SOURCE.rglob("*.py")}


def test_what_windows_does_not_have_stands_behind_a_question():
    assert {name: found for name, tree in pages().items() if (found := posix_only(tree))} == GUARDED


def test_every_text_file_is_opened_with_its_encoding():
    assert not {name: lines for name, tree in pages().items() if (lines := [*unnamed_encodings(tree)])}


@pytest.mark.parametrize("code", ["import fcntl", "os.fork()", "from signal import SIGKILL", "socket.AF_UNIX"])
def test_a_name_that_windows_does_not_have_is_found(code):
    assert posix_only(ast.parse(code))


@pytest.mark.parametrize("code", ["open(p)", "p.open('w')", "p.read_text()", "p.write_text(x)"])
def test_a_file_without_an_encoding_is_found(code):
    assert [*unnamed_encodings(ast.parse(code))] == [1]


@pytest.mark.parametrize("code", ["open(p, 'rb')", "p.open('xb')", "p.read_text(encoding='utf-8')", "write_text(p, x)"])
def test_bytes_a_named_encoding_and_our_own_writer_are_fine(code):
    assert not [*unnamed_encodings(ast.parse(code))]


ABSENT = """
import os, sys
import torch
from torch._dynamo import config
for name in ("fork", "register_at_fork", "sched_getaffinity", "sysconf", "sysconf_names", "getuid"):
    delattr(os, name)
from flopsight.hardware import free_memory
free_memory.LIMIT_FILES = ()
print(free_memory._free_on_host(free_memory.Path("nowhere")))
from flopsight.cli import main
sys.exit(main())
"""
TRAIN = """
import torch
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    net(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(("words", "said"), [(["run", "--step", "1"], "Linear"), (["run", "--monitor"], "6 steps")])
def test_a_script_is_watched_where_there_is_no_fork(words, said, tmp_path):
    (tmp_path / "without.py").write_text(ABSENT)
    (tmp_path / "train.py").write_text(TRAIN)

    done = fork(["without.py", *words, "train.py"], tmp_path)

    assert done.code == 0, done.err
    assert done.out.startswith("None\n"), "a system that does not say how much memory is free"
    assert "Traceback" not in done.err
    assert said in done.out + done.err
