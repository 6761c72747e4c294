"""Transformers' model types from their default configurations, on meta: which are tried, what is known to fail, one row each."""

import re
from pathlib import Path

import torch

import flopsight
from flopsight.targets.loading import load_target

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "architectures.md"
TYPES = """
albert bart bert big_bird bigbird_pegasus biogpt bloom camembert codegen cohere ctrl deberta deberta-v2 deepseek_v3 distilbert
electra ernie falcon flaubert fnet gemma gemma2 gemma3_text glm gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj granite jamba led
llama longformer longt5 mamba mamba2 mbart mistral mixtral mobilebert modernbert mpnet mpt mt5 olmo olmo2 olmoe opt pegasus
persimmon phi phi3 qwen2 qwen2_moe qwen3 qwen3_moe roberta roformer rwkv squeezebert starcoder2 t5 umt5 xglm xlm-roberta xlnet
zamba2
beit convnext convnextv2 deit detr dinov2 dpt focalnet levit mobilenet_v1 mobilenet_v2 mobilevit poolformer regnet resnet sam
segformer swin swinv2 vit vit_mae vitdet yolos
align altclip blip chinese_clip clip flava git siglip siglip2
audio-spectrogram-transformer speech_to_text whisper
timesformer videomae vivit
gemma3 idefics3 internvl llava mllama paligemma qwen2_5_vl qwen2_vl mistral3 qwen3_vl smolvlm
""".split()
FAILING = {
    "deepseek_v2": (
        "must be int, not NoneType",
        "the default configuration does not say how many experts a token uses",
    ),
    "nemotron": ("NoneType", "the default configuration does not say how many heads keys have"),
    "musicgen": ("dropout", "its audio part does not take the configuration it is given"),
    "time_series_transformer": ("prediction_length", "the default configuration does not say what to predict"),
    "vits": ("depends on values", "the lengths of its sounds depend on values; count it on real tensors"),
}
"""What fails: a word of the error, and why."""


def row(model_type):
    """Parameters, forward MACs and backward MACs."""
    target = load_target(f"hf:{model_type}", meta=True)
    target.model.train()
    profile = flopsight.count(target.model, target.args, target.kwargs, train=True, on="meta")
    assert profile.coverage.complete, profile.coverage.unknown
    with torch.no_grad():
        forward = flopsight.count(target.model.eval(), target.args, target.kwargs, on="meta")
    return target.remark, forward.params, forward.macs, profile.backward.macs


def line(model_type, remark, params, macs, backward):
    return f"| `{model_type}` | {remark} | {params:,} | {macs:,} | {backward:,} |"


def page(rows):
    failing = "\n".join(f"| `{name}` | {why} |" for name, (_, why) in FAILING.items())
    return f"""# Hugging Face architectures

Made by `python tests/lanes/targets/architectures.py`, and held line by line by `make lane-targets`. Each model type of
transformers below was built from its default configuration on meta, with the inputs that flopsight makes for it, and counted
in inference and in training. No op of any of them is unknown. wav2vec2, hubert, wavlm, sew, unispeech and data2vec-audio run too;
they drop layers at random in training, so that a page cannot hold their numbers.

{len(rows)} architectures run:

| model type | inputs | parameters | forward MACs | backward MACs |
| --- | --- | ---: | ---: | ---: |
{chr(10).join(rows)}

What fails, and why:

| model type | |
| --- | --- |
{failing}
"""


def written():
    """The lines of the page by model type."""
    return {
        found[1]: found[0]
        for found in re.finditer(r"^\| `([\w-]+)` \| .* \| .* \| .* \| .* \|$", PAGE.read_text(), re.MULTILINE)
    }


if __name__ == "__main__":
    PAGE.write_text(page([line(name, *row(name)) for name in TYPES]))
