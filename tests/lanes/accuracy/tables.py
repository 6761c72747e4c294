"""docs/accuracy.md and the data files that it sums up, from the same results that the tests of this lane see."""

from collections import Counter
from csv import writer
from importlib.metadata import version
from io import StringIO
from math import log10
from pathlib import Path
from statistics import median_high

from architectures import ARCHITECTURES
from published import ROWS_WITH_A_MODEL, counted, ours
from sweep import Result, result
from torch_counter import FAULTS

DOCS = Path(__file__).parents[3] / "docs"
PAGE, DATA = DOCS / "accuracy.md", DOCS / "data"
PUBLISHED = (
    "model",
    "source",
    "parameters",
    "published parameters",
    "unit",
    "published",
    "ours",
    "difference",
    "tolerance",
)
STEPS = (
    "model",
    "library",
    "parameters",
    "MACs",
    "MACs by torch's counter",
    "its faults",
    "ops known",
    "equal on meta",
)
FAMILIES = {
    "torchvision": "torchvision's weights",
    "timm": "timm's tables",
    "calflops": "calflops' README",
    "openai/whisper": "Whisper's README",
}
"""Sources by how their names begin."""
PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
PACKAGES = ("torch", "torchvision", "timm", "transformers", "diffusers")

TEXT = """\
# How far the numbers can be trusted

This page is generated (`make accuracy`). `make lane-accuracy` makes it again, compares, and holds every claim in it
as a test. Everything ran on a CPU, with {versions}.

Three witnesses, none of which is our own output:

1. **What others published**: {published} rows of parameters, MACs or FLOPs, each by its source's own convention. Where
   the source gives parameters to the last digit, in {exact} rows, ours are equal to the last digit.
2. **torch's own counter**, `FlopCounterMode`, over one training step of {architectures} architectures. It agrees to
   the last MAC in {agree} of them. In the other {disagree} the whole difference, to the last MAC, comes from
   {faults} faults of torch's counter, which are listed below and numbered in the data file.
3. **The same model without data.** Each is counted on real tensors and again on a twin on the meta device, where no
   kernel runs. MACs are equal in every one of {rows} module rows, forward and backward, in training and in inference
   (experts that are modules of their own count as one row, because a router chooses which of them works). FLOPs and
   bytes are equal too, except for the {reasons} reasons listed below.

{unknown}

Beside this lane, `tests/formulas` holds each formula against a brute-force count of scalar products on random shapes,
`tests/agreement` holds the cases in which other tools are known to be wrong, `tests/gpu` compares a twin with a GPU,
and `test_training.py` in this lane holds every layer of four networks with grouped convolutions against its own
arithmetic, forward and backward.

## Published figures

Every row, with its source, unit and tolerance, is in [published.csv](data/published.csv). If a source rounds, or counts a
little more than it says, its tolerance is wider.

{published_table}

## One training step of {architectures} architectures

Small configurations, random weights, batch 1 to 3. MACs are forward and backward together. Every model is in
[training-steps.csv](data/training-steps.csv), with what torch's counter says, which of the faults below it meets, and which columns
are equal, module by module, between real tensors and the meta twin.

{sweep_table}

### Faults of torch's counter that these models meet

{fault_list}

### Why FLOPs or bytes may differ on meta

{reason_list}

### What a count on meta has to assume

A twin has no data, so a value that decides what runs may be unknown. The profile then says what was assumed:

{assumption_list}

A value that changes a shape, as in `x[x > 0]` on activations, is never assumed: the model is counted on real tensors
instead, and the profile says so. The same goes for models that cannot have a twin: with hooks of the user's, inside a
parallel wrapper, scripted, or with a fused `nn.TransformerEncoderLayer` in inference.
"""


