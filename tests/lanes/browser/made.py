"""Profiles that the pages are made of, each counted once."""

from collections import OrderedDict
from dataclasses import replace
from functools import cache

import torch
from torch import nn

import flopsight
from flopsight import zoo
from flopsight.analysis.compare import compare
from flopsight.results.comm import CommRow
from flopsight.results.data_flow import DataFlow
from flopsight.results.generation import Generation, Step
from flopsight.results.job import Job
from flopsight.results.run import Interval, Run, SlowStep
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import World

EVIL = "</script><img src=x onerror=alert(1)>"


class Block(nn.Module):
    """A decoder block in plain torch: grouped attention and a gated MLP."""

    def __init__(self, width, heads, kv_heads, inner):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (
            layer(y).unflatten(-1, (heads, self.size)).transpose(1, 2)
            for layer, heads in ((self.q, self.heads), (self.k, self.kv_heads), (self.v, self.kv_heads))
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Llama 3.1 405B by its published sizes: 126 blocks of width 16,384."""

    def __init__(self, layers=126, width=16384, heads=128, kv_heads=8, inner=53248, vocab=128256):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Block(width, heads, kv_heads, inner) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@cache
def resnet():
    model, args, kwargs = zoo.build("resnet18")
    return flopsight.profile(model.train(), args, kwargs, train=True, repeats=1, warmup=1)


@cache
def long_names():
    """A name that leaves no room for its class, in a table with every usual column."""
    inner = nn.Sequential(
        OrderedDict(post_attention_layer_normalisation_2d=nn.LayerNorm(8), never_called=nn.Identity())
    )
    model = nn.Sequential(OrderedDict(encoder=nn.Sequential(OrderedDict(layers=nn.Sequential(inner)))))
    return flopsight.count(model.train(), (torch.ones(2, 8),), train=True)


@cache
def bert():
    model, args, kwargs = zoo.build("bert-base")
    return flopsight.count(model.train(), args, kwargs, train=True, on="meta")


@cache
def llama_405b():
    with torch.device("meta"):
        model, tokens = Decoder(), torch.zeros(1, 512, dtype=torch.int64)
    return flopsight.count(model, (tokens,), train=True)


def many(modules):
    """A profile of that many modules: a small one, repeated in groups of a hundred with costs that differ."""
    leaf = flopsight.count(nn.Linear(4, 4), (torch.ones(2, 4),)).root
    groups = []
    for group in range(modules // 101):
        path = f"group{group}"
        below = tuple(
            replace(leaf, path=f"{path}.{i}", name=str(i), input_shapes=((2 + i, 4),), calls=1 + i) for i in range(100)
        )
        groups.append(replace(leaf, path=path, name=path, kind="Sequential", children=below, parameters=()))
    rest = modules - 1 - 101 * len(groups)
    groups += [replace(leaf, path=f"rest{i}", name=f"rest{i}") for i in range(rest)]
    return flopsight.Profile(replace(leaf, children=tuple(groups), kind="Net", name=""))


def chain(boxes):
    """That many layers in blocks of twenty that differ, each with its way past every four, as a profile with flows."""
    leaf = flopsight.count(nn.Linear(4, 4), (torch.ones(2, 4),)).root
    blocks, paths = [], []
    for block in range(boxes // 20):
        names = [f"layer{i}" for i in range(20)]
        paths += [f"block{block}.{name}" for name in names]
        below = tuple(replace(leaf, path=f"block{block}.{name}", name=name, calls=1 + block) for name in names)
        blocks.append(replace(leaf, path=f"block{block}", name=f"block{block}", children=below, calls=1 + block))
    ends = [(i, i + 1) for i in range(len(paths) - 1)] + [(i, i + 4) for i in range(0, len(paths) - 4, 4)]
    sources, targets = zip(*ends, strict=True)
    zeros, none = tuple(0 for _ in paths), tuple("" for _ in paths)
    flow = DataFlow(tuple(paths), zeros, none, sources, targets, tuple(1000 * (1 + i % 50) for i, _ in ends))
    return flopsight.Profile(replace(leaf, children=tuple(blocks), kind="Net", name=""), data_flow=flow)


def hostile():
    """A profile whose every text tries to be markup."""
    profile = flopsight.count(nn.Sequential(nn.Linear(4, 4)), (torch.ones(2, 4),))
    (child,) = profile.root.children
    bad = replace(child, name=EVIL, path=EVIL, kind=EVIL, extra_repr=EVIL)
    return replace(profile, root=replace(profile.root, kind=EVIL, children=(bad,)))


def oddly_named():
    """Names with markup, quotes, signs of other scripts, control characters, and 300 characters in one word."""
    profile = flopsight.count(nn.Sequential(*(nn.Linear(4, 4) for _ in range(5))), (torch.ones(2, 4),), train=True)
    names = [EVIL, 'say "it\'s" & <b>', "\N{GRINNING FACE} 模型", "a\nb\t\u202e\x00", "x" * 300]
    children = tuple(
        replace(child, name=name, path=name, kind=name, extra_repr=name)
        for child, name in zip(profile.root.children[: len(names)], names, strict=True)
    )
    return replace(profile, root=replace(profile.root, children=children, kind=names[-1]))


def without_anything():
    """One module that has no parameters, does no work and was not timed."""
    return flopsight.count(nn.Identity(), (torch.ones(2),), on="meta")


def no_time_at_all():
    """Times that are zero, of a clock that did not tick."""
    return replace(job().ranks[0], timing=Timing(forward=Stat((0.0,))), world=World())


def deep(levels=30):
    model = nn.Linear(4, 4)
    for level in range(levels):
        model = nn.Sequential(model, nn.ReLU()) if level % 2 else nn.Sequential(model)
    return flopsight.count(model, (torch.ones(2, 4),), train=True)


def incomplete():
    """A job of which one rank left no file."""
    whole = job()
    return Job({rank: profile for rank, profile in whole.ranks.items() if rank != 3}, size=16)


def job():
    """Sixteen ranks of a small model, sharded in pairs, of which the last one is late."""
    one = flopsight.count(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), (torch.ones(4, 8),))
    gather = CommRow("all_gather", "forward", calls=1, bytes=128, wire_bytes=128, group_size=2, dim="dp")
    first, second = one.root.children
    root = replace(one.root, children=(replace(first, comm=(gather,)), second))
    ranks = {
        rank: replace(
            one,
            root=root,
            world=World(size=16, rank=rank, data_parallel=16, mesh={"dp": 16}),
            timing=Timing(forward=Stat((2e-3 if rank == 15 else 1e-3,))),
        )
        for rank in range(16)
    }
    return Job(ranks, size=16)


def pipeline(stages):
    """A job whose model is divided into that many stages: two blocks each, a layer before them in the first, after them in the last."""
    ranks = {}
    for stage in range(stages):
        part = nn.Sequential(Block(16, 2, 1, 32), Block(16, 2, 1, 32))
        if stage in (0, stages - 1):
            part.insert(0 if stage == 0 else 2, nn.Linear(16, 16))
        profile = flopsight.count(part, (torch.ones(2, 4, 16),), train=True)
        world = World(stages, stage, pipeline=stages, stage=stage, model_parallel=stages)
        ranks[stage] = replace(profile, world=world)
    return Job(ranks, stages)


def changed():
    plain = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    wider = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2), nn.Softmax(-1))
    return compare(*(flopsight.count(model, (torch.ones(4, 8),)) for model in (plain, wider)))


@cache
def sweep():
    """Points that fit a device's memory and points that do not."""
    return flopsight.sweep("zoo:bert-base", {"batch": [1, 4096], "seq": [64, 128, 256]}, on="l4")


@cache
def plan():
    return flopsight.plan("zoo:gpt2", gpus=8, on="h100-sxm", batch=64)


def run():
    """A monitored run of which one step waited."""
    intervals = tuple(
        Interval(5 * at, steps=5, timed=5, seconds=2.5, at_peak=0.2, tokens=5000, total_model_flops=1e12)
        for at in range(20)
    )
    slow = (SlowStep(42, 1.5, 0.5, "waiting for data +1 s"),)
    return Run(model="Net", intervals=intervals, slow=slow, profile=resnet())


def generation():
    """A prompt of 128 tokens and a step after it; the counts of a layer stand for both."""
    step = flopsight.count(nn.Linear(768, 768), (torch.ones(1, 768),), on="meta")
    return Generation(bert(), (Step(0, step),), batch=1, prompt=128, new_tokens=1, seen=128)
