"""What an eager step costs the host: seconds for a call of every kind of op, and for the Python around a module."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from time import perf_counter, process_time, thread_time
from typing import Any

OP, VIEW, PRODUCT, CONVOLUTION = "op", "view", "product", "convolution"
BATCH_NORM, NORM, ATTENTION = "batch norm", "norm", "attention"
BACKWARD, MODULE = "backward op", "module"

CALLS = 40
"""Calls that are timed as one, and blocks of the model that shows what Python adds."""
SAMPLES = 25
WIDTH = 16
"""So few numbers that no kernel takes longer than its call."""
BLOCK = {PRODUCT: 6, ATTENTION: 1, NORM: 2, OP: 3, VIEW: 26}
"""Op calls of one block by kind; three views come with every product, eight with the heads."""
BLOCK_MODULES = 14
LAYER_GRADIENTS = 5
"""Ops in the backward of a product with bias, an activation and a norm: three, one and one."""


def host_kind(op: str) -> str:
    """The kind of op whose price for the host a call has; not for views, which have no op row."""
    name = op.rpartition(".")[2]
    if "conv" in name:
        return CONVOLUTION
    if "batch_norm" in name:
        return BATCH_NORM
    if "attention" in name:
        return ATTENTION
    if "norm" in name:
        return NORM
    return PRODUCT if name.endswith(("mm", "linear", "matmul", "baddbmm")) else OP


def host_prices(torch: Any, place: Any, budget: float = math.inf) -> dict[str, float]:
    """Seconds of the host by kind of call, in the dtype that models run in there; sampled for as long as the budget."""
    functional, wait = torch.nn.functional, _waiting(torch, place)
    how = {"device": place, "dtype": torch.float32 if place.type == "cpu" else torch.bfloat16}
    x, image = torch.randn(4, WIDTH, **how), torch.randn(1, WIDTH, 4, 4, **how)
    weight, row = torch.randn(WIDTH, WIDTH, **how), torch.ones(WIDTH, **how)
    kernel, heads = weight.view(WIDTH, WIDTH, 1, 1), torch.randn(1, 2, 8, WIDTH, **how)
    calls: dict[str, Callable[[], object]] = {
        OP: lambda: x + x,
        VIEW: x.t,
        PRODUCT: lambda: torch.addmm(row, x, weight),
        CONVOLUTION: lambda: torch.conv2d(image, kernel, row),
        BATCH_NORM: lambda: functional.batch_norm(image, row, row, row, row),
        NORM: lambda: functional.layer_norm(x, (WIDTH,), row, row),
        ATTENTION: lambda: functional.scaled_dot_product_attention(heads, heads, heads),
    }
    each = budget / (len(calls) + 2)
    prices = {kind: _price([call] * CALLS, wait, each) for kind, call in calls.items()}
    stack, rows = _stack(torch).to(**how).eval(), torch.randn(2, 4, WIDTH, **how)
    block = _price([partial(block, rows) for block in stack], wait, each)
    prices[MODULE] = max(0.0, block - sum(number * prices[kind] for kind, number in BLOCK.items())) / BLOCK_MODULES
    prices[BACKWARD] = _backward(torch, how, wait, each)
    return prices


def _backward(torch: Any, how: dict[str, Any], wait: Callable[[], None], budget: float) -> float:
    """Seconds for an op of a backward, which may run on a thread of its own."""
    nn = torch.nn
    layers = [layer for _ in range(CALLS) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH))]
    model, x = nn.Sequential(*layers).to(**how), torch.randn(4, WIDTH, **how)
    times: list[float] = []
    with torch.enable_grad():
        for _ in _samples(budget):
            model.zero_grad(set_to_none=True)
            loss = model(x).sum()
            wait()
            begin = process_time()
            loss.backward()
            times.append(process_time() - begin)
            wait()
    return _typical(times) / (CALLS * LAYER_GRADIENTS)


def _stack(torch: Any) -> Any:
    """Transformer blocks in the style that people write them in: modules in modules, options, checks, dropout."""
    nn, functional = torch.nn, torch.nn.functional

    class Attention(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.heads, self.p = 2, 0.1
            self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
            self.drop = nn.Dropout(self.p)

        def forward(self, x: Any, mask: Any = None, **_options: Any) -> Any:
            batch, length, width = x.shape
            shape = (batch, length, self.heads, width // self.heads)
            q, k, v = (layer(x).view(shape).transpose(1, 2) for layer in (self.q, self.k, self.v))
            p = self.p if self.training else 0.0
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)
            return self.drop(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))

    class Feed(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.up, self.act, self.down = nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)
            self.drop = nn.Dropout(0.1)

        def forward(self, x: Any) -> Any:
            return self.drop(self.down(self.act(self.up(x))))

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.attention, self.feed = Attention(), Feed()

        def forward(self, x: Any, mask: Any = None, *, keep: bool = False, **options: Any) -> Any:
            x = x + self.attention(self.norm1(x), mask=mask, **options)
            x = x + self.feed(self.norm2(x))
            return (x, mask) if keep else x

    return nn.Sequential(*(Block() for _ in range(CALLS)))


def _waiting(torch: Any, place: Any) -> Callable[[], None]:
    return (lambda: None) if place.type == "cpu" else (lambda: torch.accelerator.synchronize(place))


def _samples(budget: float) -> Iterator[None]:
    """As many turns as there are samples, or as the budget has time for; at least one."""
    until = perf_counter() + budget
    for place in range(SAMPLES):
        if place and perf_counter() >= until:
            return
        yield


def _price(calls: Sequence[Callable[[], object]], wait: Callable[[], None], budget: float) -> float:
    """The host's processor time of a call, without waiting for what it handed over: other processes have no share in it.

    On a machine that is too busy for all of the calls it is the time of some of them.
    """
    until, fitting = perf_counter() + budget / 4, 0
    while fitting < len(calls) and (not fitting or perf_counter() < until):
        calls[fitting]()
        fitting += 1
    times: list[float] = []
    for _ in _samples(budget):
        wait()
        begin = thread_time()
        for call in calls[:fitting]:
            call()
        times.append(thread_time() - begin)
    wait()
    return _typical(times) / fitting


def _typical(times: list[float]) -> float:
    """The median of the faster half: what disturbs a host makes it slower."""
    return median(sorted(times)[: len(times) // 2 + 1])
