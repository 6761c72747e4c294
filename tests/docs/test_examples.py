"""Every example runs as its first lines say, and prints what arithmetic says."""

from pathlib import Path

import pytest
from interpreters import fork
from releases import TORCH

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
BLOCK = 4 * 4096 * 4096 + 2 * 4096 * 4 * 4096 + 2 * 4096
"""Parameters of a block of the language model: attention, feed-forward, two norms without biases."""
LANGUAGE_MODEL = 32 * BLOCK + 2 * 32_000 * 4096
PRINTED = {
    "inference": [
        f"{8 * 32 * 31 * 31 * 27 + 8 * 32 * 31 * 31 * 10:,} MACs, {32 * 27 + 32 + 32 * 31 * 31 * 10 + 10:,} parameters"
    ],
    "llm_on_meta": [f"{LANGUAGE_MODEL / 1e9:.2f} G parameters", f"parameters: {2 * LANGUAGE_MODEL / 2**30:.1f} GiB"],
    "plan_cluster": ["best: {", "8 x H100 SXM"],
    "monitor_training": ["20 steps"],
    "two_architectures": ["73.7 k", "8.77 k"],  # 64*128*9 = 73,728 and 64*9 + 64*128 = 8,768 parameters
    "custom_op": ["shop.scaled_product is unknown", "16.4 k"],  # 8*64*32 = 16,384 MACs
    "aprofiler_window": [f"{5 * 32 * (64 * 256 + 256 * 10):,} MACs in steps 2 to 6"],
    "triton_kernel": ["the formula is the same", "1.57 M"],  # 3 * 32*64*256 = 1,572,864 MACs
}
"""What an example prints, among other things."""
ELSEWHERE = {
    "lenet": "tests/cli/test_commands.py",
    "training_loop": "tests/compat/test_training_loop.py",
    "trainer_llama": "tests/lanes/frameworks/test_examples.py",
    "accelerate_loop": "tests/lanes/frameworks/test_examples.py",
    "lightning_resnet": "tests/lanes/frameworks/test_examples.py",
    "deepspeed_engine": "tests/lanes/deepspeed/run_example.py",
    "deepspeed_alexnet": "tests/lanes/docs/test_older_examples.py",
    "deepspeed_bert": "tests/lanes/docs/test_older_examples.py",
    "tids_resnet18": "tests/lanes/docs/test_older_examples.py",
}
"""Which other test runs an example."""
HERE = ("fsdp2", "test_budget")


def test_every_example_is_run_by_a_test():
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted([*PRINTED, *ELSEWHERE, *HERE])
    assert not [name for name, test in ELSEWHERE.items() if name not in (ROOT / test).read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_says_how_it_is_run(path):
    assert f"examples/{path.name}" in path.read_text(encoding="utf-8").split('"""')[1]


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_arithmetic_says(name, tmp_path):
    done = fork([EXAMPLES / f"{name}.py"], tmp_path)

    assert done.code == 0, done.err
    assert not [words for words in PRINTED[name] if words not in done.out], done.out


def test_the_budget_of_the_example_holds_and_a_larger_model_breaks_it(tmp_path):
    code = (EXAMPLES / "test_budget.py").read_text(encoding="utf-8")
    larger = tmp_path / "test_larger.py"
    larger.write_text(code.replace("nn.Conv2d(3, 16, 3)", "nn.Conv2d(3, 32, 3)").replace("16 * 30", "32 * 30"))

    words = ["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", tmp_path]
    kept, broken = fork([*words, EXAMPLES / "test_budget.py"], tmp_path), fork([*words, larger], tmp_path)

    assert (kept.code, broken.code) == (0, 1), kept.out + kept.err
    assert "breaks its budget" in broken.out


@pytest.mark.skipif(TORCH < (2, 7), reason="FSDP2 runs on a CPU from torch 2.7 on")
def test_two_ranks_hold_half_of_the_parameters_each(tmp_path):
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", EXAMPLES / "fsdp2.py"]

    done = fork(words, tmp_path)

    params = 4 * (2 * 64 + 2 * 64 * 256 + 256 + 64)
    assert done.code == 0, done.err
    assert f"this rank holds {params // 2:,} of {params:,} parameters" in done.out
