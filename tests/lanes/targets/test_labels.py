"""A training step of a transformers model has the loss of its labels, or a note that its outputs are summed."""

import pytest

from flopsight.engine.target_profile import profile_target
from flopsight.targets.inputs import parse_inputs
from flopsight.targets.loading import load_target

LLAMA = "hf:llama:num_hidden_layers=1,hidden_size=64,intermediate_size=64,num_attention_heads=4,num_key_value_heads=4,vocab_size=1000"
T5 = "hf:t5:num_layers=1,d_model=16,d_ff=8,vocab_size=1000"
BERT = "hf:bert:num_hidden_layers=1,hidden_size=12,intermediate_size=24,vocab_size=1000"
VOCABULARY = 1000


@pytest.mark.parametrize("inputs", [[], ["2x40"]])
def test_a_model_with_a_vocabulary_gets_its_own_tokens_as_labels(inputs):
    target = load_target(LLAMA, parse_inputs(inputs), meta=True, train=True)

    assert target.kwargs["labels"].shape == target.kwargs["input_ids"].shape
    assert "labels" in target.remark
    assert "labels" not in load_target(LLAMA, parse_inputs(inputs), meta=True).kwargs


def test_the_loss_over_the_vocabulary_is_counted():
    target = load_target(LLAMA, parse_inputs(["2x40"]), meta=True, train=True)
    p = profile_target(target, train=True, meta=True)

    (softmax,) = (row for row in p.root.ops if row.op == "aten._log_softmax" and row.phase == "forward")
    assert softmax.shapes[0][0] == (2 * 40, VOCABULARY)  # transformers shifts labels and keeps every position
    assert not any("sum of" in str(caveat) for caveat in p.caveats)


def test_labels_that_are_given_stay():
    target = load_target(LLAMA, parse_inputs(["input_ids=2x40,labels=2x40:int64"]), meta=True, train=True)

    assert target.kwargs["labels"] is not target.kwargs["input_ids"]


@pytest.mark.parametrize("text", [BERT, T5])
def test_a_model_without_labels_says_that_its_outputs_are_summed(text):
    p = profile_target(load_target(text, meta=True, train=True), train=True, meta=True)

    assert any("The loss is the sum of the model's outputs" in str(caveat) for caveat in p.caveats)
