"""Where figures may go: trackers by what they can do, files by their suffix, any callable."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from shutil import get_terminal_size
from time import monotonic
from typing import Any

from ...errors import InputError
from ...files.run_file import LineFile
from ...files.whole_files import check_writable, write_text
from ...results.run import Interval
from .deliveries import Deliver, Delivery, Figures
from .prometheus import endpoint, text_of


def make_deliveries(to: Any) -> list[Delivery]:
    """A delivery for every sink that a user named: one, or several in a list or tuple."""
    return [_delivery(sink) for sink in as_list(to)]


def as_list(to: Any) -> list[Any]:
    """The sinks that a user named."""
    return list(to) if isinstance(to, list | tuple | set) else [] if to is None else [to]


def _delivery(sink: Any) -> Delivery:
    if isinstance(sink, Delivery):
        return sink
    if isinstance(sink, str) and "://" in sink:
        return endpoint(sink)
    if isinstance(sink, str | Path):
        return _file(Path(sink))
    if sink is print:
        return Delivery("print", lambda interval, _figures: print(line(interval), flush=True))
    if isinstance(sink, type):
        raise InputError(f"to= has the class {sink.__name__}; hand over an object of it, say {sink.__name__}(...).")
    if hasattr(sink, "write") and hasattr(sink, "isatty"):
        return _terminal(sink)
    if type(sink).__module__.startswith("rich.") and hasattr(sink, "print"):
        return Delivery("the console", lambda interval, _figures: sink.print(line(interval), highlight=False))
    if getattr(sink, "__name__", "") == "mlflow" and hasattr(sink, "active_run"):
        return _mlflow(sink)
    if callable(getattr(sink, "add_scalar", None)):
        return Delivery(type(sink).__name__, _scalars(sink.add_scalar))
    for method in ("log", "log_metrics"):  # a W&B run or trackio; MLflow's module or Lightning's loggers
        log = getattr(sink, method, None)
        if callable(log) and not _takes_text(sink, method):
            return Delivery(getattr(sink, "__name__", type(sink).__name__), _logged(log))
    if callable(sink):
        return Delivery(getattr(sink, "__name__", type(sink).__name__), lambda _interval, figures: sink(dict(figures)))
    raise InputError(
        f"to= has a {type(sink).__name__}, which takes no figures: hand over a tracker (a TensorBoard writer, a W&B run, "
        f"mlflow, trackio), `print`, a path that ends in .jsonl or .prom, http://127.0.0.1:PORT, or a function of one "
        f"dictionary."
    )


def _takes_text(sink: Any, method: str) -> bool:
    """Whether `log` writes text, as a logger of Python's does."""
    return method == "log" and hasattr(sink, "isEnabledFor")


def _logged(log: Callable[..., Any]) -> Deliver:
    """Hands over with the number of the step, unless `log` has no argument for it."""
    try:
        taken = signature(log).parameters.values()
        numbered = any(one.name == "step" or one.kind is one.VAR_KEYWORD for one in taken)
    except (TypeError, ValueError):
        numbered = True

    def deliver(interval: Interval, figures: Figures) -> None:
        log(dict(figures), **({"step": interval.last} if numbered else {}))

    return deliver


def _scalars(add: Callable[..., Any]) -> Deliver:
    def deliver(interval: Interval, figures: Figures) -> None:
        for name, value in figures.items():
            add(name, value, interval.last)

    return deliver


def _file(path: Path) -> Delivery:
    check = {".jsonl": _lines, ".json": _lines, ".prom": _prometheus}.get(path.suffix)
    if check is None:
        raise InputError(f"to= names {path}; a file of figures ends in .jsonl or .prom.")
    check_writable(path)
    return check(path.absolute())  # the loop may go to another folder


def _lines(path: Path) -> Delivery:
    file = LineFile(path)

    def deliver(_interval: Interval, figures: Figures) -> None:
        file.append(figures.line())

    delivery = Delivery(str(path), deliver)
    delivery.takes_lines = True
    return delivery


def _prometheus(path: Path) -> Delivery:
    def deliver(_interval: Interval, figures: Figures) -> None:
        write_text(path, text_of(figures))

    return Delivery(str(path), deliver, latest_only=True)


def _terminal(stream: Any) -> Delivery:
    """One line that is written anew in a terminal, and a line now and then in a file."""
    begun = last = monotonic()

    def deliver(interval: Interval, _figures: Figures) -> None:
        nonlocal last
        if stream.isatty():
            stream.write(f"\r\x1b[2K{line(interval)[: max(20, get_terminal_size().columns - 1)]}")
        elif monotonic() - last >= min(60.0, 0.1 * (monotonic() - begun)):
            stream.write(f"{line(interval)}\n")
            last = monotonic()
        stream.flush()

    def close() -> None:
        if stream.isatty():
            stream.write("\n")
            stream.flush()

    return Delivery("the terminal", deliver, close)


def _mlflow(module: Any) -> Delivery:
    """MLflow keeps its active run for each thread, so it is noted here."""
    run = module.active_run()
    options = {} if run is None else {"run_id": run.info.run_id}
    return Delivery(
        "mlflow", lambda interval, figures: module.log_metrics(dict(figures), step=interval.last, **options)
    )


def line(interval: Interval) -> str:
    """An interval in one line of text."""
    from ...render.run_page import line as drawn

    return drawn(interval)
