"""Numbers to text and back: our own style, and that of the older profilers.

Inside the program a number is FLOP, bytes or seconds. Only here does it get a prefix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from math import floor, log10

from .errors import InputError

# --- our own style: three significant digits -------------------------------------------------------------------


PREFIXES = ("", "k", "M", "G", "T", "P", "E")
TIMES = ((1, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns"))
"""Units of time, and how many of each are a second."""


def si(value: float, unit: str = "") -> str:
    """Three significant digits and a decimal prefix: `si(1.28e12, "FLOP")` is `1.28 TFLOP`."""
    scaled, place = value, 0
    while abs(scaled) >= 999.5 and place < len(PREFIXES) - 1:
        scaled /= 1000
        place += 1
    whole = not place and scaled == int(scaled)  # 156 parameters are not 156.0
    return f"{int(scaled) if whole else _three_digits(scaled)} {PREFIXES[place]}{unit}".rstrip()


def seconds(value: float) -> str:
    """A time with the unit that suits it: `25.7 ms`."""
    fitting = (pair for pair in TIMES if abs(value) * pair[0] >= 0.9995 or not value)
    scale, unit = next(fitting, TIMES[-1])
    return f"{_three_digits(value * scale)} {unit}"


def size(value: float) -> str:
    """Bytes with a decimal prefix: `46.8 MB`."""
    return si(value, "B")


def rate(value: float) -> str:
    """Work per second: `349 GFLOP/s`."""
    return si(value, "FLOP/s")


def percent(share: float) -> str:
    """A share of the whole with one decimal: `32.5%`; what is there but tiny is `<0.1%`."""
    if 0 < share < 0.0005:
        return "<0.1%"
    return "100%" if round(share, 3) == 1 else f"{share:.1%}"


def count(value: int) -> str:
    """Every digit, grouped: `11,689,512`."""
    return f"{value:,}"


def calls(number: int) -> str:
    """`1 call`, `2 calls`."""
    return f"{count(number)} call{'' if number == 1 else 's'}"


def shape(dims: Sequence[int]) -> str:
    """A tensor's shape as the command line takes it: `16x3x224x224`."""
    return "x".join(map(str, dims)) or "scalar"


def _three_digits(value: float) -> str:
    if not value:
        return "0"
    rounded = float(f"{value:.2e}")  # first, so that 9.996 is seen as the 10.0 it becomes
    decimals = max(0, 2 - floor(log10(abs(rounded))))
    return f"{rounded:.{decimals}f}"


# --- the older profilers' style: `str(round(x, 2))` and a unit --------------------------------------------------------------

_THOUSAND, _MILLION, _BILLION, _TRILLION = 10**3, 10**6, 10**9, 10**12
_TO_G = ((_BILLION, "G"), (_MILLION, "M"), (_THOUSAND, "K"))
_TO_T = ((_TRILLION, "T"), *_TO_G)
_PARAMS = ((_BILLION, "G"), (_MILLION, "M"), (_THOUSAND, "k"))


def deepspeed_params(value: int) -> str:
    """Parameters as the older profilers print them: `61.71 k`, `336.23 M`, `156`."""
    return _rounded(value, _PARAMS, "")


def deepspeed_macs(value: int) -> str:
    """MACs as the older profilers print them, never above G: `439.56 MMACs`, `41271.95 GMACs`, `0 MACs`."""
    return _rounded(value, _TO_G, "MACs")


def deepspeed_flops(value: float) -> str:
    """A number of operations as the older profilers print it, never above G: `29.04 G`, `6279.86 G`."""
    return _rounded(value, _TO_G, "")


def deepspeed_rate(value: float) -> str:
    """Operations per second as the older profilers print them: `349.1 GFLOPS`, `1310.14 TFLOPS`, `0.0 FLOPS`."""
    return _rounded(float(value), _TO_T, "FLOPS")


def deepspeed_large(value: float, unit: str = "") -> str:
    """A number as AProfiler prints it, up to T: `1720.6 T`, `49.04 GB`."""
    return _rounded(value, _TO_T, unit)


