"""Published figures beside our counts of the same models, each by its source's own convention."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
import transformers as hf
from torch import nn

import flopsight
from flopsight.results.profile import Profile

ROWS = json.loads((Path(__file__).parents[2] / "data/published.json").read_text())["models"]
EAGER = {"attn_implementation": "eager"}
LLAMA_7B = {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32}
LLAMA_405B = {
    "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128,
    "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip
GLM = {
    "hidden_size": 4096, "intermediate_size": 13696, "num_hidden_layers": 28, "num_attention_heads": 32,
    "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 65024, "attention_bias": True, "pad_token_id": 0,
}  # fmt: skip
BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
GPT3 = {"n_embd": 12288, "n_layer": 96, "n_head": 96, "n_positions": 2048}
WHISPER = {"tiny": (384, 4, 6), "base": (512, 6, 8), "medium": (1024, 24, 16), "large": (1280, 32, 20)}
VOCABULARY = 30522
"""BERT's."""


@dataclass(frozen=True)
class Case:
    """How to count one published row."""

    build: Callable[[], nn.Module]
    inputs: Mapping[str, Any]
    """Shapes by argument name; integers for token ids are drawn as zeros."""
    figure: Callable[[Profile], float]
    """The published quantity, from our profile."""
    params_tolerance: float = 0
    """How far the source rounds its parameters; they are exact where it does not."""
    train: bool = False


def two_per_mac(profile: Profile) -> float:
    """FLOPs of the products alone, which is what most tables mean."""
    return 2 * profile.macs


def by_electra(profile: Profile, tokens: int, width: int) -> float:
    """ELECTRA charges the embedding as a product with one-hot rows, and softmax, norms and activations as we do."""
    return profile.flops + 2 * tokens * VOCABULARY * width


def electra_inference(profile: Profile) -> float:
    """The same with a classifier on every token."""
    sequence, width = 128, 768
    return by_electra(profile, sequence, width) + 2 * sequence * (width * width + width)


def bert_large_training(profile: Profile) -> float:
    """ELECTRA's rule for BERT-large: backward as dear as forward, a masked-language head on 15.6 % of the tokens."""
    sequence, width, masked = 512, 1024, 0.15625
    head = 2 * sequence * masked * (width * width + width * VOCABULARY)
    return 2 * (by_electra(profile, sequence, width) + head) * 256 * 1e6


def active_parameters(profile: Profile) -> float:
    """What a token meets: two of eight experts, and everything else."""
    experts = sum(node.params for node in profile.walk() if node.name == "experts")
    return profile.params - experts * 6 / 8


def causal_per_token(profile: Profile) -> float:
    """Forward and backward without the masked half of attention, without the scores that a fused backward repeats."""
    model = profile.forward.causal_macs + profile.backward.causal_macs - profile.backward.recompute_macs / 2
    return 2 * model / 4096


def torchvision_case(row: dict) -> Case:
    size = int(row["input"].split("x")[2].split(",")[0])
    extra = {"aux_loss": True} if row["model"].endswith("_resnet50") else {}
    return Case(
        lambda: torchvision.models.get_model(row["model"], weights=None, **_no_backbone(row["model"]), **extra),
        {"": (1, 3, size, size)},
        lambda profile: profile.macs,
    )


def _no_backbone(name: str) -> dict:
    return {"weights_backbone": None} if name.endswith("_resnet50") else {}


def timm_case(row: dict) -> Case:
    return Case(
        lambda: timm.create_model(row["model"], pretrained=False),
        {"x": (1, 3, 224, 224)},
        lambda profile: profile.macs,
        params_tolerance=5e3 / row["params"],  # two decimals of a million
    )


def decoder(kind: Any, config: Any) -> Case:
    """As calflops counts: a forward of 128 tokens."""
    return Case(lambda: kind(config), {"input_ids": (1, 128)}, two_per_mac)


def whisper(size: str) -> Case:
    width, layers, heads = WHISPER[size]
    config = hf.WhisperConfig(
        d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=heads,
        decoder_attention_heads=heads, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width,
    )  # fmt: skip
    inputs = {"input_features": (1, 80, 3000), "decoder_input_ids": (1, 1)}
    return Case(lambda: hf.WhisperModel(config), inputs, lambda profile: profile.params, params_tolerance=0.035)


