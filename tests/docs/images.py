"""Makes docs/images anew: `make images`, or with the names of saved profiles to draw instead of profiling: resnet50=p.json.

Pictures stand on matplotlib, pages, notebook cells and comments on a browser without a screen; PNGs have 128 colours.
"""

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich.console import Console

import flopsight
from flopsight.render import prepare

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MODELS = {
    "resnet50": ["zoo:resnet50"],
    "gpt2-medium": ["hf:gpt2-medium", "-i", "1x256", "--train", "--optimizer", "adamw", "--repeats", "3"],
    "mixtral": ["hf:mixtral-8x7b", "--meta", "-i", "1x4096"],
}
ON = {"mixtral": "h100-sxm"}
"""Models without a device of their own."""
BEFORE = "hf:gpt2-medium:n_inner=3072"
MESH = ["hf:llama-3.1-8b", "--mesh", "fsdp=4", "--train", "-i", "1x2048"]
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""What would load letters from another host; every reader has letters of one width."""
FRAME = (
    '<meta charset="utf-8"><style>:root{{color-scheme:{scheme}}}body{{font:14px system-ui,sans-serif;margin:16px;'
    "background:Canvas;color:CanvasText}}table{{border-collapse:collapse}}.md td,.md th{{border:1px solid #8886;padding:3px 9px}}</style>{body}"
)


def saved(name, folder, given):
    """The profile of a model: a saved one if it was named, else a new one."""
    if name in given:
        return flopsight.load(given[name])
    path = folder / f"{name}.json"
    words = [*MODELS[name], *([] if name in ON else ["-o", folder / f"{name}.timeline.svg"])]  # so that one is taken
    subprocess.run(
        [sys.executable, "-m", "flopsight", "profile", *words, "-o", path], check=True, stdout=subprocess.DEVNULL
    )
    return flopsight.load(path)


def quantised(data, path):
    Image.open(io.BytesIO(data)).convert("RGB").quantize(128, method=Image.Quantize.MEDIANCUT).save(path, optimize=True)
    print(path.name, path.stat().st_size)


def shot(html, path, size, scheme="light", view=""):
    """A page as a browser shows it in a light or a dark theme; `view` is what its address asks for."""
    dark = (
        ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else ["--blink-settings=preferredColorScheme=1"]
    )
    with tempfile.TemporaryDirectory() as folder:
        page, drawn = Path(folder, "page.html"), Path(folder, "page.png")
        page.write_text(html, encoding="utf-8")
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--virtual-time-budget=4000",
            *dark,
        ]
        where = [f"--window-size={size[0]},{size[1]}", f"--screenshot={drawn}", page.as_uri() + view]
        subprocess.run(["chromium", *flags, *where], check=True, capture_output=True)
        quantised(drawn.read_bytes(), path)


def framed(body, scheme):
    return FRAME.format(body=body, scheme=scheme)


def pictures(name, profile):
    for kind in ("icicle", "roofline", "memory", "timeline"):
        try:
            picture = getattr(profile.plot, kind)(**({"on": ON.get(name)} if kind == "roofline" else {}))
        except flopsight.FlopsightError as problem:
            print(f"{name} has no {kind}: {problem}")
            continue
        quantised(picture.encoded("png"), IMAGES / f"{name}-{kind}.png")


def terminal(name, value, **options):
    console = Console(record=True, width=150, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    prepare("tree", **options).show(value, console)
    path = IMAGES / f"{name}-terminal.svg"
    drawn = FONT.sub("", console.export_svg(title=f"flopsight show {name}.json"))
    path.write_text(drawn, encoding="utf-8")
    print(path.name, path.stat().st_size)


def seen(name, value):
    """A value as a notebook shows it, light and dark."""
    for scheme in ("light", "dark"):
        html = framed(value._repr_mimebundle_()["text/html"], scheme)
        shot(html, IMAGES / f"{name}-notebook-{scheme}.png", (960, 460), scheme)


def page(name, value, folder):
    path = folder / f"{name}.html"
    value.to_html(path)
    for scheme in ("light", "dark"):
        html = path.read_text(encoding="utf-8")
        shot(html, IMAGES / f"{name}-page-{scheme}.png", (1440, 1000), scheme)
        shot(html, IMAGES / f"{name}-graph-{scheme}.png", (1440, 1600), scheme, "#tab=graph")


def main(words):
    given = dict(word.split("=", 1) for word in words)
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        profiles = {name: saved(name, folder, given) for name in MODELS}
        for name, profile in profiles.items():
            pictures(name, profile)
            terminal(name, profile, depth=2)
            page(name, profile, folder)
        (IMAGES / "report.png").write_bytes((IMAGES / "resnet50-page-light.png").read_bytes())
        seen("gpt2-medium", profiles["gpt2-medium"])
        job = four_ranks(folder)
        terminal("job", job, depth=2)
        seen("job", job)
        page("job", job, folder)
        compared(folder)


def four_ranks(folder):
    ranks = folder / "ranks"
    ranks.mkdir()
    for rank in range(4):
        words = ["profile", *MESH, "--rank", str(rank), "-o", ranks / f"rank{rank}.json"]
        subprocess.run([sys.executable, "-m", "flopsight", *words], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        [sys.executable, "-m", "flopsight", "merge", ranks, "-o", folder / "job.json"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return flopsight.load(folder / "job.json")


def compared(folder):
    """GPT-2 medium with a narrower MLP before, on meta: the comment as GitHub draws it, and the page."""
    from markdown_it import MarkdownIt

    sides = {}
    for name, target in (("before", BEFORE), ("after", "hf:gpt2-medium")):
        words = ["profile", target, "--meta", "--train", "-i", "1x256", "-o", folder / f"{name}.json"]
        subprocess.run([sys.executable, "-m", "flopsight", *words], check=True, stdout=subprocess.DEVNULL)
        sides[name] = flopsight.load(folder / f"{name}.json")
    found = flopsight.compare(sides["before"], sides["after"])
    comment = MarkdownIt("commonmark", {"html": True}).enable("table").render(found.render("markdown"))
    for scheme in ("light", "dark"):
        shot(
            framed(f'<div class="md">{comment}</div>', scheme),
            IMAGES / f"diff-comment-{scheme}.png",
            (960, 420),
            scheme,
        )
    page("diff", found, folder)


if __name__ == "__main__":
    main(sys.argv[1:])
