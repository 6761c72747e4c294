"""Does a GPU serve as fast as the least time allows? Decode and prefill with a static cache in CUDA graphs, eager and compiled.

"/ least": measured over the least time. "/ predicted": over the kernels by shares that were measured on this machine right before;
"by table": by those of the device's generation, as `flopsight profile --generate --on` predicts.

python bench/serving.py              # on a GPU: a Llama of 8B, a mixture of experts, a GPT-2, at batches 1, 8, 64
python bench/serving.py --tiny       # small sizes, on a CPU: that it runs; the default without a GPU
python bench/serving.py --only 8B    # one of the models
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

os.environ.setdefault("FLOPSIGHT_CACHE_DIR", tempfile.mkdtemp())  # what is measured here stays here

import torch
from torch import nn

import flopsight
from flopsight import units
from flopsight.analysis.limits.fused import served_seconds
from flopsight.analysis.limits.predict import predict
from flopsight.analysis.serving import Serving, bound_of
from flopsight.hardware.detect import detect
from flopsight.hardware.kernel_shares import shared_ceilings, shares_of
from flopsight.hardware.known_ceilings import datasheet_of
from flopsight.hardware.measured import measure
from flopsight.hardware.named import named_ceilings, named_device
from flopsight.results.generation import Generation, Step
from flopsight.results.kv_cache import STATIC, CachePart, KVCache

grouped_mm = getattr(nn.functional, "grouped_mm", None) or torch._grouped_mm


@dataclass(frozen=True)
class Sizes:
    name: str
    hidden: int
    inner: int
    layers: int
    heads: int
    keys: int
    vocabulary: int
    experts: int = 0
    chosen: int = 2
    gated: bool = True

    @property
    def head(self):
        return self.hidden // self.heads


MODELS = (
    Sizes("Llama 8B", 4096, 14336, 32, 32, 8, 128256),
    Sizes("mixture, 8 experts", 2048, 7168, 16, 16, 4, 32000, experts=8),
    Sizes("GPT-2", 768, 3072, 12, 12, 12, 50257, gated=False),
)


def tiny(sizes):
    return replace(sizes, hidden=64, inner=96, layers=2, heads=4, keys=min(sizes.keys, 4) // 2 or 1, vocabulary=128)


class Attention(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.qkv = nn.Linear(s.hidden, s.hidden + 2 * s.keys * s.head, bias=False)
        self.o = nn.Linear(s.hidden, s.hidden, bias=False)

    def forward(self, x, cache, begin):
        batch, tokens, _ = x.shape
        s = self.s
        heads = self.qkv(x).view(batch, tokens, s.heads + 2 * s.keys, s.head).transpose(1, 2)
        q, k, v = heads.split((s.heads, s.keys, s.keys), dim=1)
        cache[0][:, :, begin : begin + tokens].copy_(k)
        cache[1][:, :, begin : begin + tokens].copy_(v)
        k, v = (part[:, :, : begin + tokens] for part in cache)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=tokens > 1, enable_gqa=s.heads != s.keys)
        return self.o(y.transpose(1, 2).reshape(batch, tokens, s.hidden))


class Feed(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.gated = s.gated
        self.up = nn.Linear(s.hidden, (2 if s.gated else 1) * s.inner, bias=False)
        self.down = nn.Linear(s.inner, s.hidden, bias=False)

    def forward(self, x):
        y = self.up(x)
        if not self.gated:
            return self.down(nn.functional.gelu(y))
        gate, y = y.chunk(2, dim=-1)
        return self.down(nn.functional.silu(gate) * y)


class Mixture(nn.Module):
    """Experts in grouped products: shapes do not depend on what is chosen, so a CUDA graph holds them."""

    def __init__(self, s):
        super().__init__()
        self.s = s
        self.router = nn.Linear(s.hidden, s.experts, bias=False)
        self.up = nn.Parameter(torch.empty(s.experts, s.hidden, 2 * s.inner))
        self.down = nn.Parameter(torch.empty(s.experts, s.inner, s.hidden))

    def forward(self, x):
        s, flat = self.s, x.reshape(-1, x.shape[-1])
        weights, chosen = self.router(flat).float().softmax(-1).topk(s.chosen, dim=-1)
        experts, order = chosen.flatten().sort(stable=True)
        ends = torch.searchsorted(experts, torch.arange(s.experts, device=x.device), right=True, out_int32=True)
        rows = flat[order // s.chosen]
        gate, y = grouped_mm(rows, self.up, offs=ends).chunk(2, dim=-1)
        y = grouped_mm(nn.functional.silu(gate) * y, self.down, offs=ends)
        y = y * weights.flatten()[order, None].to(y.dtype)
        return torch.zeros_like(flat).index_add_(0, order // s.chosen, y).view_as(x)


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.before, self.attention = nn.RMSNorm(s.hidden), Attention(s)
        self.between, self.feed = nn.RMSNorm(s.hidden), Mixture(s) if s.experts else Feed(s)

    def forward(self, x, cache, begin):
        x = x + self.attention(self.before(x), cache, begin)
        return x + self.feed(self.between(x))


class Decoder(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.table = nn.Embedding(s.vocabulary, s.hidden)
        self.blocks = nn.ModuleList(Block(s) for _ in range(s.layers))
        self.norm = nn.RMSNorm(s.hidden)
        self.head = nn.Linear(s.hidden, s.vocabulary, bias=False)

    def forward(self, ids, cache, begin):
        x = self.table(ids)
        for block, own in zip(self.blocks, cache, strict=True):
            x = block(x, own, begin)
        return self.last(x)

    def last(self, x):
        return self.head(self.norm(x[:, -1:]))


def built(sizes, device, dtype):
    with torch.device(device):
        torch.set_default_dtype(dtype)
        model = Decoder(sizes).eval()
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.02) if parameter.dim() > 1 else parameter.fill_(1.0)
    return model


def new_cache(sizes, batch, length, device, dtype):
    shape = batch, sizes.keys, length, sizes.head
    return [[torch.zeros(shape, device=device, dtype=dtype) for _ in range(2)] for _ in range(sizes.layers)]


def timed(run, device, least=0.0):
    """The median time of a call: of a CUDA graph on a GPU, in a row of replays that outlasts the launch."""
    if device == "cpu":
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            run()
            times.append(time.perf_counter() - begun)
        return median(times)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    graph.replay()
    torch.cuda.synchronize()
    row = max(1, min(20, int(0.2 / max(least, 1e-4))))
    times = []
    for _ in range(5):
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        for _ in range(row):
            graph.replay()
        ended.record()
        torch.cuda.synchronize()
        times.append(begun.elapsed_time(ended) / 1e3 / row)
    return median(times)


def allocated(device):
    return torch.cuda.memory_allocated() if device == "cuda" else 0


def clear():
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def compiled(model, device, *, tuned):
    """The model with its blocks and its head compiled; one compiled block serves for all, which have the same code."""
    if device == "cpu":
        return model
    torch._dynamo.reset()
    torch._inductor.config.coordinate_descent_tuning = tuned
    how = {"dynamic": False, "mode": "max-autotune-no-cudagraphs" if tuned else "default"}
    block, head = (torch.compile(part, **how) for part in (Block.forward, Decoder.last))

    def run(ids, cache, begin):
        x = model.table(ids)
        for each, own in zip(model.blocks, cache, strict=True):
            x = block(each, x, own, begin)
        return head(model, x)

    return run


@dataclass(frozen=True)
class Phase:
    """Prefill, or a step: what runs, its profile and its least time."""

    name: str
    inputs: tuple
    profile: object
    roof: object


def phases(model, sizes, batch, prompt, device, dtype, cache, sheet):
    ids = torch.randint(0, sizes.vocabulary, (batch, prompt), device=device)
    inputs = (ids, cache, 0), (ids[:, -1:].contiguous(), cache, prompt)
    first, step = (flopsight.profile(model, given, latency=False) for given in inputs)
    width = sizes.layers * 2 * sizes.keys * sizes.head * dtype.itemsize
    made = Generation(first, (Step(0, step),), batch, prompt, 1, prompt, KVCache(STATIC, (CachePart(width),)))
    serving = Serving(made)
    kept = batch * made.kv.bytes_at(prompt + 1)
    roofs = serving.prefill_load.least(sheet, batch), serving.step_load().least(sheet, batch)
    return kept, [Phase("prefill", inputs[0], first, roofs[0]), Phase("step", inputs[1], step, roofs[1])]


def point(model, sizes, batch, prompt, device, dtype, sheet, measured, shared):
    """Two rows, prefill and a step: measured over least and over predicted; the cache in the peak over the allocator's."""
    before = allocated(device)
    cache = new_cache(sizes, batch, prompt + 1, device, dtype)
    taken = allocated(device) - before
    kept, found = phases(model, sizes, batch, prompt, device, dtype, cache, sheet)
    rows, wrong = [], []
    for phase in found:
        least, guess = phase.roof.limit, predict(phase.profile, measured) if measured else None
        plain = timed(partial(model, *phase.inputs), device, least)
        try:
            fast = timed(partial(compiled(model, device, tuned=phase.name == "step"), *phase.inputs), device, least)
        except Exception as problem:  # a compiler of this machine that does not work: its own message says why
            print(f"not compiled: {type(problem).__name__}: {str(problem)[:200]}", flush=True)
            fast = None
        best = min(plain, fast or plain)
        ours = served_seconds(phase.profile, measured) if measured else None
        table = served_seconds(phase.profile, shared)
        rows.append((
            sizes.name, str(batch), phase.name, bound_of(phase.roof), units.seconds(least),
            units.seconds(plain), f"{plain / least:.2f}", ratio(plain, guess.kernels if guess else None),
            units.seconds(fast) if fast else "-", ratio(fast, least), ratio(fast, ours), ratio(fast, table),
            f"{taken / kept:.4f}" if taken else "-", units.si(batch / best) if phase.name == "step" else "",
        ))  # fmt: skip
        if device == "cuda" and best < least:
            wrong.append(f"{sizes.name} at {batch}: {phase.name} is faster than its least time")
    if device == "cuda" and abs(taken / kept - 1) > 0.01:
        wrong.append(f"{sizes.name} at {batch}: the cache is off by more than 1 %")
    return rows, wrong


