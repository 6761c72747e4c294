"""Budgets for models in pytest: a mark that states them and a fixture that profiles a model and holds it to them.

Installed with flopsight, pytest finds this by itself; neither torch nor the rest of flopsight is imported before a test
profiles a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..results.node import Node
    from ..results.profile import Profile

MARK = "model_budget"
FIXTURE = "profile_model"
HOW_MANY = 5
"""Modules that a complaint names."""


class ModelProfiler:
    """The value of the `profile_model` fixture: profiles a model and fails the test if it exceeds the marked budget."""

    def __init__(self, budget: Mapping[str, Any]) -> None:
        self.budget = budget
        self.called = False

    def __call__(self, model: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> Profile:
        """Profile a model like `flopsight.profile`, with its options; it is timed only if the budget asks for a time."""
        __tracebackhide__ = True
        from ..analysis.budget import check
        from ..analysis.figures import figure
        from ..engine.measure import profile
        from ..errors import FlopsightError

        self.called = True
        try:
            options.setdefault("latency", any(figure(name).is_time for name in self.budget))
            result = profile(model, args, kwargs, **options)
            complaints = {name: check(result, {name: allowed}) for name, allowed in self.budget.items()}
        except FlopsightError as problem:
            pytest.fail(str(problem), pytrace=False)
        broken = [f"{line}{shares(result, name)}" for name, lines in complaints.items() for line in lines]
        if broken:
            pytest.fail("\n".join([f"{type(model).__name__} breaks its budget:", *broken]))
        return result


def shares(profile: Profile, name: str) -> str:
    """The modules with most of a figure, a line each; nothing for figures that only the whole has."""
    from .. import units
    from ..analysis.figures import figure

    known = figure(name)
    read = known.of_node
    total = read(profile.root) if read is not None else 0
    if read is None or not total:
        return ""
    parts = sorted(((read(node) or 0, node) for node in _parts(profile.root)), key=lambda part: -part[0])
    shown = [(value, node) for value, node in parts[:HOW_MANY] if value]
    width = max((len(node.path) for _, node in shown), default=0)
    lines = [
        f"\n    {node.path:<{width}}  {units.percent(value / total):>6}  {known.text(value)}  {node.kind}"
        for value, node in shown
    ]
    return "".join(lines)


def _parts(root: Node) -> tuple[Node, ...]:
    """The modules that a model is made of: its children, or those of the one child that is all of it."""
    children = root.children
    while len([child for child in children if child.kind]) == 1 and children[0].children:
        children = children[0].children
    return children


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        f'{MARK}(params="26M", flops="8.2G", activation_bytes="1GiB", ...): the most that a model profiled with the '
        f"{FIXTURE} fixture may have of any figure that `flopsight check` knows.",
    )


@pytest.fixture(name=FIXTURE)
def _profile_model(request: pytest.FixtureRequest) -> ModelProfiler:
    """Profile a model and hold it to the test's `model_budget` mark: `profile_model(model, input_shape=(1, 3, 8, 8))`."""
    return ModelProfiler(_budget(request.node))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Refuse a marked test that has profiled nothing: its budget would hold whatever the model became."""
    yield
    if item.get_closest_marker(MARK) is not None:
        profiler = getattr(item, "funcargs", {}).get(FIXTURE)
        if not isinstance(profiler, ModelProfiler) or not profiler.called:
            pytest.fail(f"The test has a {MARK} but profiled no model: call the {FIXTURE} fixture.", pytrace=False)


def _budget(item: Any) -> Mapping[str, Any]:
    """All limits that a test is marked with; those nearer to the test win."""
    budget: dict[str, Any] = {}
    for mark in item.iter_markers(MARK):
        if mark.args or not mark.kwargs:
            pytest.fail(
                f'Write the limits of {MARK} by name: @pytest.mark.{MARK}(params="26M", flops="8.2G").', pytrace=False
            )
        budget = {**mark.kwargs, **budget}
    return budget
