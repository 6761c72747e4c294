"""What the page of a generation states, as plain data: sentences, the table of times, the table of memory, the costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import units
from ..hardware.kernel_shares import KERNEL, Shares
from ..results.generation import Generation
from .limits.roofline import COMPUTE, Roof
from .limits.step_load import Load, rows_in
from .serving import FIRST, LAST, MIDDLE, Serving, bound_of
from .speculation import draft_text

Rows = Sequence[tuple[str, ...]]
LEAST = (
    "least: no kernel can be faster. Every weight and every key and value that a step needs is read once, all products run at "
    "the peak."
)
PREDICTED = "predicted: by the shares of their limits that ops reach on this machine (flopsight device --measure)."
SERVED = (
    "predicted: the kernels of a compiled model in CUDA graphs, each with {kernel} beside its work; products reach {products:.0%} of the "
    "peak, attention {attention:.0%}; weights and cache are read at {reads:.0%} of the bandwidth, the rest at {memory:.0%}."
)
MEASURED = "measured: wall time of the plain model, the median; a step is the time of all new tokens over their number."
EXPERTS = (
    "A step of {batch} reads {read} of weights, if all experts are equally likely: of E experts with k for a token, "
    "E * (1 - (1 - k/E)^{batch}) are expected to be chosen."
)


@dataclass(frozen=True)
class Table:
    """Rows under a heading, the first column names them."""

    title: str
    head: tuple[str, ...]
    rows: Rows

    @property
    def shown(self) -> Table:
        """The same without columns that are empty in every row."""
        filled = [place for place in range(len(self.head)) if not place or any(row[place] for row in self.rows)]
        return Table(
            self.title,
            tuple(self.head[place] for place in filled),
            [tuple(row[place] for place in filled) for row in self.rows],
        )


def title(made: Generation) -> str:
    """The model, the prompts and the new tokens."""
    prompted = "tokens of prompt" if made.seen == made.prompt else "positions encoded"
    env = made.prefill.environment
    where = "" if env.device in ("", "meta") else f", on {env.device_name or env.device}"
    return (
        f"{made.prefill.root.kind}: {made.batch:,} x {made.prompt:,} {prompted}, {made.new_tokens:,} new, "
        f"{made.cache} cache ({env.dtype}{where})"
    )


def answers(serving: Serving) -> list[tuple[str, str]]:
    """The questions of who serves the model, each with its answer."""
    return [
        (name, said)
        for name, said in (
            ("fits", _fits(serving)),
            ("first token", _first_token(serving)),
            ("each token", _each_token(serving)),
            ("throughput", _throughput(serving)),
            ("drafted", draft_text(serving)),
            ("bound by", _bound(serving)),
            ("batch", _batch(serving)),
            ("context", _context(serving)),
        )
        if said
    ]


def _device(serving: Serving) -> str:
    return serving.ceilings.name if serving.ceilings is not None else "the device"


def _fits(serving: Serving) -> str:
    peak, memory, made = serving.peak, serving.memory, serving.made
    if peak is None or memory is None:
        return ""
    if peak <= memory:
        return f"yes: {units.size(peak)} at the peak, {_device(serving)} has {units.size(memory)}"
    said = f"no: {units.size(peak)} at the peak, {_device(serving)} has {units.size(memory)}"
    if serving.lasting > memory:
        ways = -(-serving.lasting // memory)
        pack = "" if made.weights else ", or pack them (--weights int8 or int4)"
        return (
            f"{said}; the weights alone take {units.size(serving.lasting)}: divide them over {ways} devices or more "
            f"(flopsight plan TARGET --serve --gpus {1 << (ways - 1).bit_length()}){pack}"
        )
    largest = serving.largest_batch or 0
    if largest >= 1:
        return f"{said}; a batch of {largest:,} fits, or prompts of fewer tokens"
    longest = serving.longest_context or 0
    return f"{said}; not even one sequence fits" + (f", {longest:,} tokens do" if longest and made.batch == 1 else "")


def _first_token(serving: Serving) -> str:
    made = serving.made
    least = serving.first_token
    times = _labelled(least, serving.predicted(made.prefill), made.prefill_time.median if made.prefill_time else None)
    of = f" for all {made.batch:,} prompts" if made.batch > 1 else ""
    return _joined(times, of)


def _each_token(serving: Serving) -> str:
    made = serving.made
    least = serving.per_output_token()
    step = made.decode_time.median / made.new_tokens if made.decode_time else None
    times = _labelled(least, serving.predicted_step, step)
    of = f" a step, which makes one token of each of the {made.batch:,} sequences" if made.batch > 1 else ""
    return _joined(times, of)


def _labelled(least: float | None, predicted: float | None, measured: float | None) -> list[str]:
    """Each time with what it is."""
    found = {"at least": least, "predicted": predicted, "measured": measured}
    return [f"{label} {units.seconds(seconds)}" for label, seconds in found.items() if seconds]


def _throughput(serving: Serving) -> str:
    made = serving.made
    most, real = serving.tokens_per_second, made.decode_tokens_per_second
    found = [f"at most {_rate(most)}" if most else "", f"measured {_rate(real)}" if real else ""]
    of = ""
    if made.batch > 1 and (most or real):
        streams = [_rate(rate / made.batch) for rate in (most, real) if rate]
        of = f" of the batch; of one stream {' and '.join(streams)}"
    return _joined(found, of)


def _rate(value: float) -> str:
    return f"{value:,.1f} tokens/s" if value < 1000 else f"{value:,.0f} tokens/s"


def _bound(serving: Serving) -> str:
    prefill, step = serving.prefill_roof(), serving.step_roof()
    if prefill is None or step is None:
        return ""
    batch = serving.made.batch
    named = _what_binds(serving.prefill_load, prefill, batch), _what_binds(serving.step_load(), step, batch)
    return f"prefill by {named[0]}, decode by {named[1]}"


def _batch(serving: Serving) -> str:
    largest, crossover = serving.largest_batch, serving.crossover_batch
    parts = []
    if largest:
        in_turn = serving.largest_batch_in_turn or 0
        more = f" ({in_turn:,} if the prompts run one after the other)" if in_turn > largest else ""
        parts.append(f"at most {largest:,} fit{more}")
    if serving.step_roof() is not None:
        parts.append(f"compute binds decode from {crossover:,} on" if crossover else _never(serving.weights_crossover))
    return "; ".join(parts)


def _never(weights: int | None) -> str:
    products = f"; its products with weights are bound by compute from {weights:,} on" if weights else ""
    return f"memory binds decode at any batch, since every sequence reads a cache of its own{products}"


def _context(serving: Serving) -> str:
    made, longest = serving.made, serving.longest_context
    if not longest:
        return ""
    batch = f" at batch {made.batch:,}" if made.batch > 1 else ""
    if longest == made.positions:
        return f"all {longest:,} tokens that the model has positions for fit{batch}"
    pieces = serving.longest_context_in_pieces or 0
    more = f" ({pieces:,} if the prompt runs in pieces)" if pieces > longest else ""
    return f"at most {longest:,} tokens fit{batch}, prompt and new ones{more}"


def _joined(parts: Sequence[str], of: str) -> str:
    said = ", ".join(part for part in parts if part)
    return f"{said}{of}" if said else ""


# -- tables


def times(serving: Serving) -> Table:
    """Least, predicted and measured times, with what a step reads."""
    made = serving.made
    prefill = made.prefill_time.median if made.prefill_time else None
    steps = made.decode_time.median / made.new_tokens if made.decode_time else None
    name, unit = ("first token", "token") if made.batch == 1 else ("first tokens", "step")
    guessed = serving.predicted(made.prefill), prefill
    rows = [_time_row(name, serving.prefill_load, serving.prefill_roof(), guessed, made.prefill.macs, made.batch)]
    places = [(FIRST, 1, made.first), (MIDDLE, (made.new_tokens + 1) // 2, made.middle), (LAST, made.new_tokens, made.last)]  # fmt: skip
    for at, number, profile in {number: (at, number, profile) for at, number, profile in places}.values():
        load, roof = serving.step_load(at), serving.step_roof(at)
        guessed = serving.predicted(profile), None
        rows.append(_time_row(f"{unit} {number:,}", load, roof, guessed, profile.macs, made.batch))
    guessed, macs = (serving.predicted_step, steps), made.macs_per_token * made.batch
    rows.append(_time_row(f"mean {unit}", serving.step_load(), serving.step_roof(), guessed, macs, made.batch))
    head = ("", "least", "predicted", "measured", "bound by", "weights read", "cache moved", "MACs")
    return Table("Times" if serving.ceilings or made.prefill_time else "Each forward", head, rows).shown


def _time_row(
    name: str, load: Load, roof: Roof | None, times: tuple[float | None, float | None], macs: float, batch: int
) -> tuple[str, ...]:
    predicted, measured = times
    return (
        name,
        units.seconds(roof.limit) if roof else "",
        units.seconds(predicted) if predicted else "",
        units.seconds(measured) if measured else "",
        _what_binds(load, roof, batch) if roof else "",
        units.size(load.weight_bytes(batch)),
        units.size(load.cache_bytes(batch)),
        units.si(macs),
    )


def _what_binds(load: Load, roof: Roof, batch: int) -> str:
    if bound_of(roof) == COMPUTE:
        return "compute"
    return "memory (weights)" if load.weight_bytes(batch) >= load.cache_bytes(batch) else "memory (cache)"


def memory(made: Generation) -> Table:
    """The peaks of prefill and of the last step by kind."""
    parts = [made.prefill, made.last]
    kinds = sorted({kind for part in parts for kind in part.at_peak}, key=lambda kind: -max(part.at_peak.get(kind, 0) for part in parts))  # fmt: skip
    shown = [kind for kind in kinds if any(part.at_peak.get(kind, 0) >= 1000 for part in parts)]
    rows = [(kind, *(units.size(part.at_peak.get(kind, 0)) for part in parts)) for kind in shown]
    if all(part.peak_bytes is not None for part in parts):
        rows.append(("together", *(units.size(part.peak_bytes or 0) for part in parts)))
    return Table("Memory at the peak", ("", "prefill", "last step"), rows)


def costs(made: Generation) -> Table:
    """Prefill and decode side by side, and what a step of the batch and a token cost."""
    steps, tokens = made.new_tokens, made.new_tokens * made.batch

    def row(name: str, prefill: float, decode: float, write: Callable[[float], str]) -> tuple[str, ...]:
        return name, write(prefill), write(decode), write(decode / steps), write(decode / tokens)

    each, size = made.cache_bytes_per_token, units.size
    rows: list[tuple[str, ...]] = [
        ("tokens", units.count(made.prompt * made.batch), units.count(tokens), units.count(made.batch), "1"),
        row("MACs", made.prefill.macs, made.decode.macs, units.si),
        row("FLOPs", made.prefill.flops, made.decode.flops, units.si),
        row("bytes moved, unfused", made.prefill.forward.bytes, made.decode.forward.bytes, units.size),
        (
            "KV cache kept" if made.kv.grows else "state kept",
            size(made.prompt_cache_bytes),
            size(made.cache_bytes),
            size(each * made.batch),
            size(each),
        ),
    ]
    if made.prefill_time is not None and made.decode_time is not None:
        rows.append(row("time, measured", made.prefill_time.median, made.decode_time.median, units.seconds))
    return Table("Costs", ("", "prefill", "decode", "per step", "per token"), rows)


def model_line(made: Generation) -> str:
    """Parameters, those that a token passes, and the bytes that a token of the cache takes."""
    kept = made.kv.bytes_at(1) - made.kv.bytes_at(0)
    parts = [made.prefill.root.params_text.replace("params", "parameters")]
    held = made.prefill.root.param_bytes + sum(node.packed_bytes for node in made.prefill.walk())
    parts.append(f"{units.size(held)} of weights" + (f", packed as {made.weights}" if made.weights else ""))
    if made.kv.grows:
        parts.append(f"{units.size(kept)} of KV cache for a token of a sequence")
    if made.kv.state_bytes:
        parts.append(f"{units.size(made.kv.state_bytes)} of state for a sequence")
    return ", ".join(parts)


def labels(serving: Serving) -> list[str]:
    """What least, predicted and measured mean, as far as there are such times."""
    found = [LEAST] if serving.step_roof() is not None else []
    if serving.predicted_step is not None:
        found.append(_predicted_by(serving.shares))
    return [*found, MEASURED] if serving.made.decode_time is not None else found


def notes(serving: Serving) -> list[str]:
    """What the labels of times mean, and what is assumed."""
    made, found = serving.made, labels(serving)
    if made.batch > 1 and any(piece.experts for piece in serving.step_load().pieces.values()):
        found.append(EXPERTS.format(batch=made.batch, read=units.size(serving.weight_bytes)))
    growing = _expanded(made)
    if growing:
        found.append(
            f"{growing[0]} multiplies all tokens of the cache again in every step, {units.percent(growing[1])} of the MACs of the "
            f"last one. The least time leaves this out: kernels exist that work on the compressed cache."
        )
    found += past_positions(made)
    return [*found, *dict.fromkeys(str(caveat) for part in (made.prefill, made.last) for caveat in part.caveats)]


def past_positions(made: Generation) -> list[str]:
    """A sentence if the decoder sees more tokens than it has positions; a table of them refuses that, computed ones do not."""
    if made.positions is None or made.held <= made.positions:
        return []
    sizes = f"Prompt and new tokens are {made.held:,}, and the model is made for {made.positions:,} positions"
    return [f"{sizes}: it runs, but what it writes past them was not trained for."]


def _predicted_by(shares: Shares | None) -> str:
    if shares is None:
        return PREDICTED
    kernel = units.seconds(KERNEL)
    return SERVED.format(
        kernel=kernel, products=shares.products, attention=shares.attention, memory=shares.memory, reads=shares.reads
    )


def _expanded(made: Generation) -> tuple[str, float] | None:
    """Layers with weights that work on the whole cache, as latent attention that is not absorbed does; and their share."""
    found = [
        node
        for node in made.last.walk()
        if node.parameters
        and any(row.cost.macs and "conv" not in row.op for row in node.ops)
        and rows_in(node) > made.batch
    ]
    macs = sum(node.own.forward.macs for node in found)
    return (found[0].name, macs / made.last.macs) if macs else None
