"""Published figures of servers: none is faster than our least time. The table of docs/serving.md is made here."""

import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

import flopsight
from flopsight.analysis.packed import packed
from flopsight.engine.packed_weights import packed_sizes
from flopsight.results.packing import packing_of
from flopsight.targets.inputs import parse_inputs
from flopsight.targets.loading import load_target

ROOT = Path(__file__).parents[3]
PUBLISHED = json.loads((ROOT / "tests/data/published_serving.json").read_text(encoding="utf-8"))["rows"]
BEGIN, END = "<!-- published: written by tests/lanes/targets/test_published_serving.py -->", "<!-- end of published -->"
HEAD = "| model | device | weights | batch | prompt, new | published | least or most | ratio |\n| --- | --- | --- | --- | --- | --- | --- | --- |"


@cache
def model_of(target):
    return load_target(f"hf:{target}", parse_inputs(["1x1"]), meta=True, generates=True, dtype="float16").model.eval()


@cache
def counted(target, prompt, new):
    """One sequence; the first of the new tokens comes with the prompt."""
    ids = torch.ones(1, prompt, dtype=torch.int64, device="meta")
    return flopsight.generation(model_of(target), ids, new - 1)


@cache
def served(target, prompt, new, weights, cache, device):
    """The same with packed weights, and with a cache of 8 bits."""
    made = counted(target, prompt, new)
    if weights:
        packing = packing_of(weights)
        made = packed(made, packing, packed_sizes(model_of(target), packing))
    if cache:
        parts = tuple(replace(part, token_bytes=part.token_bytes // 2) for part in made.kv.parts)
        made = replace(made, kv=replace(made.kv, parts=parts))
    return made.serving(device)


def serving_of(row):
    return served(*(row.get(name, "") for name in ("target", "prompt", "new", "weights", "cache", "device")))


def least(row):
    """Seconds to the first token, and seconds of the whole run."""
    serving = serving_of(row)
    batch, ways = row["batch"], row["gpus"]
    first = serving.prefill_load.least(serving.ceilings, batch, ways).limit
    step = serving.step_load().least(serving.ceilings, batch, ways).limit
    return first, first + (row["new"] - 1) * step


def compared(row):
    """The published figure, ours, and how many times the least time the published one took."""
    first, whole = least(row)
    if "first_token" in row:
        return row["first_token"], first, row["first_token"] / first
    most = row["batch"] * row["new"] / whole
    return row["tokens_per_second"], most, most / row["tokens_per_second"]


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row['name']} {row['device']} {row['batch']}")
def test_no_server_is_faster_than_the_least_time(row):
    _, _, ratio = compared(row)

    assert 1 < ratio < 6


def table(only=None):
    lines = [HEAD]
    for row in PUBLISHED if only is None else [row for row in PUBLISHED if only in row["name"]]:
        found, ours, ratio = compared(row)
        shown = [f"{1000 * x:.3g} ms" if "first_token" in row else f"{x:,.4g} tokens/s" for x in (found, ours)]
        shown = [
            text if "e" not in text else f"{x:,.0f} tokens/s" for text, x in zip(shown, (found, ours), strict=True)
        ]
        device = f"{row['gpus']} x {row['device']}" if row["gpus"] > 1 else row["device"]
        lines.append(
            f"| {row['name']} | {device} | {row.get('weights', 'fp16')} | {row['batch']} | {row['prompt']}, {row['new']} | {shown[0]} | "
            f"{shown[1]} | {ratio:.2f} |"
        )
    return "\n".join(lines)


def test_the_page_has_the_table():
    page = (ROOT / "docs/serving.md").read_text(encoding="utf-8")

    assert page.partition(BEGIN)[2].partition(END)[0].strip() == table()


if __name__ == "__main__":
    sys.stdout.write(table(*sys.argv[1:]) + "\n")
