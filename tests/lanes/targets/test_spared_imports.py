"""The command line's own process imports no libraries for images and sound where a model reads text."""

import subprocess
import sys

import pytest

from flopsight import cli
from flopsight.targets.installed import is_text_model
from flopsight.targets.packages import BESIDE_TEXT

SMALL = {
    "hf:gpt2:n_layer=1,n_embd=12": "1x8",
    "hf:vit:num_hidden_layers=1,hidden_size=12,intermediate_size=24": "1x3x224x224",
}


def imported_by(*command):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "flopsight", *command], capture_output=True, text=True, check=True
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize(("target", "sees"), [*zip(SMALL, [False, True], strict=True)])
def test_a_model_of_text_is_profiled_without_torchvision(target, sees):
    found = imported_by("profile", target, "--meta", "-i", SMALL[target])

    assert "transformers.modeling_utils" in found
    assert ("torchvision.transforms" in found) == sees


def test_a_process_of_the_users_keeps_every_library():
    assert cli.main(["profile", "hf:gpt2:n_layer=1,n_embd=12", "--meta", "-i", "1x8"]) == 0

    assert not [name for name in BESIDE_TEXT if sys.modules.get(name, "never asked for") is None]


@pytest.mark.parametrize(
    ("model_type", "text"),
    [("llama", True), ("deepseek_v3", True), ("bert", True), ("t5", True), ("llava", False), ("whisper", False), ("detr", False)],
)  # fmt: skip
def test_a_model_that_sees_or_hears_is_told_by_its_source(model_type, text):
    assert is_text_model(model_type) == text
