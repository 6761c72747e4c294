"""Names of dtypes: what a user writes, what torch says, and the keys of the peaks table that hold its rate."""

from __future__ import annotations

from ..errors import ConfigError, did_you_mean

TABLE_KEYS = {
    "float64": ("fp64_matrix", "fp64_tensor", "fp64"),
    "float32": ("fp32_matrix", "fp32"),
    "tf32": ("tf32",),
    "float16": ("fp16",),
    "bfloat16": ("bf16",),
    "complex128": ("fp64_matrix", "fp64_tensor", "fp64"),
    "complex64": ("fp32_matrix", "fp32"),
    "float8_e4m3fn": ("fp8",),
    "float8_e5m2": ("fp8",),
    "float8_e4m3fnuz": ("fp8",),
    "float8_e5m2fnuz": ("fp8",),
    "float4_e2m1fn_x2": ("fp4",),
    "int8": ("int8",),
    "uint8": ("int8",),
    "qint8": ("int8",),
    "quint8": ("int8",),
    "int4": ("int4",),
    "uint4": ("int4",),
}
"""Where the rate of matrix work in a dtype stands, the matrix units' key first. Complex work is counted in real MACs."""

SPELLINGS = {
    "fp64": "float64",
    "double": "float64",
    "fp32": "float32",
    "float": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
    "fp4": "float4_e2m1fn_x2",
}


def torch_name(spelling: object) -> str:
    """The name that op rows use: `bf16`, `torch.bfloat16` and `bfloat16` are one."""
    word = str(spelling).strip().lower().removeprefix("torch.")
    name = SPELLINGS.get(word, word)
    if name not in TABLE_KEYS:
        known = [*SPELLINGS, *TABLE_KEYS]
        raise ConfigError(f"No dtype {word!r} has a peak.{did_you_mean(word, known)} Known: {', '.join(known)}.")
    return name


def table_keys(dtype: str, *, tf32: bool = False, half_accumulation: bool = False) -> tuple[str, ...]:
    """Keys to try for matrix work in a dtype. A device without TF32 runs float32 as ever if TF32 is allowed."""
    keys = TABLE_KEYS.get(dtype, ())
    if tf32 and dtype == "float32":
        return ("tf32", *keys)
    if half_accumulation and dtype == "float16":
        return ("fp16_acc16", *keys)
    return keys