GPT2 = Case(lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**EAGER)), {"input_ids": (1, 1024)}, two_per_mac)
CASES: dict[str, Case] = {
    "bert-base-uncased": Case(lambda: hf.BertModel(hf.BertConfig()), {"input_ids": (1, 128)}, two_per_mac),
    "BERT-base (ELECTRA convention)": Case(
        lambda: hf.BertModel(hf.BertConfig()), {"input_ids": (1, 128)},
        electra_inference, params_tolerance=0.005,
    ),
    "BERT-large (ELECTRA train)": Case(
        lambda: hf.BertModel(hf.BertConfig(**BERT_LARGE)), {"input_ids": (1, 512)}, bert_large_training,
        params_tolerance=0.001,
    ),
    "gpt2 124M": GPT2,
    "gpt2 124M PaLM formula": Case(
        GPT2.build, {"input_ids": (1, 1024), "labels": (1, 1024)},
        lambda profile: 2 * (profile.macs + profile.backward.macs), train=True,
    ),
    "llama-2-7b": decoder(hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA_7B)),
    "bloom-7b1": decoder(hf.BloomModel, hf.BloomConfig(hidden_size=4096, n_layer=30, n_head=32, vocab_size=250880)),
    "chatglm2-6b": decoder(hf.GlmForCausalLM, hf.GlmConfig(**GLM)),
    "Qwen-7B": decoder(hf.Qwen2ForCausalLM, hf.Qwen2Config(**LLAMA_7B, num_key_value_heads=32, vocab_size=151936)),
    "baichuan-7B": decoder(hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA_7B, vocab_size=64000)),
    "Mixtral-8x7B": Case(
        lambda: hf.MixtralForCausalLM(hf.MixtralConfig()), {"input_ids": (1, 128)}, active_parameters
    ),
    "Llama-3.1-405B train per token": Case(
        lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA_405B)).bfloat16(),
        {"input_ids": (1, 4096), "labels": (1, 4096)}, causal_per_token, params_tolerance=1e-5, train=True,
    ),
    "GPT-3 175B training": Case(
        lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT3)), {"input_ids": (1, 16)},
        lambda profile: 6 * profile.params * 300e9, params_tolerance=3e-4,
    ),
    "Llama 3 405B training": Case(
        lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA_405B)).bfloat16(), {"input_ids": (1, 16)},
        lambda profile: 6 * profile.params * 15.6e12, params_tolerance=0.003,
    ),
    **{f"whisper-{size}": whisper(size) for size in WHISPER},
}  # fmt: skip
NO_MODEL = tuple(row["model"] for row in ROWS if row["model"].startswith("Chinchilla"))
"""Rows about a formula for a family of models, not about one model."""


def case_for(row: dict) -> Case:
    """How to count a row."""
    if row["source"].startswith("torchvision"):
        return torchvision_case(row)
    return timm_case(row) if row["source"].startswith("timm") else CASES[row["model"]]


ROWS_WITH_A_MODEL = {
    f"{row['model']} [{row['source'].split()[0]}]": row for row in ROWS if row["model"] not in NO_MODEL
}


@cache
def counted(name: str) -> Profile:
    """Our profile of a published row's model, built and run on meta."""
    case = case_for(ROWS_WITH_A_MODEL[name])
    with torch.device("meta"):
        model = case.build()
        inputs = {key: _input(key, shape) for key, shape in case.inputs.items()}
    args = (inputs.pop(""),) if "" in inputs else ()
    model.train(case.train)
    return flopsight.count(model, args, inputs, train=case.train, on="meta")


def _input(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    tokens = name in ("input_ids", "decoder_input_ids", "labels")
    return torch.zeros(shape, dtype=torch.long if tokens else torch.float32)


def ours(name: str) -> float:
    """The published quantity as we count it."""
    return case_for(ROWS_WITH_A_MODEL[name]).figure(counted(name))
