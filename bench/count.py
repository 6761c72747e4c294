"""What counting costs: medians of interleaved runs in one process, as ratios, with the targets beside them.

python bench/count.py [--rounds 40] [--device cuda] [--host-bound]
"""

import argparse

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from turns import interleaved, say

import flopsight
from flopsight import zoo


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40, help="interleaved runs of each kind")
    parser.add_argument("--device", default="cpu", help="where the host-bound model runs")
    parser.add_argument("--host-bound", action="store_true", help="leave the counts on meta out")
    options = parser.parse_args()
    rounds = options.rounds
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, medians of {rounds} interleaved runs")
    host_bound(rounds, torch.device(options.device))
    if options.host_bound:
        return
    on_meta("resnet50", 16, max(3, rounds // 10))
    on_meta("bert-base", 8, max(3, rounds // 10))


class Empty(TorchDispatchMode):
    """A dispatch mode that does nothing: the least that watching every op can cost."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def host_bound(rounds: int, device: torch.device) -> None:
    """A ResNet-50 on one 32x32 image: its ops are so small that the host's own work is what takes the time."""
    model = zoo.build("resnet50").model.eval().to(device)
    image = torch.randn(1, 3, 32, 32, device=device)

    def empty_mode() -> None:
        with Empty():
            model(image)

    def plain() -> None:
        model(image)

    def recording() -> None:
        with flopsight.recording(model):
            model(image)

    def torch_counter() -> None:
        with FlopCounterMode(display=False):
            model(image)

    kinds = {
        "plain": plain,
        "an empty dispatch mode": empty_mode,
        "with flopsight.recording(model)": recording,
        "flopsight.count(model)": lambda: flopsight.count(model, (image,)),
        "torch's FlopCounterMode": torch_counter,
    }
    with torch.no_grad():
        times = interleaved(kinds, rounds)
    print(f"\nResNet-50, batch 1, 32x32 (host-bound) on {device.type}: {times['plain'] * 1e3:.1f} ms plain")
    targets = {"with flopsight.recording(model)": "at most 1.60x", "torch's FlopCounterMode": "2.2x when we set out"}
    for name in list(kinds)[1:]:
        say(name, times[name] / times["plain"], targets.get(name, ""))


def on_meta(name: str, batch: int, rounds: int) -> None:
    """A count on the meta twin beside one forward of the same batch."""
    model, args, kwargs = zoo.build(name, batch)
    model.eval()
    kinds = {
        "forward": lambda: model(*args, **kwargs),
        "count": lambda: flopsight.count(model, args, kwargs, on="meta"),
    }
    with torch.no_grad():
        times = interleaved(kinds, rounds)
    share = times["count"] / times["forward"]
    print(f"\n{name}, batch {batch}: {times['forward']:.2f} s a forward on this machine's single thread")
    print(f"  flopsight.count(on='meta'): {times['count'] * 1e3:.0f} ms, {share:.1%} of it  at most 5%")


if __name__ == "__main__":
    main()
