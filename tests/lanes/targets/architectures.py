"""Transformers' model types from their default configurations, on meta: which are tried, what is known to fail, one row each."""

import csv
from pathlib import Path

import torch

import flopsight
from flopsight.targets.blueprint import Sizes
from flopsight.targets.loading import load_target
from flopsight.units import si

DOCS = Path(__file__).parents[3] / "docs"
PAGE, DATA = DOCS / "architectures.md", DOCS / "data" / "architectures.csv"
COLUMNS = ("target", "inputs", "parameters", "forward MACs", "backward MACs")
FAMILIES = {
    "text": """
albert bart bert big_bird bigbird_pegasus biogpt bloom camembert codegen cohere ctrl deberta deberta-v2 deepseek_v2
deepseek_v3 diffllama distilbert electra ernie falcon flaubert fnet gemma gemma2 gemma3_text glm gpt2 gpt_bigcode
gpt_neo gpt_neox gpt_oss gptj granite jamba led llama longformer longt5 mamba mamba2 mbart mistral mixtral mobilebert
modernbert mpnet mpt mt5 nemotron olmo olmo2 olmoe opt pegasus persimmon phi phi3 qwen2 qwen2_moe qwen3 qwen3_moe
roberta roformer rwkv squeezebert starcoder2 t5 umt5 xglm xlm-roberta xlnet zamba2
""",
    "images": """
beit convnext convnextv2 deit detr dinov2 dpt focalnet imagegpt levit mobilenet_v1 mobilenet_v2 mobilevit poolformer
regnet resnet sam sam2 segformer swin swinv2 vit vit_mae vitdet yolos
""",
    "images and text": """
align altclip blip chinese_clip clip flava git groupvit siglip siglip2
""",
    "sound": """
audio-spectrogram-transformer dac data2vec-audio encodec hubert musicgen sew speech_to_text unispeech vits wav2vec2
wavlm whisper
""",
    "video": """
timesformer videomae vivit
""",
    "time series": """
autoformer informer patchtst time_series_transformer
""",
    "language models that see": """
aya_vision gemma3 glm4v idefics3 internvl llava mllama paligemma qwen2_5_vl qwen2_vl mistral3 qwen3_vl smolvlm
""",
}
"""Which model types are tried, by what they take."""
TYPES = " ".join(FAMILIES.values()).split()
HORIZON = "prediction_length=24,encoder_layerdrop=0,decoder_layerdrop=0"
INCOMPLETE = {
    "autoformer": (HORIZON, "prediction_length", "how far to predict is not said"),
    "aya_vision": ("vision_config.num_attention_heads=16", "divisible by num_heads", "1,152 features are not divisible by 14 heads"),
    "deepseek_v2": ("num_experts_per_tok=6", "must be int, not NoneType", "how many experts a token uses is not said"),
    "glm4v": ("text_config.rope_parameters.partial_rotary_factor=0.5", "split_with_sizes", "positions turn more features than its three axes have"),
    "informer": (HORIZON, "prediction_length", "how far to predict is not said"),
    "nemotron": ("num_key_value_heads=48", "NoneType", "how many heads keys have is not said"),
    "time_series_transformer": (HORIZON, "prediction_length", "how far to predict is not said"),
}  # fmt: skip
"""Default configurations from which transformers itself makes no model that runs: a change, a word of the error, and why."""
DROPPING = ("data2vec-audio", "hubert", "sew", "unispeech", "wav2vec2", "wavlm")
"""Models that leave out layers at random in training, unless they are told not to."""
PAIRS = ("groupvit",)
"""Models whose batch norm wants more than one value of each feature in training."""
REAL = ("vits",)
"""Models whose shapes depend on values: the length of a sound on the words that are said."""


def target_text(model_type):
    """The target that a row is made from."""
    if model_type in INCOMPLETE:
        return f"{model_type}:{INCOMPLETE[model_type][0]}"
    return f"{model_type}:layerdrop=0" if model_type in DROPPING else model_type


def row(model_type):
    """Inputs, parameters, forward MACs and backward MACs."""
    torch.manual_seed(0)
    sizes = Sizes(batch=2 if model_type in PAIRS else None)
    meta = model_type not in REAL
    target = load_target(f"hf:{target_text(model_type)}", meta=meta, sizes=sizes)
    on = "meta" if meta else "real"
    profile = flopsight.count(target.model.train(), target.args, target.kwargs, train=True, on=on)
    assert profile.coverage.complete, profile.coverage.unknown
    with torch.no_grad():
        forward = flopsight.count(target.model.eval(), target.args, target.kwargs, on=on)
    return target.remark, forward.params, forward.macs, profile.backward.macs


def line(model_type, *figures):
    """The row of a model type as the file has it."""
    return [f"hf:{target_text(model_type)}", *map(str, figures)]


def family_line(family, rows):
    """A family on the page: how many, from which size to which, and their names."""
    names = FAMILIES[family].split()
    params = sorted(int(rows[name][2]) for name in names)
    return f"| {family} | {len(names)} | {si(params[0])} to {si(params[-1])} | {', '.join(f'`{name}`' for name in names)} |"


def page(rows):
    incomplete = "\n".join(f"| `{name}` | {why} | `{change}` |" for name, (change, _, why) in INCOMPLETE.items())
    return f"""# Hugging Face architectures

Made by `python tests/lanes/targets/architectures.py`, and held row by row by `make lane-targets`. Each model type of
transformers below was built from its default configuration on meta, with the inputs that flopsight makes for it, and counted
in inference and in training. All of them run, and no op of any of them is unknown.

{len(rows)} architectures; inputs, parameters, forward and backward MACs of each are in [architectures.csv](data/architectures.csv):

| takes | how many | parameters | after `hf:` |
| --- | ---: | --- | --- |
{chr(10).join(family_line(family, rows) for family in FAMILIES)}

Some have a change after their name there. {", ".join(f"`{name}`" for name in DROPPING)} and the
models of time series leave out layers at random in training; without that, their numbers are the same each time. The others have a default configuration from which transformers itself,
without flopsight, makes no model that runs; the test shows that too:

| model type | what is missing | a change that makes it run |
| --- | --- | --- |
{incomplete}

{", ".join(f"`{name}`" for name in PAIRS)} cannot be trained on one example: its batch norm wants two values of each feature, so it got two.
{", ".join(f"`{name}`" for name in REAL)} was counted on real tensors: the length of its sound depends on values, which meta does not have.
"""


def written():
    """The rows of the file by model type."""
    with DATA.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    return {row[0].split(":")[1]: row for row in rows}


def write(rows):
    """The file, and the page that sums it up."""
    with DATA.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows.values()])
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    write({name: line(name, *row(name)) for name in TYPES})
