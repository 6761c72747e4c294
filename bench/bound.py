"""Do limits, what binds, findings and predictions agree with experiments? Models of the GPU sections need transformers, torchvision.

python bench/bound.py                          # small models on the CPU
python bench/bound.py --device cuda            # every section on a GPU
python bench/bound.py --device cuda findings   # one of: ceilings, limits, experiments, findings, predict
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
import traceback
from collections import defaultdict
from dataclasses import replace
from functools import partial
from statistics import median

os.environ.setdefault("FLOPSIGHT_CACHE_DIR", tempfile.mkdtemp())  # what is measured here stays here

import torch
from bound_models import Add, Attend, bert, blocks, convolutions, gpt2, llama, on, vision
from torch import nn

import flopsight
from flopsight.analysis.limits.predict import kernel_seconds
from flopsight.analysis.limits.predict import predict as predicted
from flopsight.analysis.limits.roofline import device_seconds, roof_of, row_roof
from flopsight.analysis.limits.utilization import rows_of, step_seconds
from flopsight.hardware.detect import detect
from flopsight.hardware.host_calls import host_prices
from flopsight.hardware.known_ceilings import datasheet_of, remember
from flopsight.hardware.measured import measure
from flopsight.hardware.op_families import family

BF16 = torch.bfloat16
MODEL_PHASES = ("forward", "backward", "recompute")
ABOVE = 1.05
"""Limit over measured time from which on a module is faster than its limit allows."""


def clear():
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def seconds(profile):
    """Time of a step: that of its kernels where a device ran them, else the wall."""
    return device_seconds(profile) or step_seconds(profile)


def limit_beside_cache(node, profile):
    """The limit of a module itself if every call found as much of its data in the cache as that holds: no kernel can be faster."""
    limits = []
    for row in rows_of(node, MODEL_PHASES):
        moved = max(0, row.cost.bytes - max(1, row.calls) * (profile.ceilings.cache or 0))
        roof = row_roof(replace(row, cost=replace(row.cost, bytes=moved)), profile.ceilings, profile.environment.dtype)
        limits.append(roof.limit)
    return sum(limits)


def wall(run, device, times=12):
    """The median wall time of a call; of one thread on a CPU, its processor time, in which other processes have no share."""
    single = device == "cpu" and torch.get_num_threads() == 1
    now = time.process_time if single else time.perf_counter

    def once():
        if device != "cpu":
            torch.cuda.synchronize()
        begin = now()
        run()
        if device != "cpu":
            torch.cuda.synchronize()
        return now() - begin

    for _ in range(4):
        once()
    return median(once() for _ in range(times))


def ceilings(device):
    """This machine's ceilings beside the datasheet's."""
    found = detect(device)
    begin = time.perf_counter()
    own = measure(found)
    remember(own, torch.get_num_threads())
    sheet = datasheet_of(found)
    print(f"{own.name}: measured in {time.perf_counter() - begin:.1f} s, busy {own.busy:.3f}")
    for dtype, rate in own.flops.items():
        nameplate = (
            (sheet.flops.get(dtype) or (found.known.peaks.get(dtype).value if dtype in found.known.peaks else None))
            if sheet
            else None
        )
        share = f"{rate / nameplate:6.1%} of {nameplate / 1e12:.1f}" if nameplate else ""
        print(f"  {dtype:10} {rate / 1e12:9.3f} TFLOP/s {share}")
    share = f"{own.bandwidth / sheet.bandwidth:6.1%} of {sheet.bandwidth / 1e12:.2f}" if sheet else ""
    print(f"  memory     {own.bandwidth / 1e12:9.4f} TB/s    {share}")
    print("  host, us a call: " + ", ".join(f"{kind} {price * 1e6:.1f}" for kind, price in own.host.items()))
    print(f"  the shortest kernel {own.shortest_kernel * 1e6:.1f} us")
    for kind, points in own.efficiency.items():
        print(f"  {kind:12} " + "  ".join(f"{limit * 1e6:.0f}us:{share:.2f}" for limit, share in points))
    if device != "cpu":
        side = 8192
        a, b = (torch.randn(side, side, device=device, dtype=BF16) for _ in range(2))
        took = wall(lambda: [a @ b for _ in range(10)], device) / 10
        print(f"  bf16 {side}^3 reaches {2 * side**3 / took / own.flops['bfloat16']:.1%} of its ceiling")
        x = torch.empty(1 << 30, dtype=torch.uint8, device=device)
        y = torch.empty_like(x)
        took = wall(lambda: [y.copy_(x) for _ in range(10)], device) / 10
        print(f"  a copy of 1 GB reaches {2 * x.numel() / took / own.bandwidth:.1%} of its ceiling")


def limit_models(device):
    if device == "cpu":
        yield "blocks", partial(blocks), torch.float32, {}
        yield "blocks training", partial(blocks), torch.float32, {"train": True}
        yield "convolutions", partial(convolutions, 8, 64, 56), torch.float32, {}
        return
    yield "Llama-3-8B b1x4096", llama, BF16, {}
    yield "ResNet-50 b256 training", partial(vision, "resnet50", 256), BF16, {"train": True, "last": True}
    yield "BERT-large b80x128", bert, BF16, {}
    yield "GPT-2 b1x128", gpt2, BF16, {}
    yield "ViT-L b64", partial(vision, "vit_l_16", 64), BF16, {}


def own_pace(model, inputs, profile):
    """Processor time over wall time of a step: the part of a CPU's wall time that other processes did not have."""

    def step():
        with torch.set_grad_enabled(profile.trained):
            made = model(*inputs)
            if profile.trained:
                model.zero_grad(set_to_none=True)
                made.sum().backward()

    return min(1.0, wall(step, "cpu") / step_seconds(profile))


