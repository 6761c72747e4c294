"""What `-i` means, and what a string that means nothing is answered with."""

import pytest
import torch
from torch import nn

from flopsight.errors import InputError
from flopsight.targets.inputs import FlagSpec, TensorSpec, make_inputs, parse_dtype, parse_inputs, parse_model_dtype


class TakesTokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 4)
        self.places = nn.Embedding(16, 4)

    def forward(self, input_ids, places=None, attention_mask=None):
        return self.words(input_ids)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("8x3x224x224", TensorSpec((8, 3, 224, 224))),
        ("8", TensorSpec((8,))),
        ("scalar", TensorSpec(())),
        ("1x128:int64", TensorSpec((1, 128), "int64")),
        ("1x128:long", TensorSpec((1, 128), "int64")),
        ("1x128:int64:30522", TensorSpec((1, 128), "int64", 30522)),
        ("2x2:bf16", TensorSpec((2, 2), "bfloat16")),
        ("input_ids=4x128:int64", TensorSpec((4, 128), "int64", None, "input_ids")),
        ("use_cache=false", FlagSpec("use_cache", False)),
        ("labels=None", FlagSpec("labels", None)),
    ],
)
def test_an_input_is_a_shape_with_a_dtype_a_bound_and_a_name(text, spec):
    assert parse_inputs([text]) == [spec]


def test_several_inputs_come_by_comma_or_by_repeating_the_flag():
    three = [TensorSpec((1, 2)), TensorSpec((3,), "int64"), TensorSpec((4,), None, None, "x")]

    assert parse_inputs(["1x2, 3:int64", "x=4"]) == three
    assert parse_inputs(["1x2,3:int64,x=4"]) == three


@pytest.mark.parametrize("text", ["", "8x", "x8", "8x3xfoo", "-1x3", "8,,3", "a=b", "8*3", "1x2:int64:", "8x3:"])
def test_a_string_that_is_no_input_is_answered_with_examples(text):
    with pytest.raises(InputError, match="is not an input. Inputs look like 8x3x224x224"):
        parse_inputs([text])


def test_an_unknown_dtype_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="There is no dtype 'bfloat61'. Did you mean 'bfloat16'"):
        parse_inputs(["1:bfloat61"])


def test_dtypes_have_short_names():
    assert [parse_dtype(name) for name in ("bf16", "fp16", "Float32", "half")] == [
        "bfloat16",
        "float16",
        "float32",
        "float16",
    ]


def test_floats_take_the_dtype_and_device_of_the_model():
    model = nn.Linear(2, 2).to(torch.bfloat16)

    (x,), _ = make_inputs(parse_inputs(["3x2"]), model)

    assert (x.shape, x.dtype, x.device.type) == ((3, 2), torch.bfloat16, "cpu")


def test_inputs_of_a_meta_model_are_on_meta():
    (x,), _ = make_inputs(parse_inputs(["3x2"]), nn.Linear(2, 2, device="meta"))

    assert x.is_meta


def test_ids_stay_inside_the_models_tables():
    (ids, places), kwargs = make_inputs(parse_inputs(["64x64:int64,64x64:int64,attention_mask=4:int64"]), TakesTokens())

    assert 500 < ids.max() < 1000, "token ids use the whole vocabulary"
    assert places.max() < 16, "anything else stays inside the smallest table"
    assert kwargs["attention_mask"].tolist() == [1, 1, 1, 1], "a mask masks nothing"


def test_the_weights_of_a_model_are_floating():
    assert parse_model_dtype("bf16") == "bfloat16"
    with pytest.raises(InputError, match="^A model cannot be int64; it can be float32"):
        parse_model_dtype("long")


def test_a_bound_can_be_stated():
    (ids,), _ = make_inputs(parse_inputs(["64x64:int64:5"]), TakesTokens())

    assert ids.max() == 4


def test_token_ids_stay_inside_the_vocabulary_though_positions_are_more():
    model = nn.Module()
    model.wte, model.wpe = nn.Embedding(100, 4), nn.Embedding(1024, 4)
    model.forward = lambda input_ids: input_ids

    _, kwargs = make_inputs(parse_inputs(["input_ids=64x64:int64"]), model)

    assert 90 < kwargs["input_ids"].max() < 100
