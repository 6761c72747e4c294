"""The embedded models have the parameters, module names, kinds and order of the profiles published for them."""

import pytest
import torch
from zoo.published import params_text, rows

from flopsight import zoo
from flopsight.errors import InputError

# weights, then biases and norms, layer by layer
LENET5 = (25 * 6 + 6) + (25 * 6 * 16 + 16) + (25 * 16 * 120 + 120) + (120 * 84 + 84) + (84 * 10 + 10)
BERT_LAYER = 4 * (768 * 768 + 768) + (768 * 3072 + 3072) + (3072 * 768 + 768) + 2 * 2 * 768
BERT_BASE = (30522 + 512 + 2) * 768 + 2 * 768 + 12 * BERT_LAYER + (768 * 768 + 768) + (768 * 2 + 2)
LARGE_LAYER = 4 * (1024 * 1024 + 1024) + (1024 * 4096 + 4096) + (4096 * 1024 + 1024) + 2 * 2 * 1024
BERT_LARGE = (
    (30528 + 512 + 2) * 1024 + 2 * 1024  # embeddings
    + 24 * LARGE_LAYER + 2 * 1024  # encoder
    + (1024 * 1024 + 1024)  # pooler
    + (1024 * 1024 + 1024) + 2 * 1024 + 30528 + (1024 * 2 + 2)  # heads; the decoder's matrix is the embedding's
)  # fmt: skip
GPT_BLOCK = (768 * 2304 + 2304) + (768 * 768 + 768) + 2 * (768 * 3072) + 3072 + 768 + 2 * 2 * 768
GPT2 = (50257 + 1024) * 768 + 12 * GPT_BLOCK + 2 * 768

PARAMS = {
    "lenet5": (LENET5, 61_706),
    "bert-base": (BERT_BASE, 109_483_778),
    "bert-large": (BERT_LARGE, 336_234_306),
    "gpt2": (GPT2, 124_439_808),
}


def on_meta(name):
    with torch.device("meta"):
        return zoo.build(name)


def params(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", PARAMS)
def test_parameters_are_what_the_layers_add_up_to(name):
    arithmetic, published = PARAMS[name]

    assert params(on_meta(name).model) == arithmetic == published


@pytest.mark.parametrize(
    ("name", "total"),
    [("alexnet", 61_100_840), ("resnet18", 11_689_512), ("resnet50", 25_557_032), ("pointnet", 3_463_763)],
)
def test_parameters_are_the_published_ones(name, total):
    assert params(on_meta(name).model) == total


@pytest.mark.parametrize("name", ["lenet5", "alexnet", "pointnet", "resnet18"])
def test_every_module_has_the_printed_name_kind_place_and_parameters(name):
    modules = {path: (type(m).__name__, params_text(params(m))) for path, m in on_meta(name).model.named_modules()}
    printed = {path: (row["kind"], row["params"]) for path, row in rows(name).items()}

    assert modules == printed
    assert list(modules) == list(printed)


@pytest.mark.parametrize("name", ["bert-base", "bert-large"])
def test_every_printed_module_of_a_bert_exists_with_its_kind_and_parameters(name):
    modules = dict(on_meta(name).model.named_modules())
    printed = rows(name)
    found = [path for path in modules if path in printed]

    assert found == list(printed), "in the printed order"
    for path, row in printed.items():
        assert type(modules[path]).__name__ == row["kind"], path
        assert params_text(params(modules[path])) == row["params"], path


def test_resnet18_has_the_exact_parameters_of_every_row_of_the_shape_print():
    modules = dict(on_meta("resnet18").model.named_modules())

    for path, row in rows("resnet18-tids").items():
        assert params(modules[path]) == int(row["params"]), path


def test_tied_heads_share_the_embedding():
    gpt = on_meta("gpt2").model
    bert = on_meta("bert-large").model

    assert gpt.lm_head.weight is gpt.wte.weight
    assert bert.cls.predictions.decoder.weight is bert.bert.embeddings.word_embeddings.weight


@pytest.mark.parametrize("name", zoo.names())
def test_a_model_built_on_meta_runs_there_and_allocates_nothing(name):
    example = on_meta(name)

    out = example.model(*example.args, **example.kwargs)

    tensors = [*example.model.parameters(), *example.model.buffers(), *(out if isinstance(out, tuple) else (out,))]
    assert all(tensor.is_meta for tensor in tensors)


def test_a_batch_can_be_asked_for():
    with torch.device("meta"):
        assert zoo.build("resnet18", batch=16).args[0].shape == (16, 3, 224, 224)
        assert zoo.build("bert-base", batch=4).kwargs["input_ids"].shape == (4, 128)


def test_an_unknown_name_is_answered_with_the_nearest_one():
    with pytest.raises(InputError, match="no embedded model 'resnet1'.*Did you mean 'resnet18'"):
        zoo.build("resnet1")
