"""Where figures may go: trackers by what they can do, files by their suffix, any callable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...results.run import Interval
from .deliveries import Delivery


def make_deliveries(to: Any) -> list[Delivery]:
    """A delivery for every sink that a user named: one, or several in a list or tuple."""
    named = to if isinstance(to, list | tuple | set) else [] if to is None else [to]
    return [_delivery(sink) for sink in named]


def _delivery(sink: Any) -> Delivery:
    if isinstance(sink, Delivery):
        return sink
    if isinstance(sink, str | Path):
        return _file(Path(sink))
    if sink is print:
        return Delivery("print", lambda interval, _figures: print(line(interval), flush=True))
    if isinstance(sink, type):
        raise InputError(f"to= has the class {sink.__name__}; hand over an object of it, say {sink.__name__}(...).")
    if callable(getattr(sink, "add_scalar", None)):
        return Delivery(type(sink).__name__, _scalars(sink.add_scalar))
    for method in ("log", "log_metrics"):  # a W&B run or trackio; MLflow's module or Lightning's loggers
        log = getattr(sink, method, None)
        if callable(log) and not _takes_text(sink, method):
            name = getattr(sink, "__name__", type(sink).__name__)
            return Delivery(name, lambda interval, figures, log=log: log(figures, step=interval.last))  # type: ignore[misc]
    if callable(sink):
        return Delivery(getattr(sink, "__name__", type(sink).__name__), lambda _interval, figures: sink(dict(figures)))
    raise InputError(
        f"to= has a {type(sink).__name__}, which takes no figures: hand over a tracker (a TensorBoard writer, a W&B run, "
        f"mlflow, trackio), `print`, a path that ends in .jsonl or .prom, or a function of one dictionary."
    )


def _takes_text(sink: Any, method: str) -> bool:
    """Whether `log` writes text, as a logger of Python's does."""
    return method == "log" and hasattr(sink, "isEnabledFor")


def _scalars(add: Callable[..., Any]) -> Callable[[Interval, dict[str, float]], None]:
    def deliver(interval: Interval, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            add(name, value, interval.last)

    return deliver


def _file(path: Path) -> Delivery:
    raise InputError(f"to= names {path}; a file of figures ends in .jsonl or .prom.")


def line(interval: Interval) -> str:
    """An interval in one line of text."""
    from ...render.run_page import line as drawn

    return drawn(interval)
