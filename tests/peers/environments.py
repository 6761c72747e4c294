"""One environment for each tool under .venvs/peers, over the torch of .venv: nothing heavy is installed twice."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from peers.tools import Tool

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venvs" / "peers"


def python(tool: Tool) -> Path:
    """The interpreter that has a tool."""
    if not tool.package:
        return Path(sys.executable)
    return HOME / tool.package / "bin" / "python"


def make(tool: Tool) -> None:
    """Install a tool, unless it is there."""
    folder = HOME / tool.package
    if not tool.package or (folder / ".ready").exists():
        return
    venv.create(folder, with_pip=True)
    own = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (own / "shared_torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    if tool.sources:
        pip(folder, "setuptools", "wheel")
    pip(folder, *(["--no-build-isolation"] if tool.sources else []), tool.package, *tool.beside)
    (folder / ".ready").touch()


def pip(folder: Path, *words: str) -> None:
    """Install into an environment, with the repository's constraints."""
    command = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    settings = {**os.environ, "DS_BUILD_OPS": "0"}
    subprocess.run([*command, "-c", ROOT / "constraints.txt", *words], check=True, env=settings)
