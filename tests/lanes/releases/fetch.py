"""Releases of torch side by side: each one's wheel unpacked into a cache folder outside the tree, importable without CUDA.

The public wheels want CUDA's libraries. On a machine without them, stub libraries take their place, whose functions all
answer "no device". So a release shows its behaviour on the CPU, and on the CPU only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

NO_DEVICE = 100
"""What CUDA's functions return where there is no device."""
CUDA_NAMES = re.compile(r"^(cu|__cuda|nccl|nvtx|nvrtc|nvjit|cudnn|cusparse|nvshmem|_nv)", re.IGNORECASE)
READY = "ready"


def cache_folder() -> Path:
    """Where releases and results are kept: FLOPSIGHT_TORCH_CACHE, or a folder in the user's cache."""
    stated = os.environ.get("FLOPSIGHT_TORCH_CACHE")
    return Path(stated or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flopsight" / "torch")


def python_version(python: str) -> str:
    """The version of an interpreter without its last number: 3.11."""
    return _run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()


def fetched(release: str, python: str = sys.executable) -> Path:
    """The folder of a release for an interpreter; downloaded and unpacked only once."""
    version = python_version(python)
    folder = cache_folder() / f"{release}-py{version}"
    if not (folder / READY).exists():
        rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with TemporaryDirectory(dir=folder.parent) as wheels:
            _run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                 "--python-version", version, "--dest", wheels, f"torch=={release}")  # fmt: skip
            (wheel,) = Path(wheels).glob("torch-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(
                    folder, [name for name in archive.namelist() if not name.startswith("torch/include/")]
                )
        stub_libraries(folder / "torch", folder / "stubs")
        (folder / READY).touch()
    return folder


def environment(folder: Path, *before: Path) -> dict[str, str]:
    """The environment variables under which an interpreter imports that release, after the folders given before it."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (*before, folder))),
        "LD_LIBRARY_PATH": str(folder / "stubs"),
        "OMP_NUM_THREADS": "1",
    }


def newest_release() -> str:
    """The newest release that the package index has for this interpreter."""
    told = _run(sys.executable, "-m", "pip", "index", "versions", "torch")
    found = re.search(r"^torch \((\d+(?:\.\d+)+)", told, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"pip named no release of torch: {told!r}")
    return found[1]


def stub_libraries(torch_folder: Path, out: Path) -> None:
    """Make a library for each one that torch's own want and the machine lacks."""
    own = [*torch_folder.glob("lib/*.so*"), *torch_folder.glob("_C*.so")]
    wanted = {
        name for library in own for name in re.findall(r"NEEDED.*\[(.*?)\]", _run("readelf", "-dW", str(library)))
    }
    system = _run("/sbin/ldconfig", "-p")
    missing = sorted(name for name in wanted if name not in system and not (torch_folder / "lib" / name).exists())
    if not missing:
        return
    out.mkdir()
    functions, objects = _undefined(own)
    source = out / "stubs.s"
    source.write_text(_assembly(functions, objects))
    _run("gcc", "-shared", "-nostdlib", "-o", str(out / "liballstubs.so"), str(source), "-Wl,-soname,liballstubs.so")
    for name in missing:
        _run("gcc", "-shared", "-nostdlib", "-o", str(out / name), f"-Wl,-soname,{name}", "-Wl,--no-as-needed",
             f"-L{out}", "-lallstubs", "-Wl,-rpath,$ORIGIN")  # fmt: skip


def _undefined(libraries: list[Path]) -> tuple[list[str], list[str]]:
    """Names of CUDA's functions and objects that these libraries use and none of them defines."""
    used: dict[str, str] = {}
    defined: set[str] = set()
    for library in libraries:
        for line in _run("readelf", "--dyn-syms", "-W", str(library)).splitlines():
            columns = line.split()
            if len(columns) < 8 or not columns[0].endswith(":"):
                continue
            name = columns[7].split("@")[0]
            if columns[6] == "UND":
                used[name] = columns[3]
            elif columns[4] in ("GLOBAL", "WEAK"):
                defined.add(name)
    left = sorted(name for name in used if name not in defined and CUDA_NAMES.match(name))
    return [name for name in left if used[name] != "OBJECT"], [name for name in left if used[name] == "OBJECT"]


def _assembly(functions: list[str], objects: list[str]) -> str:
    """Functions that return "no device", or a text where they are asked for one, and objects of zeros."""
    texts = [name for name in functions if name.endswith(("GetErrorString", "GetErrorName"))]
    numbers = [name for name in functions if name not in texts]
    labels = lambda names: "".join(f".globl {name}\n.type {name},@function\n{name}:\n" for name in names)
    zeros = "".join(f".globl {name}\n.type {name},@object\n.size {name},64\n{name}: .zero 64\n" for name in objects)
    return (
        f".text\n{labels(numbers)} movl ${NO_DEVICE},%eax\n ret\n{labels(texts)} leaq words(%rip),%rax\n ret\n"
        f'.data\nwords: .asciz "stub"\n{zeros}.section .note.GNU-stack,"",@progbits\n'
    )


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:6])} ... failed: {done.stderr.strip()[-500:]}")
    return done.stdout
