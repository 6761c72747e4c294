"""What a shell offers after Tab: targets, formats and devices, without importing torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

from .. import zoo
from ..targets.address import LIBRARIES
from ..targets.presets import preset_names
from .targets import PACKAGES, names_of

DEVICES = ("cpu", "cuda", "cuda:0", "cuda:1", "mps", "xpu")


def bash_asks() -> bool:
    """Whether bash asks for completions."""
    return os.environ.get("_FLOPSIGHT_COMPLETE") == "complete_bash"


def answer_bash(complete: Callable[[], Any]) -> None:
    """Complete a word with colons in bash, which splits it there, `hf:llama` into three, and replaces only the last part."""
    length = int(os.environ["COMP_CWORD"]) + 1
    parts = [*os.environ["COMP_WORDS"].split(), ""][:length]  # the word at the cursor may be empty
    words: list[str] = []
    for word in parts:
        if words and (word == ":" or words[-1].endswith(":")):
            words[-1] += word
        else:
            words.append(word)
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(words), str(len(words) - 1)
    with redirect_stdout(StringIO()) as written, suppress(SystemExit):
        complete()
    kept = words[-1].removesuffix(parts[-1].lstrip(":"))
    for line in written.getvalue().splitlines():
        print(line.removeprefix(kept))


def complete_target(incomplete: str) -> list[str]:
    """Kinds of targets, files, presets and what installed libraries offer."""
    kind, colon, name = incomplete.partition(":")
    if not colon:
        files = [str(path) for path in Path().glob("*.py")] + [str(path) for path in Path().glob(f"{kind}*/*.py")]
        return [text for text in [*(f"{library}:" for library in LIBRARIES), *files] if text.startswith(incomplete)]
    return [f"{kind}:{one}" for one in _names(kind) if one.startswith(name)]


def _names(kind: str) -> list[str]:
    if kind == "zoo":
        return zoo.names()
    names = names_of(kind) if kind in PACKAGES else []
    return [*preset_names(), *names] if kind == "hf" else names


def complete_format(incomplete: str) -> list[str]:
    """Formats that can be printed."""
    from ..render.formats import PRINTED

    return [name for name in PRINTED if name.startswith(incomplete)]


def complete_device(incomplete: str) -> list[str]:
    """Devices that torch may have."""
    return [name for name in DEVICES if name.startswith(incomplete)]


def complete_hardware(incomplete: str) -> list[str]:
    """Devices whose peaks are known."""
    from ..hardware.peaks import devices

    return [device.id for device in devices() if device.id.startswith(incomplete)]


def complete_any_device(incomplete: str) -> list[str]:
    """Devices that torch may have, and those whose peaks are known."""
    return complete_device(incomplete) + complete_hardware(incomplete)
