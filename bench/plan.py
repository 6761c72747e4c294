"""Predicts the published training runs of bench/data from their stated mesh, micro-batch and checkpointing, beside what was measured.

    python bench/plan.py [--markdown] [FILE.json]

Needs transformers. A row's `device` begins with a name of our table; `gpt...` is `hf:gpt2:...`, `llama` is `hf:llama:...`.
Published TFLOP/s become tokens by the row's own count of FLOPs: Megatron-LM's counts the recomputed forward, Llama 3's is
6 N + 6 L h s a token.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import flopsight  # noqa: E402

DATA = Path(__file__).parent / "data" / "published_training.json"
GIB = 2**30


@dataclass(frozen=True)
class Outcome:
    """One run: predicted and published tokens a second of one GPU, and memory if it was published."""

    row: dict[str, Any]
    option: Any
    published: float

    @property
    def predicted(self) -> float:
        return self.option.tokens_per_second_per_gpu

    @property
    def error(self) -> float:
        return self.predicted / self.published - 1

    @property
    def memory_error(self) -> float | None:
        stated = self.row.get("memory_gib")
        return self.option.peak_bytes / GIB / stated - 1 if stated else None


def target_of(row: dict[str, Any]) -> str:
    m = row["model"]
    if m["kind"].startswith("gpt"):
        sizes = {"n_embd": m["hidden"], "n_layer": m["layers"], "n_head": m["heads"], "n_positions": row["seq"]}
        kind = "gpt2"
    else:
        sizes = {
            "hidden_size": m["hidden"],
            "num_hidden_layers": m["layers"],
            "num_attention_heads": m["heads"],
            "num_key_value_heads": m["kv_heads"],
            "intermediate_size": m["mlp"],
            "max_position_embeddings": row["seq"],
        }
        kind = "llama"
    return f"hf:{kind}:" + ",".join(f"{name}={size}" for name, size in (sizes | {"vocab_size": m["vocab"]}).items())


def mesh_of(row: dict[str, Any]) -> dict[str, int]:
    """The stated mesh; Llama 3's data-parallel ranks shard."""
    sharded = row["source"].startswith("The Llama 3")
    return {"fsdp" if sharded and name == "dp" else name: size for name, size in row["mesh"].items()}


def tokens_published(row: dict[str, Any], params: int) -> float:
    """Tokens a second of one GPU."""
    if "tokens_per_s_per_gpu" in row:
        return row["tokens_per_s_per_gpu"]
    m, s = row["model"], row["seq"]
    layers, h, vocab = m["layers"], m["hidden"], m["vocab"]
    if "global_batch" in row:
        each = 96 * layers * h * h * (1 + s / (6 * h) + vocab / (16 * layers * h))
    else:
        each = 6 * params + 6 * layers * h * s
    return row["tflops_per_gpu"] * 1e12 / each


def params_of(row: dict[str, Any]) -> int:
    m = row["model"]
    h, kv = m["hidden"], m["hidden"] // m["heads"] * m.get("kv_heads", m["heads"])
    return m["layers"] * (2 * h * h + 2 * h * kv + 3 * h * m["mlp"] + 2 * h) + 2 * m["vocab"] * h + h


def outcome_of(row: dict[str, Any]) -> Outcome:
    mesh = mesh_of(row)
    replicas = mesh.get("dp", 1) * mesh.get("fsdp", 1)
    batch = row.get("global_batch") or row.get("batch_per_dp", 0) * replicas
    plan = flopsight.plan(
        target_of(row),
        gpus=row["gpus"],
        on=row["device"].split()[0],
        seq=row["seq"],
        mesh=mesh,
        batch=batch or None,
        micro_batch=row.get("micro_batch"),
        accumulate=row.get("accumulate"),
        checkpoint=row["checkpointing"],
        compile=row["compile"],
        gpus_per_node=row["gpus_per_node"],
        between_nodes=row["between_nodes_gbit_per_gpu"],
    )
    return Outcome(row, plan.best, tokens_published(row, params_of(row)))


def text_rows(outcomes: list[Outcome]) -> list[list[str]]:
    head = ["run", "mesh", "checkpoint", "micro-batch", "published", "predicted", "error", "GiB", "predicted", "error"]
    lines = [head]
    for one in outcomes:
        stated = one.row.get("memory_gib")
        memory = (
            [f"{stated:.1f}", f"{one.option.peak_bytes / GIB:.1f}", f"{one.memory_error:+.0%}"] if stated else [""] * 3
        )
        lines.append([
            one.row["id"], one.option.mesh_text, one.option.checkpoint, str(one.option.micro_batch),
            f"{one.published:,.0f}", f"{one.predicted:,.0f}", f"{one.error:+.0%}", *memory,
        ])  # fmt: skip
    return lines


def summary(outcomes: list[Outcome]) -> list[str]:
    errors = sorted(abs(one.error) for one in outcomes)
    within = sum(error <= 0.25 for error in errors) / len(errors)
    factor = max(max(one.predicted / one.published, one.published / one.predicted) for one in outcomes)
    best, worst = (f(outcomes, key=lambda one: abs(one.error)) for f in (min, max))
    memory = [abs(one.memory_error) for one in outcomes if one.memory_error is not None]
    return [
        (
            f"{len(outcomes)} runs, tokens a second of one GPU: median error {statistics.median(errors):.1%}, {within:.0%} within 25 %, "
            f"worst factor {factor:.2f}"
        ),
        f"best: {best.row['id']} ({best.error:+.1%}); worst: {worst.row['id']} ({worst.error:+.1%})",
        *([f"memory: {len(memory)} runs, worst error {max(memory):.1%}"] if memory else []),
    ]


def main() -> None:
    words = sys.argv[1:]
    files = [word for word in words if not word.startswith("-")]
    rows = json.loads(Path(files[0] if files else DATA).read_text(encoding="utf-8"))
    begun = time.process_time()
    outcomes = [outcome_of(row) for row in rows]
    lines = text_rows(outcomes)
    if "--markdown" in words:
        lines.insert(1, ["---"] * 3 + ["---:"] * 7)
        print("\n".join(f"| {' | '.join(line)} |" for line in lines))
    else:
        widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
        for line in lines:
            print(
                "  ".join(
                    cell.ljust(w) if i < 3 else cell.rjust(w)
                    for i, (cell, w) in enumerate(zip(line, widths, strict=True))
                ).rstrip()
            )
    print("\n" + "\n".join(summary(outcomes)))
    print(f"{time.process_time() - begun:.0f} s of CPU", file=sys.stderr)


if __name__ == "__main__":
    main()