def limits(device):
    """Limit against measured time, by class of module; no module may be faster than its limit unless a cache holds its data."""
    for name, make, dtype, how in limit_models(device):
        clear()
        model, inputs = on(device, dtype, make, **how)
        train = how.get("train", False)
        with torch.set_grad_enabled(train):
            profile = flopsight.profile(
                model,
                kwargs=inputs if device != "cpu" else None,
                args=() if device != "cpu" else tuple(inputs.values()),
                train=train,
                repeats=5,
            )
        pace = own_pace(model, tuple(inputs.values()), profile) if device == "cpu" else 1.0
        by_kind, above = defaultdict(lambda: [0, 0.0, 0.0]), []
        for node in profile.walk():
            parts = [
                node.latency or 0,
                node.backward_latency or 0,
                *(-(c.latency or 0) - (c.backward_latency or 0) for c in node.children),
            ]
            own = pace * sum(parts)
            roof = roof_of(node, profile.ceilings, dtype=profile.environment.dtype, phases=MODEL_PHASES, own=True)
            if roof is None or own <= 0 or node.path == "<outside>":
                continue
            row = by_kind[node.kind]
            row[0] += 1
            row[1] += own
            row[2] += roof.limit
            if roof.limit > ABOVE * own:
                least = limit_beside_cache(node, profile)
                above.append((roof.limit - own, roof.limit / own, least <= ABOVE * own, node))
        whole, limit = pace * seconds(profile), profile.limit()
        print(
            f"{name}: step {pace * step_seconds(profile) * 1e3:.2f} ms, busy {whole * 1e3:.2f}, limit {limit * 1e3:.2f} ({limit / whole:.0%} of busy), bound by {profile.bound()}, MFU {profile.mfu or 0:.1%}"
        )
        for kind, (count, own, least) in sorted(by_kind.items(), key=lambda item: -item[1][1])[:7]:
            print(
                f"    {kind:26} x{count:<4} own {own * 1e3:9.3f} ms  limit {least * 1e3:9.3f}  share {least / own:5.2f}"
            )
        real = [each for each in above if not each[2]]
        print(
            f"    above their limit by more than 5%: {len(real)} modules, and {len(above) - len(real)} whose data may come from the cache"
        )
        for _, ratio, _, node in sorted(real, key=lambda each: -each[0])[:4]:
            ops = ", ".join(
                f"{row.op.removeprefix('aten.')}/{row.phase[:3]} x{row.calls} {row.cost.bytes / 1e6:.1f}MB {(row.seconds or 0) * 1e6:.0f}us"
                for row in sorted(node.ops, key=lambda row: -row.cost.bytes)[:4]
            )
            print(f"      {node.path} ({node.kind}) {ratio:.2f}: {ops}")
        for finding in profile.findings[:4]:
            print(f"    - {finding}")
        del model, inputs, profile


