"""Whatever a model takes and returns, count() sees its shapes and its work."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from toys import MACS, ROWS, UP, WIDE, Net, rows

import flopsight

X = ROWS * WIDE * WIDE


class Square(nn.Module):
    """One product, X MACs, wherever its input comes from; `take` and `give` say how."""

    def __init__(self, take, give=lambda y: y):
        super().__init__()
        self.layer = nn.Linear(WIDE, WIDE, bias=False)
        self.take, self.give = take, give

    def forward(self, *args, **kwargs):
        return self.give(self.layer(self.take(*args, **kwargs)))


@dataclass
class Batch:
    x: torch.Tensor
    name: str = "batch"


Pair = namedtuple("Pair", "first second")
CALLS = {
    "positional": (lambda x: x, (rows(),), {}),
    "keyword": (lambda *, x: x, (), {"x": rows()}),
    "both": (lambda x, *, y: x + y, (rows(),), {"y": rows()}),
    "list": (lambda xs: xs[0] + xs[1], ([rows(), rows()],), {}),
    "tuple": (lambda xs: xs[1], ((1, rows()),), {}),
    "named tuple": (lambda pair: pair.second, (Pair(None, rows()),), {}),
    "dictionary": (lambda batch: batch["x"], ({"x": rows()},), {}),
    "ordered dictionary": (lambda batch: batch["x"], (OrderedDict(x=rows()),), {}),
    "dataclass": (lambda batch: batch.x, (Batch(rows()),), {}),
    "nested": (lambda deep: deep["a"][0].x, ({"a": [Batch(rows()), {"b": (rows(),)}]},), {}),
    "with what is no tensor": (lambda x, flag, text, nothing: x, (rows(), True, "text", None), {}),
}


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize("case", CALLS)
def test_inputs_of_every_form_are_counted(case, on):
    take, args, kwargs = CALLS[case]

    profile = flopsight.count(Square(take), args, kwargs, on=on)

    assert profile.macs == profile["layer"].macs == X
    assert profile["layer"].input_shapes == ((ROWS, WIDE),)


@pytest.mark.parametrize("case", CALLS)
def test_the_model_s_own_row_shows_every_tensor_that_went_in(case):
    take, args, kwargs = CALLS[case]
    tensors = {"both": 2, "list": 2, "nested": 2}.get(case, 1)

    assert flopsight.count(Square(take), args, kwargs).root.input_shapes == ((ROWS, WIDE),) * tensors


GIVEN = {
    "a tensor": (lambda y: y, 1),
    "a tuple": (lambda y: (y, y), 2),
    "a list with nothing in it": (lambda y: [None, y], 1),
    "a dictionary": (lambda y: {"out": y, "name": "x"}, 1),
    "a dataclass": (lambda y: Batch(y), 1),
    "all at once": (lambda y: {"a": [Batch(y), (y, {"b": y})]}, 3),
    "nothing": (lambda y: None, 0),
}


@pytest.mark.parametrize("case", GIVEN)
def test_outputs_of_every_form_show_their_tensors(case):
    give, tensors = GIVEN[case]

    profile = flopsight.count(Square(lambda x: x, give), (rows(),))

    assert profile.root.output_shapes == ((ROWS, WIDE),) * tensors


def test_a_list_of_arguments_is_as_good_as_a_tuple():
    assert flopsight.count(Net(), [rows()]).macs == MACS


def test_a_single_tensor_need_not_be_wrapped():
    assert flopsight.count(Net(), rows()).macs == MACS


def test_an_input_shape_makes_an_input_in_the_model_s_dtype():
    profile = flopsight.count(Net().to(torch.bfloat16), input_shape=(ROWS, WIDE))

    assert profile.macs == MACS
    assert {op.dtype for op in profile["up"].ops} == {"bfloat16"}


def test_keyword_arguments_may_stand_beside_an_input_shape():
    take = lambda x, *, y: x + y

    assert flopsight.count(Square(take), kwargs={"y": rows()}, input_shape=(ROWS, WIDE)).macs == X


def test_the_batch_size_is_the_first_dimension_of_the_first_input():
    profile = flopsight.count(Net(), (rows(),))

    assert profile.batch_size == ROWS
    assert profile.tokens is None


def test_a_scalar_before_the_batch_is_not_the_batch():
    take = lambda scale, x: scale * x

    assert flopsight.count(Square(take), (torch.tensor(2.0), rows())).batch_size == ROWS


SEQUENCES = {
    "a recurrent layer takes time first": (nn.LSTM(3, 5), torch.zeros(7, 2, 3), 2),
    "or the batch first": (nn.GRU(3, 5, batch_first=True), torch.zeros(2, 7, 3), 2),
    "or one sequence": (nn.RNN(3, 5), torch.zeros(7, 3), 1),
    "packed sequences": (nn.LSTM(3, 5), pack_sequence([torch.zeros(4, 3), torch.zeros(2, 3)]), 2),
    "packed for a model of one's own": (nn.Sequential(nn.LSTM(3, 5)), pack_sequence([torch.zeros(4, 3)]), 1),
}


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize("case", SEQUENCES)
def test_samples_of_sequences_are_found_where_torch_keeps_them(case, on):
    model, given, samples = SEQUENCES[case]

    assert flopsight.count(model, (given,), on=on).batch_size == samples


def test_attention_that_takes_time_first_has_its_samples_second():
    x = torch.zeros(5, 2, 16)

    assert flopsight.count(nn.MultiheadAttention(16, 4), (x, x, x)).batch_size == 2


def test_a_stated_batch_size_goes_into_the_throughput():
    profile = flopsight.profile(Net(), (rows(),), batch_size=100, warmup=0, repeats=1)

    assert profile.batch_size == 100
    assert profile.throughput == 100 / profile.timing.forward.median


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, WIDE)
        self.head = nn.Linear(WIDE, 50, bias=False)

    def forward(self, input_ids, labels=None):
        return self.head(self.table(input_ids))


def test_tokens_are_counted_where_the_inputs_are_tokens():
    ids = torch.zeros(3, 7, dtype=torch.long)

    by_name = flopsight.profile(Words(), kwargs={"labels": ids, "input_ids": ids}, warmup=0, repeats=1)

    assert (by_name.batch_size, by_name.tokens) == (3, 21)
    assert flopsight.count(Words(), (ids,)).tokens == 21
    assert by_name.tokens_per_second == pytest.approx(21 / by_name.latency)


def test_a_recording_needs_no_model():
    a, b = torch.ones(4, 8), torch.ones(8, 2)

    with flopsight.recording() as recording:
        a @ b

    assert recording.profile.macs == recording.profile.outside.macs == 4 * 8 * 2


def test_a_recording_of_two_models_keeps_them_apart():
    first, second = Net(), nn.Linear(WIDE, WIDE, bias=False)

    with flopsight.recording() as recording:
        first(rows())
        second(rows())
        second(rows())

    profile = recording.profile
    assert profile.macs == MACS + 2 * X
    assert profile["Net"].macs == MACS
    assert (profile["Linear"].macs, profile["Linear"].calls) == (2 * X, 2)


def test_a_recording_of_a_model_sees_what_runs_beside_it():
    model = Net()

    with flopsight.recording(model) as recording:
        loss = (model(rows()) @ torch.ones(2, 3)).sum()
        loss.backward()

    profile = recording.profile
    assert profile.outside.macs == ROWS * 2 * 3
    assert profile.macs == MACS + ROWS * 2 * 3
    assert profile.backward.macs == 2 * MACS - UP + ROWS * 2 * 3  # the input needs no gradient
    assert profile.trained
