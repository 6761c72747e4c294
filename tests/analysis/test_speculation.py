"""Speculative decoding by arithmetic: expected tokens, the least time of a round."""

from dataclasses import replace

import pytest

from flopsight.analysis.limits.step_load import CACHE, Load, Piece
from flopsight.analysis.serving import Serving
from flopsight.analysis.speculation import best_length, expected_tokens, several, speculate
from flopsight.engine.decoding import check_draft
from flopsight.errors import InputError
from flopsight.results.ceilings import Ceilings
from flopsight.results.costs import Cost, OpRow, Phases
from flopsight.results.generation import Draft, Generation, Step
from flopsight.results.kv_cache import CachePart, KVCache
from flopsight.results.node import Node
from flopsight.results.profile import Profile
from flopsight.results.records import Parameter

SHEET = Ceilings("a device", flops={"float32": 1e12}, bandwidth=1e9, memory=10**9)


@pytest.mark.parametrize(
    ("acceptance", "length", "tokens"),
    [(0.0, 5, 1), (1.0, 5, 6), (0.5, 2, 1 + 0.5 + 0.25), (0.8, 4, 1 + 0.8 + 0.64 + 0.512 + 0.4096)],
)
def test_a_round_gives_the_tokens_up_to_the_first_that_is_refused_and_one_more(acceptance, length, tokens):
    assert expected_tokens(acceptance, length) == pytest.approx(tokens)


def test_a_check_reads_weights_and_cache_once_and_multiplies_for_every_token():
    load = Load(
        {"layer": Piece({("float32", "mm"): 10}, weights=100, rows=3), CACHE: Piece({("float32", "sdpa"): 7}, cache=50)}
    )

    check = several(load, 5, written=2)

    assert check.pieces["layer"] == Piece({("float32", "mm"): 50}, weights=100, rows=15)
    assert check.pieces[CACHE] == Piece({("float32", "sdpa"): 35}, cache=50 + 4 * 2)
    assert check.tokens == 5


def made(weights, cache, batch=2):
    """One product with so many weights of 4 bytes, and so many bytes of cache for a token."""
    row = OpRow("aten.mm", "forward", 1, Cost(macs=batch * weights), dtype="float32", kind="matrix")
    root = Node(
        "",
        "",
        "Model",
        own=Phases(forward=Cost(macs=batch * weights)),
        parameters=(Parameter(1, "w", weights),),
        calls=1,
        ops=(row,),
    )
    profile = Profile(root, peak_bytes=4 * weights, at_peak={"parameters": 4 * weights})
    return Generation(profile, (Step(0, profile),), batch, 10, 1, 10, KVCache("dynamic", (CachePart(cache),)))


def serving(acceptance=0.5, length=2):
    found = Serving(replace(made(1_000_000, 100), draft=Draft(made(100_000, 10), acceptance, length)))
    found.ceilings = SHEET
    return found


def test_the_least_time_of_a_token_is_a_round_over_the_tokens_that_it_gives(monkeypatch):
    """1 GB/s: the model reads 4 MB of weights, and of 2 sequences 11 tokens of 100 bytes; the draft a tenth of each."""
    monkeypatch.setattr("flopsight.analysis.serving.ceilings_for", lambda *_: SHEET)
    found = speculate(serving())

    step = (4_000_000 + 2 * 11 * 100) / 1e9
    assert found.plain == pytest.approx(step)
    assert found.draft == pytest.approx(2 * (400_000 + 2 * 11 * 10) / 1e9)
    assert found.check == pytest.approx(step + 2 * 2 * 100 / 1e9)  # keys and values of two more tokens are written
    assert found.per_output_token == pytest.approx((found.draft + found.check) / 1.75)
    assert found.tokens_per_second == pytest.approx(2 / found.per_output_token)
    assert found.gain == pytest.approx(step / found.per_output_token)


def test_the_best_length_grows_with_the_acceptance(monkeypatch):
    monkeypatch.setattr("flopsight.analysis.serving.ceilings_for", lambda *_: SHEET)

    assert best_length(serving(0.0)) == 1
    assert best_length(serving(0.5)) < best_length(serving(0.9)) < best_length(serving(1.0)) == 32
    assert speculate(serving(0.0)).gain < 1


def test_a_draft_takes_memory(monkeypatch):
    monkeypatch.setattr("flopsight.analysis.serving.ceilings_for", lambda *_: SHEET)

    assert serving().peak == 4_000_000 + 400_000 + 2 * 11 * 10


@pytest.mark.parametrize(
    ("acceptance", "length", "said"),
    [
        (None, 4, "needs the chance"),
        (1.5, 4, "a chance from 0 to 1, not 1.5"),
        (True, 4, "a chance"),
        (0.5, 0, "draft_length"),
    ],
)
def test_a_wrong_draft_is_one_sentence(acceptance, length, said):
    with pytest.raises(InputError, match=said):
        check_draft("hf:gpt2", acceptance, length)