def table(header: tuple[str, ...], rows: list[tuple[str, ...]], left: int) -> str:
    """A Markdown table; the first columns are text, the others numbers."""
    rule = [":---" if i < left else "---:" for i in range(len(header))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def csv(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """The same as a data file."""
    text = StringIO()
    writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def published_rows() -> list[tuple[str, ...]]:
    rows = []
    for name, row in ROWS_WITH_A_MODEL.items():
        figure = ours(name)
        rows.append((
            row["model"],
            _source(row["source"]),
            str(counted(name).params),
            digits(row["params"]),
            row["unit"],
            digits(row["value"]),
            digits(figure),
            f"{figure / row['value'] - 1:+.2%}",
            f"{row['tolerance']:.2%}" if row["tolerance"] >= 1e-4 else f"{row['tolerance']:.0e}",
        ))  # fmt: skip
    return rows


def published_table() -> str:
    """A line for each kind of source: how many rows, and how far off we are at most."""
    lines = {}
    for name, row in ROWS_WITH_A_MODEL.items():
        lines.setdefault(_family(row["source"]), []).append((abs(ours(name) / row["value"] - 1), row["model"]))
    rows = [
        (family, str(len(off)), f"{median_high(share for share, _ in off):.2%}", f"{max(off)[0]:.2%}", max(off)[1])
        for family, off in lines.items()
    ]
    return table(("source", "rows", "median difference", "largest", "in"), rows, 1)


def _family(source: str) -> str:
    return next(
        (words for name, words in FAMILIES.items() if source.startswith(name)), "papers, and the code beside them"
    )


def digits(value: float) -> str:
    """Five significant digits: 178.72 G."""
    power = min(int(log10(value)) // 3, len(PREFIXES) - 1)
    return f"{value / 1000**power:.5g} {PREFIXES[power]}".rstrip()


def _source(text: str) -> str:
    return text.partition(" (")[0].partition(" - ")[0].partition(";")[0]


def sweep_rows(results: list[Result]) -> list[tuple[str, ...]]:
    return [
        (
            one.architecture.name,
            one.architecture.library,
            str(one.params),
            str(one.total),
            str(one.torch_macs),
            " ".join(str(FAULTS.index(fault) + 1) for fault in FAULTS if fault in one.missing_in_torch),
            f"{one.share:.0%}",
            _agreement(one),
        )
        for one in results
    ]


def sweep_table(results: list[Result]) -> str:
    """A line for each library."""
    rows = []
    for library in dict.fromkeys(one.architecture.library for one in results):
        some = [one for one in results if one.architecture.library == library]
        ratios = [one.torch_macs / one.total for one in some]
        agree = sum(one.torch_macs == one.total for one in some)
        rows.append((
            library, str(len(some)), str(agree), f"{min(ratios):.3g}x", f"{max(ratios):.3g}x",
            f"{min(one.share for one in some):.0%}",
        ))  # fmt: skip
    header = ("library", "models", "torch's counter agrees", "its lowest", "its highest", "ops known")
    return table(header, rows, 1)


def _agreement(one: Result) -> str:
    """Which columns are equal on meta."""
    differing = {difference.column for difference in one.differences}
    equal = ", ".join(column for column in ("MACs", "FLOPs", "bytes") if column.lower() not in differing)
    reasons = [
        reason.name for reason in one.reasons if any(reason.covers(d.column, d.kind, d.op) for d in one.differences)
    ]
    return equal + (f" ({', '.join(reasons)})" if reasons else "")


def fault_list(results: list[Result]) -> str:
    met = Counter(fault for one in results for fault in one.missing_in_torch)
    return "\n".join(f"{i}. {fault} ({met[fault]} models)" for i, fault in enumerate(FAULTS, 1))


def files() -> dict[Path, str]:
    """Count everything and write it down: the page, and the rows that it sums up."""
    results = [result(name) for name in ARCHITECTURES]
    return {
        PAGE: page(results),
        DATA / "published.csv": csv(PUBLISHED, published_rows()),
        DATA / "training-steps.csv": csv(STEPS, sweep_rows(results)),
    }


def page(results: list[Result]) -> str:
    reasons = {reason.name: reason.text for one in results for reason in one.reasons}
    agree = sum(one.torch_macs == one.total for one in results)
    unknown = Counter(op for one in results for op in one.unknown)
    return TEXT.format(
        versions=", ".join(f"{name} {version(name).partition('+')[0]}" for name in PACKAGES),
        published=len(ROWS_WITH_A_MODEL),
        exact=sum(counted(name).params == row["params"] for name, row in ROWS_WITH_A_MODEL.items()),
        architectures=len(results),
        agree=agree,
        disagree=len(results) - agree,
        faults=len(FAULTS),
        rows=f"{sum(one.rows for one in results):,}",
        reasons=len(reasons),
        unknown=f"Unknown ops: {', '.join(unknown)}." if unknown else "No op of any of these models is unknown.",
        published_table=published_table(),
        sweep_table=sweep_table(results),
        fault_list=fault_list(results),
        reason_list="\n".join(f"- **{name}**: {text}." for name, text in sorted(reasons.items())),
        assumption_list="\n".join(f"- {text}." for text in sorted({what for one in results for what in one.assumed})),
    )
