"""Does a step on one GPU take what `plan` predicts? Training steps in bfloat16 with AdamW, eager and compiled.

python bench/gpu_plan.py                # on a GPU, with transformers and torchvision
python bench/gpu_plan.py --eager        # without torch.compile
python bench/gpu_plan.py Llama ViT      # some of the models

Convolutions and batch norm take their shares from ResNet-50; no other of these models was used to tune one.
"""

from __future__ import annotations

import argparse
import gc
import time
from dataclasses import dataclass
from statistics import median

import torch

import flopsight
from flopsight import units
from flopsight.distributed.blocks import without_cache
from flopsight.targets.inputs import parse_inputs
from flopsight.targets.loading import load_target

STEPS = 12


@dataclass(frozen=True)
class Model:
    name: str
    target: str
    batch: int
    seq: int | None = None


MODELS = (
    Model("Llama 1B", "hf:llama:hidden_size=2048,intermediate_size=8192,num_hidden_layers=16,num_attention_heads=32,num_key_value_heads=8,"
        "vocab_size=128256", 8, 2048),
    Model("Qwen 0.5B", "hf:qwen2:hidden_size=896,intermediate_size=4864,num_hidden_layers=24,num_attention_heads=14,"
          "num_key_value_heads=2,vocab_size=151936", 8, 2048),
    Model("Mistral-like 2B", "hf:mistral:hidden_size=2560,intermediate_size=8960,num_hidden_layers=24,num_attention_heads=20,"
          "num_key_value_heads=4,sliding_window=None", 4, 4096),
    Model("BERT-large", "hf:bert:hidden_size=1024,num_hidden_layers=24,num_attention_heads=16,intermediate_size=4096", 32, 512),
    Model("GPT-NeoX 1.4B", "hf:gpt_neox:hidden_size=2048,num_hidden_layers=24,num_attention_heads=16,intermediate_size=8192,"
          "vocab_size=50304", 8, 2048),
    Model("ViT-L/16", "torchvision:vit_l_16", 64),
    Model("ResNet-50", "torchvision:resnet50", 128),
    Model("ResNet-18", "torchvision:resnet18", 256),
    Model("DenseNet-121", "torchvision:densenet121", 64),
    Model("ConvNeXt-B", "torchvision:convnext_base", 64),
)  # fmt: skip


def shape(model: Model) -> str:
    return f"{model.batch}x{model.seq}:int64" if model.seq else f"{model.batch}x3x224x224"


def measured(model: Model, compiled: bool) -> tuple[float, float, int]:
    """Seconds of a step, seconds of its kernels, and the allocator's peak."""
    target = load_target(
        model.target, parse_inputs([shape(model)]), device="cuda", dtype="bfloat16", train=True, optimizer=True
    )
    net = target.model.train()
    without_cache(net)  # as a job that trains, and as `plan` counts it
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    run = torch.compile(net) if compiled else net

    def step():
        out = run(*target.args, **target.kwargs)
        loss = out.loss if hasattr(out, "loss") and out.loss is not None else total(out)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(4):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    peak = torch.cuda.max_memory_allocated()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
        step()
        torch.cuda.synchronize()
    kernels = sum(event.self_device_time_total for event in trace.key_averages()) / 1e6
    return median(times), kernels, peak


def total(out) -> torch.Tensor:
    if isinstance(out, torch.Tensor):
        return out.float().sum()
    return sum(value.float().sum() for value in out.values() if isinstance(value, torch.Tensor))


def predicted(model: Model, device: str, compiled: bool):
    sizes = {"seq": model.seq} if model.seq else {"input_shape": (1, 3, 224, 224)}
    return flopsight.plan(
        model.target, gpus=1, on=device, batch=model.batch, micro_batch=model.batch, mesh={"dp": 1}, checkpoint="none",
        precision="pure-bf16", compile=compiled, **sizes,
    ).best  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--on", default="h200", help="what the device is called")
    asked = parser.parse_args()
    chosen = [model for model in MODELS if not asked.names or any(name in model.name for name in asked.names)]
    head = ("model", "", "step", "predicted", "off", "kernels", "off", "peak", "predicted", "off")
    print("{:<16}{:<9}{:>9}{:>10}{:>7}{:>9}{:>7}{:>9}{:>10}{:>7}".format(*head))
    for model in chosen:
        for compiled in (False,) if asked.eager else (False, True):
            try:
                row(model, asked.on, compiled)
            except Exception as error:  # one model that fails leaves the others
                print(
                    f"{model.name:<16}{'compiled' if compiled else 'eager':<9}{type(error).__name__}: {str(error)[:90]}"
                )
            gc.collect()
            torch.cuda.empty_cache()
            torch._dynamo.reset()


def row(model: Model, device: str, compiled: bool) -> None:
    option = predicted(model, device, compiled)
    took, kernels, peak = measured(model, compiled)
    guess, alive = (
        option.step,
        option.peak_bytes - option.memory.get("fragments", 0),
    )  # the allocator's own are not alive
    off = [f"{a / b - 1:+.0%}" for a, b in ((guess, took), (guess, kernels), (alive, peak))]
    print(
        f"{model.name:<16}{'compiled' if compiled else 'eager':<9}{units.seconds(took):>9}{units.seconds(guess):>10}{off[0]:>7}"
        f"{units.seconds(kernels):>9}{off[1]:>7}{units.size(peak):>9}{units.size(alive):>10}{off[2]:>7}",
        flush=True,
    )


if __name__ == "__main__":
    main()
