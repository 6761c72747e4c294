"""The command line: one file a command; what needs no torch starts without it."""

from __future__ import annotations

import gc
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..targets.packages import claim_process

BAD_INPUT, OUR_FAULT, INTERRUPTED = 2, 4, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and answer with its exit code.

    0 fine, 1 a check failed, 2 bad input or output, 3 the user's code raised, 4 a fault of our own.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        claim_process()
    if words[:1] == ["run"]:  # the streams are the script's
        return _answer(words)
    if argv is None:  # torch warns on import; nothing of ours uses numpy, and a model that does fails by itself
        warnings.filterwarnings("ignore", "Failed to initialize NumPy: No module named 'numpy'")
    _prepare_streams()
    code = _answer(words)
    if argv is None and "triton" not in sys.modules:  # triton's library reports what is left at the end as leaked
        gc.freeze()  # Python ends without a search for garbage in all of torch and transformers: half a second
    try:
        sys.stdout.flush()
    except OSError as problem:
        return _no_output(problem)
    return code


def _answer(words: Sequence[str]) -> int:
    """Run a command; what it raises becomes one sentence and an exit code."""
    from ..errors import FlopsightError
    from ..targets.users import EXIT_CODE, TargetRaised, users_traceback
    from .app import UsageProblem, run_command

    try:
        return run_command(words)
    except SystemExit as stop:
        # typer answers a closed pipe with exit code 1, which means a failed check here
        if isinstance(stop.__context__, BrokenPipeError):
            return 0
        raise
    except UsageProblem as problem:
        said = problem.format_message().rstrip(".")
        return _refuse(f"{said}{'' if said.endswith('?') else '.'}{_help_hint(problem)}", BAD_INPUT)
    except FlopsightError as problem:
        return _refuse(str(problem), problem.exit_code)
    except TargetRaised as problem:
        print(users_traceback(problem.cause), end="", file=sys.stderr)
        return _refuse(str(problem), EXIT_CODE)
    except KeyboardInterrupt:
        return _refuse("Interrupted.", INTERRUPTED)
    except ModuleNotFoundError as problem:
        if problem.name != "torch":
            return _our_fault()
        return _refuse("This command needs torch, which is not installed. Install it: pip install torch", BAD_INPUT)
    except OSError as problem:
        return _no_output(problem) if problem.filename is None else _refuse(f"{problem}.", BAD_INPUT)
    except Exception:
        return _our_fault()


def _prepare_streams() -> None:
    """Let every text be written, whatever the terminal's encoding, also if a stream is closed."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _no_output(problem: OSError) -> int:
    """What cannot be written to stdout is bad output; a closed pipe (`| head`) means that the reader has seen enough."""
    with suppress(OSError, ValueError):  # at exit Python would try to write the rest again, and complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(problem, BrokenPipeError):
        return 0
    return _refuse(f"The output cannot be written: {problem.strerror or problem}.", BAD_INPUT)


def _our_fault() -> int:
    """Show where flopsight failed: not a check that failed, and not the user's mistake."""
    traceback.print_exc()
    return _refuse("This is a fault in flopsight itself. Please report it with the lines above.", OUR_FAULT)


def _refuse(sentence: str, code: int) -> int:
    from ..files.printable import one_line

    with suppress(OSError):
        print(f"flopsight: {one_line(sentence)}", file=sys.stderr)
    return code


def _help_hint(problem: object) -> str:
    context = getattr(problem, "ctx", None)
    return f" See `{context.command_path} --help`." if context else ""