def ratio(seconds, other):
    return f"{seconds / other:.2f}" if seconds and other else "-"


HEAD = (
    "model", "batch", "phase", "bound by", "least", "eager in a graph", "/ least", "/ predicted", "compiled in a graph", "/ least",
    "/ predicted here", "/ predicted by table", "cache allocated/ours", "tokens/s",
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--prompt", type=int, default=1024)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 64])
    given = parser.parse_args()
    given.tiny = given.tiny or not torch.cuda.is_available()
    device = "cpu" if given.tiny else "cuda"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    prompt = 16 if given.tiny else given.prompt
    here = detect(torch.device("cuda")) if device == "cuda" else None
    sheet = datasheet_of(here) if here else named_ceilings("h200-sxm")
    measured = measure(here) if here else None
    shared = shared_ceilings(sheet, shares_of(here.known if here else named_device("h200-sxm")))
    print(f"torch {torch.__version__}, {device}, least times by the datasheet of {sheet.name}")
    if measured:
        print(f"shortest kernel {units.seconds(measured.shortest_kernel)}, {units.si(measured.bandwidth, 'B/s')}")
        for kind in ("matmul", "thin matmul", "decoding attention", "grouped matmul", "attention", "pointwise", "norm"):
            points = ", ".join(f"{units.seconds(at)} {share:.2f}" for at, share in measured.efficiency.get(kind, ()))
            print(f"  {kind}: {points}", flush=True)
    rows, wrong = [], []
    with torch.no_grad():
        for sizes in map(tiny, MODELS) if given.tiny else MODELS:
            if given.only.lower() not in sizes.name.lower():
                continue
            model = built(sizes, device, dtype)
            for batch in given.batches[:2] if given.tiny else given.batches:
                clear()
                more, amiss = point(model, sizes, batch, prompt, device, dtype, sheet, measured, shared)
                print("\n".join("  ".join(row) for row in more), flush=True)
                rows, wrong = rows + more, wrong + amiss
            del model
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    for row in (HEAD, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print("\n".join(wrong) or "no least time is above a measured one")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
