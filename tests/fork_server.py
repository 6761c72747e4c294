"""Imports what it is told, then forks for every case that it reads, and becomes that case in the child."""

import builtins
import gc
import importlib
import json
import os
import runpy
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType


def next_case():
    """Wait for a case. Returns in its child process; the parent serves until its stdin is closed."""
    for line in sys.stdin:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy has threads, which Python warns of; they do not mind a fork
            child = os.fork()
        if not child:
            return json.loads(line)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(1, f"{code}\n".encode())
    sys.exit()


def enter(case):
    """Take over the folder, environment and streams of a case."""
    os.chdir(case["folder"])
    os.environ.clear()
    os.environ.update(case["env"])
    for number, path in enumerate(case["streams"]):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)


class ImportedAgain(MetaPathFinder, Loader):
    """Makes the next `import` of a loaded module an import: whatever waits for it is called."""

    def __init__(self, name):
        self._module = sys.modules.pop(name)
        self._spec = self._module.__spec__
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name != self._spec.name:
            return None
        return spec_from_loader(name, self, origin=self._spec.origin, is_package=True)

    def create_module(self, spec):
        return self._module

    def exec_module(self, module):
        sys.meta_path.remove(self)  # not before: a program may ask where the module is, and import it later
        module.__spec__ = self._spec


def main():
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()  # else a child looks at every object of torch before it ends, most of a second
    case = next_case()
    enter(case)
    if "torch" in sys.modules:
        ImportedAgain("torch")
    become(case["words"])


def become(words):
    """Run what follows `python` on a command line as the `__main__` of this process."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={})
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], str(Path.cwd())
        runpy._run_module_as_main(words[1])  # what `python -m` calls
    else:
        path = os.path.join(Path.cwd(), words[0])  # noqa: PTH118 - `python` keeps the dots that pathlib takes out
        sys.argv, sys.path[0] = words, str(Path(path).resolve().parent)
        main.__dict__.update(__file__=path, __loader__=SourceFileLoader("__main__", path), __cached__=None)
        exec(compile(Path(path).read_bytes(), path, "exec"), vars(main))


if __name__ == "__main__":
    main()
