"""Puts the pages of the site together in a folder, for Zensical to build: `make docs`.

The pages stay where GitHub shows them. Links that lead out of docs/ become links to the repository, the tutorials are notebooks, the pages of the API
are written from the public names, and the reports of the gallery are made now.
"""

import ast
import re
import shutil
import sys
from pathlib import Path

import gallery
import tutorials

HERE = Path(__file__).parent
DOCS = HERE.parent
ROOT = DOCS.parent
SOURCE = "https://github.com/flopsight/flopsight/blob/main/"
MOVED = {"README.md": "start.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages from the root of the repository, and their names in the site."""
API = {
    "functions": (
        "Functions",
        "profile count recording load compare sweep plan generation monitor step_profiler gather formula",
    ),
    "results": ("Results", "Profile Node Job Sweep Generation Plan PlanOption Run Comparison Finding"),
    "parts": ("Parts of a result", "Cost OpRecord TensorMeta FlopsightError"),
    "older": ("Older interfaces", "get_model_profile FlopsProfiler TIDSProfiler AProfiler"),
}
"""Pages of the API: their titles, and the names of `flopsight.__all__` on each; one that is on none comes last on the first two."""
INSIDE = {
    "parts": "results.run.Interval results.world.World results.world.Whole results.coverage.Coverage "
    "results.coverage.UnknownOp results.timings.Timing results.timings.Stat results.comm.CommRow results.costs.OpRow",
    "integrations": "integrations.transformers.FlopsightCallback integrations.lightning.FlopsightCallback "
    "integrations.accelerate.step_profiler integrations.deepspeed.install integrations.deepspeed.uninstall "
    "integrations.trackers.log_profile integrations.trackers.scalars",
}
"""What public values hold and frameworks import, by where it lives."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")


def stage(folder):
    """Write everything that the site is made of into a folder."""
    pages = folder / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    (pages / "api").mkdir(parents=True)
    shutil.copytree(DOCS / "images", pages / "images")
    for path in [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in MOVED)]:
        if path != DOCS / "README.md":
            name = MOVED.get(path.name, path.name) if path.parent == ROOT else path.name
            (pages / name).write_text(page(path), encoding="utf-8")
    (pages / "tutorials").mkdir()
    for path in sorted(tutorials.TUTORIALS.glob("*.ipynb")):
        (pages / "tutorials" / f"{path.stem}.md").write_text(tutorials.page(path), encoding="utf-8")
    gallery.make(pages / "reports")
    (pages / "gallery.md").write_text(gallery.page(), encoding="utf-8")
    for name in ("index.md", "site.css"):
        shutil.copy(HERE / name, pages)
    shutil.copy(HERE / "doctests.py", folder)
    config = (HERE / "zensical.toml").read_text(encoding="utf-8").replace("SOURCE", (ROOT / "src").as_posix())
    (folder / "zensical.toml").write_text(config, encoding="utf-8")
    for name in {**API, **INSIDE}:
        (pages / "api" / f"{name}.md").write_text(api_page(name), encoding="utf-8")
    (pages / "examples.md").write_text(examples_page(), encoding="utf-8")


def page(path):
    """A page of the repository as the site has it."""
    return LINK.sub(lambda found: target(path.parent, found[1]) + (found[2] or ""), path.read_text(encoding="utf-8"))


def target(folder, link):
    """Where a link of a page in a folder leads in the site."""
    there = (folder / link).resolve()
    if there.parent == DOCS and there.name != "README.md":
        return there.name
    if there.parent == DOCS / "images":
        return f"images/{there.name}"
    if there.parent == tutorials.TUTORIALS:
        return f"tutorials/{there.stem}.md" if there.suffix else "tutorials/vision.md"
    if there == DOCS / "README.md":
        return "index.md"
    if there.parent == ROOT and there.name in MOVED:
        return MOVED[there.name]
    return SOURCE + str(there.relative_to(ROOT))


def api_page(name):
    """The entries of some names."""
    title, names = API.get(name, ("Frameworks", ""))
    placed = {each for _, some in API.values() for each in some.split()}
    new = [each for each in public_names() if each not in placed and name == _page_of(each)]
    entries = [
        *(f"flopsight.{each}" for each in [*names.split(), *new]),
        *(f"flopsight.{at}" for at in INSIDE.get(name, "").split()),
    ]
    return f"# {title}\n\n" + "\n\n".join(f"::: {entry}" for entry in entries) + "\n"


def _page_of(name):
    """Where a name goes that is on no page yet."""
    return "results" if name[0].isupper() else "functions"


def public_names():
    """The names of `flopsight.__all__`, without an import."""
    tree = ast.parse((ROOT / "src/flopsight/__init__.py").read_text(encoding="utf-8"))
    homes = next(node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "_HOMES")
    return list(ast.literal_eval(homes))


def examples_page():
    """Every example, whole: its docstring says what it is and how it is run."""
    parts = ["# Examples\n\nEach of them runs in the tests.\n"]
    for path in sorted(ROOT.glob("examples/*.py")):
        title, code = path.stem.replace("_", " "), path.read_text(encoding="utf-8")
        parts.append(f"## {title}\n\n[`examples/{path.name}`]({SOURCE}examples/{path.name})\n\n```python\n{code}```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
