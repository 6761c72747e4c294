"""The command line: one file a command; what needs no torch starts without it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and answer with its exit code: 0 fine, 1 a check failed, 2 bad input, 3 the user's code raised."""
    from ..errors import FlopsightError
    from ..targets.users import EXIT_CODE, TargetRaised, users_traceback
    from .app import UsageProblem, run

    try:
        code = run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # whoever read us has seen enough (`| head`); a second complaint at exit would be about the same pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as stop:
        # typer answers a closed pipe with exit code 1, which means a failed check here
        if isinstance(stop.__context__, BrokenPipeError):
            return 0
        raise
    except UsageProblem as problem:
        return _refuse(f"{problem.format_message().rstrip('.')}.{_help_hint(problem)}", 2)
    except FlopsightError as problem:
        return _refuse(str(problem), problem.exit_code)
    except TargetRaised as problem:
        print(users_traceback(problem.cause), end="", file=sys.stderr)
        return _refuse(str(problem), EXIT_CODE)
    except KeyboardInterrupt:
        return _refuse("Interrupted.", INTERRUPTED)
    return code


def _refuse(sentence: str, code: int) -> int:
    from ..printable import one_line

    print(f"flopsight: {one_line(sentence)}", file=sys.stderr)
    return code


def _help_hint(problem: object) -> str:
    context = getattr(problem, "ctx", None)
    return f" See `{context.command_path} --help`." if context else ""
