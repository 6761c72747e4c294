"""The house plan: every import inside the package points down, and a profile's doors are the only exceptions."""

import ast
import re

from project.house import FLOORS, PAGE, ROOT, SOURCE, made_anew, module_name

ROOMS = {
    "hooks": set(),
    "model": {"hooks"},
    "count": {"hooks", "model"},
    "twin": {"hooks", "model", "count"},
    "time": {"hooks", "model"},
}
"""Inside capture: which rooms each room may import besides itself."""

DOORS = {
    "render",
    "to_html",
    "to_frame",
    "plot",
    "save",
    "__str__",
    "mfu",
    "hfu",
    "mfu_at",
    "limit",
    "bound",
    "findings",
}
"""Methods of Profile that may reach up, importing inside the function; a node has `limit` and `bound`, a comparison `render`."""

ROOF = {"", "__init__", "__main__", "profiling"}
"""The public names, `python -m flopsight`, and the import path that DeepSpeed's users know."""

NO_TORCH = ("errors", "units", "progress", "config", "results", "files", "formulas", "analysis", "render", "hardware")


def floor(name):
    """The highest floor whose plan names the module or a package around it, longest name first."""
    found = [
        (len(home), level)
        for level, homes in enumerate(FLOORS)
        for home in homes
        if (name + ".").startswith(home + ".")
    ]
    assert found, f"{name} is not in the house plan"
    return max(found)[1]