def experiment_cases(device):
    """Name, what must bind, the full case and the changed one, each (model, inputs), and the ratio of times that follows; None: that of the limits."""
    big = device != "cpu"
    dtype = BF16 if big else torch.float32
    side, tall = (8192, 8192) if big else (1024, 1024)

    def rand(*shape, number=dtype):
        return torch.randn(*shape, device=device).to(number)

    def dense(rows, width, out, number=dtype):
        return nn.Linear(width, out, bias=False).to(device, number), (rand(rows, width, number=number),)

    yield "product, half the inner size", "compute", dense(tall, side, side), dense(tall, side // 2, side), None
    yield "product, half the rows", "compute", dense(tall, side, side), dense(tall // 2, side, side), None
    thin = 16384 if big else 4096
    yield "two rows, half of them", "memory", dense(2, thin, thin), dense(1, thin, thin), 1.0
    yield "two rows, half the outputs", "memory", dense(2, thin, thin), dense(2, thin, thin // 2), None
    many = (1 << 28) if big else (1 << 24)
    wide = [rand(many, number=torch.float32) for _ in range(2)]
    narrow = [x.to(BF16) for x in wide]
    yield "sum of two, half the dtype", "memory", (Add(), wide), (Add(), narrow), None
    yield (
        "sum of two, half the elements",
        "memory",
        (Add(), (rand(many), rand(many))),
        (Add(), (rand(many // 2), rand(many // 2))),
        None,
    )
    norm = nn.LayerNorm(1024).to(device, dtype)
    rows = (1 << 18) if big else (1 << 14)
    yield "LayerNorm, half the rows", "memory", (norm, (rand(rows, 1024),)), (norm, (rand(rows // 2, 1024),)), None
    length = 8192 if big else 1024
    heads = (2, 16, length, 128) if big else (1, 8, length, 64)
    half = (*heads[:2], length // 2, heads[3])
    yield (
        "attention, half the length",
        "compute",
        (Attend(), [rand(*heads) for _ in range(3)]),
        (Attend(), [rand(*half) for _ in range(3)]),
        None,
    )
    channels, batch, extent = (256, 64, 56) if big else (64, 4, 56)

    def conv(out):
        layer = (
            nn.Conv2d(channels, out, 3, padding=1, bias=False).to(device, dtype).to(memory_format=torch.channels_last)
        )
        return layer, (rand(batch, channels, extent, extent).contiguous(memory_format=torch.channels_last),)

    yield "convolution, half the channels out", "compute", conv(channels), conv(channels // 2), None
    if big:

        def stack(width, depth):
            layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
            return nn.Sequential(*layers).to(device, dtype), (rand(8, width),)

        yield "deep and narrow, half the width", "launch", stack(256, 300), stack(128, 300), 1.0
        yield "deep and narrow, half the depth", "launch", stack(256, 300), stack(256, 150), 0.5


def in_turns(full, part, device):
    """Wall times of two models, taken in turns: a shared host changes its pace."""
    runs = [partial(model, *args) for model, args in (full, part)]
    with torch.no_grad():
        times = [[wall(run, device, 8) for run in runs] for _ in range(3)]
    return [median(each) for each in zip(*times, strict=True)]


def experiments(device):
    """Halve what binds: the time follows where it must, and stays where something else binds."""
    good = total = 0
    print(f"{'experiment':36}{'bound':10}{'said':10}{'expected':>9}{'measured':>9}")
    for name, must, full, part, ratio in experiment_cases(device):
        with torch.no_grad():
            before, after = (flopsight.profile(model, tuple(args), repeats=8) for model, args in (full, part))
        said = before.bound()
        kernels = device != "cpu" and must != "launch"
        took = [seconds(p) for p in (before, after)] if kernels else in_turns(full, part, device)
        measured = took[1] / took[0]
        expected = ratio if ratio is not None else after.limit() / before.limit()
        fine = said == must and abs(measured - expected) <= 0.25 * expected
        good, total = good + fine, total + 1
        print(
            f"{name:36}{must:10}{said or '?':10}{expected:9.2f}{measured:9.2f}  {'agrees' if fine else 'DIFFERS'} (limit {before.limit() * 1e6:.0f} us, time {took[0] * 1e6:.0f} us)"
        )
        del full, part
        clear()
    print(f"{good} of {total} agree within 25 %")


def finding_cases(device):
    """The finding, the model before and after its advice, and how many of the first model's steps one of the second's replaces."""
    if device == "cpu":
        same = partial(blocks, 2, 256, 8, 2, 512)
        yield (
            "attention",
            partial(on, device, torch.float32, partial(same, fused=False)),
            partial(on, device, torch.float32, same),
            None,
            1,
        )
        yield (
            "batch",
            partial(on, device, torch.float32, partial(blocks, 2, 512, 8, 1, 1)),
            partial(on, device, torch.float32, partial(blocks, 2, 512, 8, 64, 1)),
            None,
            64,
        )
        return
    resnet = partial(vision, "resnet50", 256)
    yield (
        "fusion",
        partial(on, device, BF16, resnet, last=True),
        partial(on, device, BF16, resnet, last=True),
        torch.compile,
        1,
    )
    yield "precision", partial(on, device, torch.float32, bert), partial(on, device, BF16, bert), None, 1
    yield "layout", partial(on, device, BF16, resnet), partial(on, device, BF16, resnet, last=True), None, 1
    yield "batch", partial(on, device, BF16, gpt2), partial(on, device, BF16, partial(gpt2, 64)), None, 64
    long = partial(bert, batch=16, length=512)
    yield (
        "attention",
        partial(on, device, BF16, partial(long, attn_implementation="eager")),
        partial(on, device, BF16, partial(long, attn_implementation="sdpa")),
        None,
        1,
    )
    yield (
        "launch",
        partial(on, device, BF16, gpt2),
        partial(on, device, BF16, gpt2),
        partial(torch.compile, mode="reduce-overhead"),
        1,
    )


def findings(device):
    """What a finding promises at most, and what doing it brings."""
    print(f"{'finding':12}{'before ms':>10}{'after ms':>10}{'promised':>10}{'won':>10}{'ratio':>7}")
    for name, before, after, change, steps in finding_cases(device):
        try:
            model, inputs = before()
            with torch.no_grad():
                call = partial(model, *inputs.values()) if device == "cpu" else partial(model, **inputs)
                profile = flopsight.profile(
                    model,
                    *((tuple(inputs.values()),) if device == "cpu" else ()),
                    kwargs=None if device == "cpu" else inputs,
                    repeats=8,
                )
                first = wall(call, device)
                found = next((f for f in profile.findings if f.name == name), None)
                del model, inputs, call
                clear()
                model, inputs = after()
                model = change(model) if change else model
                call = partial(model, *inputs.values()) if device == "cpu" else partial(model, **inputs)
                second = wall(call, device) / steps
            won = first - second
            # a share of the step, because a shared host changes its pace between the profile and the runs
            promised = 0.0 if found is None else found.share * first
            verdict = (
                "NOT FOUND"
                if found is None
                else "fine"
                if promised >= 0.97 * won and promised <= 2 * won
                else "TOO LOW"
                if promised < won
                else "high"
            )
            print(
                f"{name:12}{first * 1e3:10.2f}{second * 1e3:10.2f}{promised * 1e3:10.2f}{won * 1e3:10.2f}{promised / won if won else 0:7.2f}  {verdict}"
            )
            for finding in profile.findings:
                print(f"      {finding}")
            del model, inputs, call, profile
        except Exception:
            print(name, "failed:", traceback.format_exc().strip().splitlines()[-1])
        clear()


def predicted_models(device):
    if device == "cpu":
        yield "blocks 4x384 b2x64", partial(blocks, 4, 384, 6, 2, 64)
        yield "blocks 1x512 b8x256", partial(blocks, 1, 512, 8, 8, 256)
        yield "convolutions b2x32x112", partial(convolutions, 2, 32, 112)
        return
    for name, batch in (
        ("resnet18", 128),
        ("resnet101", 64),
        ("mobilenet_v3_large", 128),
        ("convnext_tiny", 64),
        ("vit_b_16", 32),
        ("swin_t", 64),
    ):
        yield f"{name} b{batch}", partial(vision, name, batch)
    yield "bert-base b32x256", partial(bert, 768, 12, 32, 256)
    yield "gpt2 b16x512", partial(gpt2, 16, 512)
    yield "gpt2-large b4x512", partial(gpt2, 4, 512, n_embd=1280, n_layer=36, n_head=20)
    yield "llama 1B b4x1024", partial(llama, 16, 2048, 8192, 32, 8, 128256, 4, 1024)


def print_off(profile, most=3):
    """The kinds of op whose kernels were predicted worst."""
    off = defaultdict(lambda: [0.0, 0.0])
    for node in profile.walk():
        for row in node.ops:
            roof = row_roof(row, profile.ceilings, profile.environment.dtype)
            if row.seconds is not None:
                parts = off[f"{family(row, by_compute=roof.compute >= roof.memory)}: {row.op}"]
                parts[0] += row.calls * kernel_seconds(row, profile.ceilings, profile.environment.dtype)
                parts[1] += row.seconds
    worst = sorted(off.items(), key=lambda item: -abs(item[1][0] - item[1][1]))[:most]
    print(
        "      "
        + "; ".join(f"{kind} {real * 1e3:.2f} ms, predicted {guess * 1e3:.2f}" for kind, (guess, real) in worst)
    )


def predict(device):
    """Predicted latency against the measured one, for models that nothing was tuned on."""
    errors = []
    for name, make in predicted_models(device):
        model, inputs = on(device, torch.float32 if device == "cpu" else BF16, make, last=device != "cpu")
        with torch.no_grad():
            profile = flopsight.profile(
                model,
                *((tuple(inputs.values()),) if device == "cpu" else ()),
                kwargs=None if device == "cpu" else inputs,
                repeats=8,
            )
            call = partial(model, *inputs.values()) if device == "cpu" else partial(model, **inputs)
            # a shared host changes its pace from one second to the next: its prices are those of this moment
            now = replace(profile.ceilings, host=host_prices(torch, torch.device(device)))
            real = wall(call, device, 30)
        guess = predicted(profile, now)
        errors.append(abs(guess.step / real - 1))
        print(
            f"{name:26} measured {real * 1e3:8.2f} ms, predicted {guess.step * 1e3:8.2f} ({guess.step / real - 1:+.0%}); "
            f"kernels {seconds(profile) * 1e3:.2f}, predicted {guess.kernels * 1e3:.2f}; host predicted {guess.host * 1e3:.2f}"
        )
        print_off(profile)
        del model, inputs, profile, call
        clear()
    print(f"median error {median(errors):.0%}, {sum(error <= 0.2 for error in errors)} of {len(errors)} within 20%")


SECTIONS = {
    "ceilings": ceilings,
    "limits": limits,
    "experiments": experiments,
    "findings": findings,
    "predict": predict,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    print("torch", torch.__version__, torch.cuda.get_device_name() if given.device != "cpu" else "")
    chosen = given.sections or list(SECTIONS)
    for section in dict.fromkeys(["ceilings", *chosen]):  # everything else is held against them
        begun = time.perf_counter()
        print(f"\n== {section}: {SECTIONS[section].__doc__}")
        try:
            SECTIONS[section](given.device)
        except Exception:
            traceback.print_exc()
        print(f"   ({time.perf_counter() - begun:.0f} s)", flush=True)
        clear()
