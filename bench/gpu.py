"""What we report against the truth on a GPU: latency, kernels by module, memory. Needs a GPU, transformers, torchvision.

python bench/gpu.py            # all sections
python bench/gpu.py latency GPT-2 "ResNet-50 b1"
python bench/gpu.py step       # a training step, aim: within 2 % of the true loop
python bench/gpu.py latency    # one of: latency, step, launches, kernels, memory, events
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import nn

import flopsight
from flopsight.capture.model.model_run import ModelRun
from flopsight.capture.time.latency import run_traced

BF16 = torch.bfloat16
SHOTS = 20
PROFILES = 7


def bert_large():
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    return BertModel(config), {"input_ids": torch.randint(0, 1000, (80, 128), device="cuda")}


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False)), {"input_ids": torch.randint(0, 1000, (1, 128), device="cuda")}


def llama3_8b():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
        vocab_size=128256, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config), {"input_ids": torch.randint(0, 1000, (1, 4096), device="cuda")}


def resnet50(batch):
    def make():
        import torchvision

        images = torch.randn(batch, 3, 224, 224, device="cuda", dtype=BF16)
        return torchvision.models.resnet50(), {"x": images}

    return make


MODELS = {
    "BERT-large b80x128": bert_large,
    "GPT-2 b1x128": gpt2,
    "Llama-3-8B b1x4096": llama3_8b,
    "ResNet-50 b256": resnet50(256),
    "ResNet-50 b1": resnet50(1),
}


def built(make):
    """A model on the GPU in bf16, without passing through host memory twice."""
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(BF16)
    try:
        with torch.device("cuda"):
            model, kwargs = make()
    finally:
        torch.set_default_dtype(before)
    return model.to("cuda", BF16).eval(), kwargs


def wall(run):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def latency(*words):
    """Reported over true latency: profile(), then the one-shot profiler, each with the truth taken around it."""
    head = ("true ms", "profile", "range", "one-shot", "kernels/busy", "unplaced", "cost")
    print(f"{'model':22}" + "".join(f"{text:>13}" for text in head))
    for name, make in MODELS.items():
        if words and not any(word in name for word in words):
            continue
        model, kwargs = built(make)
        with torch.no_grad():
            forward = partial(model, **kwargs)
            for _ in range(20):
                forward()
            begin = time.perf_counter()
            flopsight.profile(model, kwargs=kwargs, repeats=10)
            cost = time.perf_counter() - begin
            found = [reported_and_true(model, kwargs, forward) for _ in range(PROFILES)]
            ratios, truth = [ours / true for ours, true in found], median(true for _, true in found)
            shots = one_shots(model, forward)
            device = run_traced(ModelRun(model, kwargs=kwargs)).found
        placed = sum(seconds for (path, _), seconds in device.by_row.items() if path != "<outside>") / device.busy
        budget = 15 * truth + 20 * truth + 5
        figures = (
            f"{truth * 1e3:.2f}", f"{median(ratios):.3f}", f"{min(ratios):.2f}-{max(ratios):.2f}",
            f"{shots:.3f}", f"{placed:.5f}", len(device.unplaced), f"{cost:.1f} of {budget:.1f}",
        )  # fmt: skip
        print(f"{name:22}" + "".join(f"{figure:>13}" for figure in figures), flush=True)
        del model, kwargs, forward
        gc.collect()
        torch.cuda.empty_cache()


def reported_and_true(model, kwargs, forward):
    """The latency that a profile reports, and that of forwards made between its own: a shared host changes its pace."""
    truths = []

    def between(doing):
        if doing.startswith("timing"):
            forward()
            truths.append(wall(forward))

    return flopsight.profile(model, kwargs=kwargs, repeats=10, progress=between).latency, median(truths)


def one_shots(model, forward):
    """What the one-shot profiler reports over the mean of a plain forward before it and one after it: the median."""

    def plain():
        forward()
        return wall(forward)

    ratios = []
    for _ in range(SHOTS):
        before = plain()
        profiler = flopsight.FlopsProfiler(model)
        profiler.start_profile()
        forward()
        profiler.stop_profile()
        ratios.append(2 * profiler.get_total_duration() / (before + plain()))
    return median(ratios)


def gpt2_medium():
    from transformers import GPT2Config, GPT2LMHeadModel

    ids = torch.randint(0, 1000, (8, 1024), device="cuda")
    config = GPT2Config(n_embd=1024, n_layer=24, n_head=16, use_cache=False)
    return GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def llama_1b():
    from transformers import LlamaConfig, LlamaForCausalLM

    ids = torch.randint(0, 1000, (4, 2048), device="cuda")
    config = LlamaConfig(
        hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
        vocab_size=128256, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config), {"input_ids": ids, "labels": ids}


def linears():
    return nn.Sequential(*(nn.Linear(8192, 8192) for _ in range(16))), {
        "input": torch.randn(512, 8192, device="cuda", dtype=BF16)
    }


TRAINED = {
    "ResNet-50 b256": (resnet50(256), lambda output: output.float().square().mean(), torch.optim.SGD),
    "GPT-2 medium b8x1024": (gpt2_medium, lambda output: output.loss, torch.optim.AdamW),
    "Llama 1B b4x2048": (llama_1b, lambda output: output.loss, torch.optim.AdamW),
    "16 x Linear(8192) b512": (linears, lambda output: output.float().square().mean(), None),
}
LOOP = 20
"""Steps of the true loop between two looks at the clock."""
ROUNDS = 5


def step(*words):
    """A training step: reported over true, which is a loop of steps without a wait in between; both in turns."""
    head = ("true ms", "step", "range", "phases", "forward", "backward", "optimizer")
    print(f"{'model':24}" + "".join(f"{text:>12}" for text in head))
    for name, (make, loss, kind) in TRAINED.items():
        if words and not any(word in name for word in words):
            continue
        model, kwargs = built(make)
        model.train()
        optimizer = None if kind is None else kind(model.parameters(), lr=1e-6)

        def train(model=model, kwargs=kwargs, loss=loss, optimizer=optimizer):
            model.zero_grad(set_to_none=True)
            loss(model(**kwargs)).backward()
            if optimizer is not None:
                optimizer.step()

        def loop(train=train):
            for _ in range(LOOP):
                train()

        loop()
        found = []
        for _ in range(ROUNDS):
            before = wall(loop) / LOOP
            profile = flopsight.profile(
                model, kwargs=kwargs, train=True, loss=loss, optimizer=optimizer, repeats=10, memory=False
            )
            found.append((profile.timing, (before + wall(loop) / LOOP) / 2))
        ratios = [timing.step.median / true for timing, true in found]
        phases = [
            [stat.median / true if stat else 0.0 for stat in (timing.forward, timing.backward, timing.optimizer)]
            for timing, true in found
        ]
        parts = [median(column) for column in zip(*phases, strict=True)]
        figures = (
            f"{median(true for _, true in found) * 1e3:.2f}", f"{median(ratios):.3f}",
            f"{min(ratios):.3f}-{max(ratios):.3f}", f"{median(map(sum, phases)):.3f}", *(f"{part:.3f}" for part in parts),
        )  # fmt: skip
        print(f"{name:24}" + "".join(f"{figure:>12}" for figure in figures), flush=True)
        del model, kwargs, optimizer, train, loop, profile, found
        gc.collect()
        torch.cuda.empty_cache()


def launches():
    """What a launch costs the host before a profile and after it: nothing of ours may stay on the device."""
    x = torch.zeros(16, device="cuda")
    model, rows = nn.Linear(64, 64).cuda(), torch.randn(8, 64, device="cuda")

    def launch(number=2000):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(number):
            x.add_(1)
        spent = time.perf_counter() - begin
        torch.cuda.synchronize()
        return spent / number * 1e6

    for _ in range(5):
        launch()
    for what, act in {
        "profile()": lambda: flopsight.profile(model, (rows,), repeats=3),
        "torch.profiler": lambda: torch_profiler(model, rows),
    }.items():
        before = min(launch() for _ in range(20))
        act()
        after = min(launch() for _ in range(20))
        print(f"{what:16} a launch takes {before:.2f} us before and {after:.2f} us after, {after / before:.2f}x")


def torch_profiler(model, rows):
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities):
        model(rows)
        torch.cuda.synchronize()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def transformer(layers, width, heads):
    return nn.Sequential(*(Block(width, heads) for _ in range(layers)))


def training_cases():
    yield (
        "transformer 1.2B b4x1024",
        transformer(24, 2048, 16).to("cuda", BF16),
        torch.randn(4, 1024, 2048, device="cuda", dtype=BF16),
    )
    import torchvision

    yield "ResNet-50 b64", torchvision.models.resnet50().to("cuda"), torch.randn(64, 3, 224, 224, device="cuda")


def kernels():
    """Backward: the share of its kernels that land in a module."""
    for name, model, x in training_cases():
        run = ModelRun(model, (x,), train=True)
        run.step()
        device = run_traced(run).found
        backward = device.rows("backward")
        inside = sum(seconds for path, seconds in backward.items() if path != "<outside>")
        print(
            f"{name:26} busy {device.busy * 1e3:8.2f} ms, placed {sum(device.by_row.values()) / device.busy:.5f}, "
            f"backward in modules {inside / sum(backward.values()):.4f}, unplaced {dict(device.unplaced)}"
        )
        profile = flopsight.profile(model, (x,), train=True, repeats=5)
        print(
            f"{'':26} forward {profile.timing.forward.median * 1e3:.2f} ms (busy {profile.timing.busy * 1e3:.2f}), backward "
            f"{profile.timing.backward.median * 1e3:.2f} ms (busy {profile.timing.backward_busy * 1e3:.2f}), mfu {profile.mfu}"
        )
        model.zero_grad()
        torch.cuda.empty_cache()


def memory():
    """Saved bytes and peak against the allocator."""
    for name, model, x in training_cases():
        optimizer = torch.optim.AdamW(model.parameters())
        model(x).float().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        gc.collect()
        torch.cuda.synchronize()
        base = torch.cuda.memory_allocated()
        out = model(x)
        saved = torch.cuda.memory_allocated() - base - out.untyped_storage().nbytes()
        loss = out.float().sum()
        del out
        torch.cuda.reset_peak_memory_stats()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated()
        del loss
        optimizer.zero_grad()
        for on in ("real", "meta"):
            counted = flopsight.count(
                model, (x,), train=True, optimizer=optimizer, loss=lambda o: o.float().sum(), on=on
            )
            print(
                f"{name:26} {on}: saved {counted.activation_bytes / saved:.4f} of {saved / 1e6:.1f} MB, "
                f"peak {counted.peak_bytes / peak:.4f} of {peak / 1e6:.1f} MB {[str(c) for c in counted.caveats]}"
            )
        del optimizer, counted
        gc.collect()
        torch.cuda.empty_cache()


def events(path="out/h200_events.json"):
    """Save a small event stream, so that machines without a GPU can test how kernels find their modules."""
    model = transformer(2, 64, 4).to("cuda", BF16)
    x = torch.randn(2, 16, 64, device="cuda", dtype=BF16)
    run = ModelRun(model, (x,), train=True, optimizer=torch.optim.AdamW(model.parameters(), foreach=True))
    for _ in range(3):
        run.step()
    seen = []
    tracing = run_traced(run, keep=seen.extend)
    keep = [event for event in seen if event.device or event.correlation or event.name.startswith("autograd::")]
    page = {"marks": asdict(tracing.marks()), "events": [list(asdict(event).values()) for event in keep]}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(page, separators=(",", ":")))
    print(f"{len(keep)} events in {path}")


SECTIONS = {
    "latency": latency,
    "step": step,
    "launches": launches,
    "kernels": kernels,
    "memory": memory,
    "events": events,
}

if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("bench/gpu.py needs a CUDA device.")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    chosen, words = [word for word in sys.argv[1:] if word in SECTIONS], [w for w in sys.argv[1:] if w not in SECTIONS]
    for section in chosen or SECTIONS:
        print(f"\n== {section}: {SECTIONS[section].__doc__.splitlines()[0]}")
        SECTIONS[section](*words)
        gc.collect()
        torch.cuda.empty_cache()