def imports(tree, name, is_package):
    """(imported module of ours or another's top name, enclosing function) for every import statement."""
    found = []

    def visit(node, function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.ImportFrom):
            found.extend((target, function) for target in _targets(node, name, is_package))
        if isinstance(node, ast.Import):
            found.extend((alias.name, function) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(tree, None)
    return found


def _targets(node, name, is_package):
    if node.level == 0:
        return [node.module]
    around = name.split(".") if name else []
    around = around[: len(around) - node.level + is_package]
    base = ".".join(["flopsight", *around])
    if node.module:
        base = f"{base}.{node.module}"
    # `from . import node` names a module, `from .node import Node` does not
    return [f"{base}.{alias.name}" if _exists(f"{base}.{alias.name}") else base for alias in node.names]


def _exists(dotted):
    path = SOURCE.joinpath(*dotted.split(".")[1:])
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def package():
    for path in sorted(SOURCE.rglob("*.py")):
        name = module_name(path)
        yield name, imports(ast.parse(path.read_text(encoding="utf-8")), name, path.name == "__init__.py")


def broken_rules(name, found):
    """The imports of one module that point up."""
    if name.partition(".")[0] in ROOF:
        return []
    wrong = []
    for target, function in found:
        if not target.startswith("flopsight"):
            continue
        inside = target.removeprefix("flopsight").removeprefix(".")
        if inside.partition(".")[0] in ROOF or _is_door(name, function):
            continue
        same_package = inside.partition(".")[0] == name.partition(".")[0]
        if floor(inside) > floor(name) or (floor(inside) == floor(name) and not same_package and floor(name) > 1):
            wrong.append(f"{name} imports {inside}")
    return wrong


def _is_door(name, function):
    if name == "analysis.compare":
        return function in {"render", "to_html"}
    if name == "results.in_notebooks":
        return function in {"_repr_mimebundle_", "render", "save"}
    if name == "results.node":
        return function in {"limit", "bound"}
    if name == "results.job" and function == "values":
        return True  # the book says how a figure is read
    if name == "results.generation":
        return function in {"decode", "serving", "speculative", "to_html"}
    if name == "results.sweep" and function in {"row", "rows", "growth"}:
        return True
    return (
        name in ("results.profile", "results.job", "results.run", "results.plan", "results.sweep") and function in DOORS
    )


def test_every_import_points_down():
    wrong = [rule for name, found in package() for rule in broken_rules(name, found)]

    assert not wrong, wrong


def test_an_import_that_points_up_is_noticed():
    up = imports(ast.parse("from ..render import render"), "analysis.tables", False)
    deep = imports(ast.parse("def f():\n    from ..engine.measure import profile"), "render.tree", False)
    sideways = imports(ast.parse("from ...formulas.registry import known"), "capture.count.dispatch", False)
    down = imports(ast.parse("from ..results.node import Node"), "analysis.tables", False)

    assert broken_rules("analysis.tables", up) == ["analysis.tables imports render"]
    assert broken_rules("render.tree", deep) == ["render.tree imports engine.measure"]
    assert broken_rules("capture.count.dispatch", sideways) == ["capture.count.dispatch imports formulas.registry"]
    assert broken_rules("analysis.tables", down) == []


def rooms_entered(name, found):
    """The imports of one module of capture that its room does not allow."""
    room = name.split(".")[1]
    inside = [target.split(".")[2] for target, _ in found if target.startswith("flopsight.capture.")]
    return [f"{name} imports capture.{other}" for other in inside if other != room and other not in ROOMS[room]]


def test_the_rooms_of_capture_import_only_those_before_them():
    wrong = [rule for name, found in package() if name.startswith("capture.") for rule in rooms_entered(name, found)]

    assert not wrong, wrong


def test_a_room_of_capture_that_imports_a_later_one_is_noticed():
    up = imports(ast.parse("from ..twin.meta_copy import make_twin"), "capture.count.dispatch", False)
    aside = imports(ast.parse("from ..count import memory"), "capture.time.clock", False)
    down = imports(ast.parse("from ..hooks import internals"), "capture.model.sites", False)

    assert rooms_entered("capture.count.dispatch", up) == ["capture.count.dispatch imports capture.twin"]
    assert rooms_entered("capture.time.clock", aside) == ["capture.time.clock imports capture.count"]
    assert rooms_entered("capture.model.sites", down) == []


def test_the_doors_of_a_profile_are_exactly_these():
    found = dict(package())["results.profile"]
    ground = {"units", "errors", "results", "files.whole_files"}
    doors = {
        function
        for target, function in found
        if target.startswith("flopsight.") and not {target.split(".")[1], target.removeprefix("flopsight.")} & ground
    }

    # `render` and `save` are those of all values that are drawn in every format, in results.in_notebooks
    assert doors == DOORS - {"__str__", "render", "save"}, "printing goes through render"


def test_what_draws_and_reckons_does_not_import_torch():
    """At the top of a module, that is: detecting hardware asks torch inside a function."""
    wrong = [
        name
        for name, found in package()
        for target, function in found
        if name.partition(".")[0] in NO_TORCH
        and target.partition(".")[0] == "torch"
        and (function is None or not name.startswith("hardware."))
    ]

    assert not wrong, wrong


def test_nothing_of_ours_imports_an_integration():
    wrong = [
        name
        for name, found in package()
        for target, _ in found
        if target.startswith("flopsight.integrations") and not name.startswith(("integrations", "cli", "profiling"))
    ]

    assert not wrong, wrong


def test_the_page_says_what_is_there():
    page = PAGE.read_text(encoding="utf-8")

    assert page == made_anew(page), "`make house` writes it anew"


def test_every_file_that_the_page_names_is_there():
    page = PAGE.read_text(encoding="utf-8").partition("## Every file")[0]
    named = re.findall(r"`((?:[\w.]+/)+[\w.]*)`", page)

    assert len(named) > 50
    assert not [
        name for name in named if not any((root / name).exists() for root in (SOURCE, SOURCE / "capture", ROOT))
    ]


def test_each_walk_has_as_many_hops_as_it_says():
    page = PAGE.read_text(encoding="utf-8")
    walks = page.partition("## Six walks")[2].partition("\n## ")[0].split("\n\n")[2:]
    said = [int(re.search(r"\*\*, (\d+) hops", walk)[1]) for walk in walks]
    before = [int(number) for number in re.findall(r"\d+", re.search(r"the walks had ([\d, and]+) hops", page)[1])]
    named = [len(set(re.findall(r"`((?:\w+/)+\w+\.py)`", walk))) for walk in walks]

    assert named == said
    assert len(said) == 6
    assert all(now <= then for now, then in zip(said, before, strict=True))


def test_no_file_name_stands_twice_but_a_value_beside_its_command():
    homes = {}
    for path in SOURCE.rglob("[!_]*.py"):
        homes.setdefault(path.name, []).append(path.parent.relative_to(SOURCE).as_posix())
    twice = {name: sorted(rooms) for name, rooms in homes.items() if len(rooms) > 1}

    assert set(map(tuple, twice.values())) <= {("cli", "results")}, twice
    assert len(twice) <= 4, "profile, run, sweep, plan"