def deepspeed_time(value: float) -> str:
    """A time as the older profilers print it: `1.89 s`, `25.7 ms`, `730.75 us`."""
    if value >= 1:
        return f"{_two_decimals(value)} s"
    if value >= 1e-3:
        return f"{_two_decimals(value * 1e3)} ms"
    return f"{_two_decimals(value * 1e6) if value else 0} us"


def deepspeed_percent(part: float, whole: float) -> str:
    """A share as the older profilers print it, `38.12%`; nothing of nothing is `0.00%`."""
    return f"{part / whole if whole else 0:.2%}"


def _rounded(value: float, steps: tuple[tuple[int, str], ...], unit: str) -> str:
    for step, prefix in steps:
        if value >= step:
            return f"{_two_decimals(value / step)} {prefix}{unit}"
    return f"{_two_decimals(value)} {unit}".rstrip()


def _two_decimals(value: float) -> str:
    return str(round(value, 2))


# --- from text to numbers ---------------------------------------------------------------------------------------

_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12, "p": 10**15, "e": 10**18}
_SUFFIXES |= {f"{letter}i": 1024**power for power, letter in enumerate("kmgtpe", start=1)}
_PER_SECOND = {"": 1, "s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NUMBER = re.compile(r"\s*([-+]?\d[\d_,]*\.?\d*(?:[eE][-+]?\d+)?)\s*([A-Za-z/%]*)\s*")


def parse_quantity(text: str | float) -> float:
    """A number with an SI or IEC suffix: `26M`, `8.2 GFLOPs`, `16 GiB`, `1e9`."""
    if not isinstance(text, str):
        return text
    number, suffix = _split(text, "26M, 8.2G or 16GiB")
    for unit in ("flops", "flop", "macs", "mac", "params", "bytes", "b"):
        # "16 B" is bytes, "7B" alone is billions: a bare B is a unit only after a prefix
        if suffix.endswith(unit) and (unit != "b" or len(suffix) > 1):
            suffix = suffix.removesuffix(unit)
            break
    if suffix not in _SUFFIXES:
        raise InputError(f"{text!r} is not a quantity. Write it like 26M, 8.2G or 16GiB.")
    return float(number * _SUFFIXES[suffix])


def parse_count(text: str) -> int:
    """A whole number; `2k` is 2,048, as people say of tokens and batches."""
    plain = text.strip().lower().replace("_", "")
    number, scale = (plain[:-1], 1024) if plain.endswith("k") else (plain, 1)
    try:
        return int(number) * scale
    except ValueError:
        raise InputError(f"{text!r} is not a whole number. Write it like 8, 512 or 2k, which is 2,048.") from None


def parse_time(text: str | float) -> float:
    """Seconds from `25ms`, `1.5 s` or a plain number."""
    return _parsed(text, "a time", "25ms or 1.5s", _PER_SECOND)


def parse_share(text: str | float) -> float:
    """A share from `10%` or `0.1`."""
    return _parsed(text, "a share", "10% or 0.1", {"": 1, "%": 100})


def _parsed(text: str | float, what: str, examples: str, units: Mapping[str, int]) -> float:
    """A number whose suffix says how many of it are one."""
    if not isinstance(text, str):
        return text
    number, suffix = _split(text, examples)
    if suffix not in units:
        raise InputError(f"{text!r} is not {what}. Write it like {examples}.")
    return float(number / units[suffix])


def _split(text: str, examples: str) -> tuple[Decimal, str]:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is not a number. Write it like {examples}.")
    return Decimal(re.sub("[_,]", "", match[1])), match[2].lower()


# --- by the name of the unit ------------------------------------------------------------------------------------

_SAY: Mapping[str, Callable[[float], str]] = {
    "count": lambda value: count(int(value)),
    "MAC": lambda value: f"{count(int(value))} ({si(value)})" if value >= 1000 else count(int(value)),
    "FLOP": lambda value: f"{count(int(value))} ({si(value)})" if value >= 1000 else count(int(value)),
    "byte": size,
    "second": seconds,
    "FLOP/s": rate,
    "samples/s": lambda value: f"{value:,.0f} samples/s" if value >= 100 else f"{_three_digits(value)} samples/s",
    "tokens/s": lambda value: f"{value:,.0f} tokens/s",
    "share": percent,
}


def say(value: float, unit: str) -> str:
    """A value as a summary says it, by the name of its unit."""
    return _SAY[unit](value)
