"""The examples that the older profilers' documentation has, line for line, with what they print by arithmetic."""

import os
import subprocess
import sys
from pathlib import Path

from lanes import torchvision_ops
from peers.models import ALEXNET, BLOCK

EXAMPLES = Path(__file__).parents[3] / "examples"
RUN = (
    "import sys; from lanes import torchvision_ops; torchvision_ops.define(); import runpy; runpy.run_path(sys.argv[1])"
)
"""A torchvision without its compiled half is what this environment has."""


def printed(name, folder):
    command = [sys.executable, "-c", RUN, EXAMPLES / f"{name}.py"]
    done = subprocess.run(command, cwd=folder, env=with_tests(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_tests():
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "HF_HUB_OFFLINE": "1"}


def test_alexnet(tmp_path):
    out = printed("deepspeed_alexnet", tmp_path)

    assert f"{round(256 * ALEXNET / 1e9, 2)} GMACs" in out.splitlines()[-1]
    assert "61.1 M" in out.splitlines()[-1]  # the published 61,100,840


def test_bert_with_a_folder_of_the_name_that_is_asked_for(tmp_path):
    torchvision_ops.define()
    from transformers import BertConfig, BertForSequenceClassification  # which imports torchvision

    home = tmp_path / "bert-base-uncased"
    BertForSequenceClassification(BertConfig()).save_pretrained(home)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{i}" for i in range(30_517))]
    (home / "vocab.txt").write_text("\n".join(words))

    out = printed("deepspeed_bert", tmp_path)

    macs = 4 * (12 * BLOCK + 768 * 768 + 2 * 768)
    assert f"{round(macs / 1e9, 2)} GMACs" in out.splitlines()[-1]
    assert "109.48 M" in out.splitlines()[-1]  # the published 109,483,778 with the classifier


def test_resnet18_of_the_tids_profiler(tmp_path):
    out = printed("tids_resnet18", tmp_path)

    assert "(model): ResNet, num_params 11689512, " in out
    assert "(conv1): Conv2d, num_params 9408, " in out  # 64 * 3*7*7
    assert "input shape [16, 3, 224, 224], output shape [16, 64, 112, 112]" in out
