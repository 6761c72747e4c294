"""What serving takes, from counted forwards: sums over steps, least times at any batch, what fits; without transformers."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

import flopsight
from flopsight.analysis.limits.step_load import CACHE, load_of
from flopsight.analysis.serving import Serving
from flopsight.errors import InputError, ProfileFileError
from flopsight.results.ceilings import Ceilings
from flopsight.results.costs import Cost, OpRow, Phases
from flopsight.results.environment import Environment
from flopsight.results.generation import Generation, Sample, Step
from flopsight.results.kv_cache import CachePart, KVCache
from flopsight.results.node import Node
from flopsight.results.profile import Profile
from flopsight.results.records import Parameter

WIDTH, INNER, WORDS, BATCH, PROMPT, NEW = 32, 64, 50, 2, 8, 6
SHEET = Ceilings("a device", flops={"float32": 1e12}, bandwidth=1e11, memory=10**9)


class Decoder(nn.Module):
    """One layer of one head that keeps its keys and values in a list."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids, past):
        q, k, v = self.qkv(self.table(ids)).chunk(3, dim=-1)
        if past:
            k, v = (torch.cat(pair, dim=1) for pair in zip(past, (k, v), strict=True))
        past[:] = [k, v]
        return self.head(self.down(self.up(functional.scaled_dot_product_attention(q, k, v)[:, -1:])))


def counted(tokens, seen=0):
    past = [torch.zeros(BATCH, seen, WIDTH) for _ in range(2)] if seen else []
    with torch.no_grad():
        return flopsight.profile(Decoder(), (torch.ones(BATCH, tokens, dtype=torch.int64), past), latency=False)


def made(numbers=(0, 2, 5)):
    steps = tuple(Step(number, counted(1, PROMPT + number)) for number in numbers)
    return Generation(
        counted(PROMPT), steps, BATCH, PROMPT, NEW, PROMPT, KVCache("dynamic", (CachePart(2 * WIDTH * 4),))
    )


WEIGHTS = 3 * WIDTH * WIDTH + 2 * WIDTH * INNER + WIDTH * WORDS


def test_all_steps_are_the_sum_of_every_single_one():
    few, all_of_them = made().decode, [counted(1, PROMPT + number) for number in range(NEW)]

    assert few.macs == sum(BATCH * (WEIGHTS + 2 * (PROMPT + number + 1) * WIDTH) for number in range(NEW))
    for path, node in few.nodes.items():
        singles = [profile[path] for profile in all_of_them]
        assert node.forward == sum((single.forward for single in singles), start=Cost()), path
        assert node.calls == sum(single.calls for single in singles), path
        assert sum(row.calls for row in node.ops) == sum(row.calls for single in singles for row in single.ops)
    assert few.coverage.calls == sum(profile.coverage.calls for profile in all_of_them)


def test_the_least_time_of_a_step_reads_weights_and_cache_once():
    load = load_of(counted(1, PROMPT), BATCH, cache_bytes=1000)

    assert load.weight_bytes(BATCH) == 4 * (WEIGHTS + BATCH * WIDTH)
    assert load.cache_bytes(5) == 5000
    fast = Ceilings(flops={"float32": 1e30}, bandwidth=1e9)
    assert load.least(fast, BATCH).limit == pytest.approx((4 * (WEIGHTS + BATCH * WIDTH) + BATCH * 1000) / 1e9)
    wide = Ceilings(flops={"float32": 1e9}, bandwidth=1e30)
    macs = WEIGHTS + 2 * (PROMPT + 1) * WIDTH
    assert load.least(wide, 7).limit == pytest.approx(2 * 7 * macs / 1e9)
    assert load.least(wide, 7, ways=2).limit == pytest.approx(7 * macs / 1e9)
    assert load.least(Ceilings(flops={"bfloat16": 1e9}, bandwidth=1e9), 1) is None


def test_each_module_takes_the_larger_of_its_work_and_its_weights():
    """At 10 FLOPs a byte a weight of 4 bytes is bound by its 2 FLOPs a sequence from batch 20 on."""
    load = load_of(counted(1, PROMPT), BATCH).without_cache
    rates = Ceilings(flops={"float32": 1e10}, bandwidth=1e9)

    assert CACHE not in load.pieces
    before, after = load.least(rates, 19), load.least(rates, 20)
    assert before.at_peak == 0
    products = 2 * 20 * WEIGHTS / 1e10
    assert after.at_peak == pytest.approx(products)


def test_the_mean_is_below_the_mean_of_the_steps_and_above_the_first():
    found = made()
    serving = Serving(found)
    serving.ceilings = SHEET

    first, last, mean = (serving.per_output_token(at) for at in ("first", "last", "mean"))
    assert first < mean < last
    moved = [4 * (WEIGHTS + BATCH * WIDTH) + BATCH * 2 * WIDTH * 4 * (PROMPT + number + 1) for number in range(NEW)]
    assert mean == pytest.approx(sum(moved) / NEW / SHEET.bandwidth)
    with pytest.raises(InputError, match="at must be 'mean', 'first', 'middle' or 'last', not 'end'"):
        found.per_output_token("h100-sxm", at="end")


def handmade(*parameters, macs=0, peak=0, at_peak=None):
    row = OpRow("aten.mm", "forward", 1, Cost(macs=macs), dtype="float32", kind="matrix")
    root = Node("", "", "Model", own=Phases(forward=Cost(macs=macs)), parameters=parameters, calls=1, ops=(row,))
    return Profile(root, peak_bytes=peak, at_peak=at_peak or {})


def test_a_batch_reads_the_experts_that_are_expected_to_be_chosen():
    profile = handmade(Parameter(1, "experts", 800, active=2 / 8))

    load = load_of(profile, 1)

    assert [load.weight_bytes(batch) / 4 for batch in (1, 2, 3)] == [200, 350, 462.5]  # 2, 3.5 and 4.625 of 8
    assert load.weight_bytes(1000) == pytest.approx(3200)


def test_packed_weights_are_read_as_they_are_held():
    profile = handmade(Parameter(1, "packed", 1000, itemsize=2, held_bytes=560))

    assert load_of(profile, 1).weight_bytes(4) == 560


def test_a_prompt_is_limited_by_what_a_fused_kernel_has_to_do():
    """Attention in parts of float32, in a model of bfloat16, over 4 tokens: 10 of 16 pairs; the last product for one token."""
    scores = OpRow("aten.bmm", "forward", 1, Cost(macs=1600), dtype="float32", kind="matrix")
    product = OpRow("aten.mm", "forward", 1, Cost(macs=400), dtype="bfloat16", kind="matrix")
    attention = Node("attention", "attention", "Attention", own=Phases(forward=Cost(macs=1600)), calls=1, ops=(scores,))
    layers = tuple(
        Node(
            name, name, "Linear", own=Phases(forward=Cost(macs=400)), parameters=(Parameter(key, "w", 100, itemsize=2),), calls=1, ops=(product,),
            input_shapes=((1, 4, 10),),
        )
        for key, name in enumerate(("first", "head"))
    )  # fmt: skip
    root = Node("", "", "Model", children=(layers[0], attention, layers[1]))
    profile = Profile(root, environment=Environment(dtype="bfloat16"))

    load = load_of(profile, 1, tokens=4, needed={"attention": 10 / 16})

    assert load.pieces[CACHE].macs == {("bfloat16", "aten.bmm"): 1600 * 10 / 16}
    assert load.pieces["first"].macs == {("bfloat16", "aten.mm"): 400}
    assert load.pieces["head"].macs == {("bfloat16", "aten.mm"): 100}


def test_a_parameter_that_no_op_reads_is_not_read():
    assert load_of(handmade(Parameter(1, "encoder", 1000, read_bytes=0)), 1).weight_bytes(4) == 0


def test_what_fits_grows_with_sequences_and_tokens():
    """600 MB of weights; of each sequence 1 MB of cache for a token, and 2 MB of temporaries for a token of its prompt."""
    mega = 10**6
    prefill = handmade(
        peak=600 * mega + 30 * mega, at_peak={"parameters": 600 * mega, "kv cache": 10 * mega, "temporaries": 20 * mega}
    )
    step = handmade(peak=600 * mega + 15 * mega, at_peak={"parameters": 600 * mega, "kv cache": 15 * mega})
    found = Generation(
        prefill, (Step(0, step), Step(2, step), Step(4, step)), 1, 10, 5, 10, KVCache("dynamic", (CachePart(mega),))
    )
    serving = Serving(found)
    serving.ceilings = SHEET

    assert serving.peak == 630 * mega
    assert serving.largest_batch == 13  # 400 MB of 30 MB each
    assert serving.largest_batch_in_turn == 26  # 400 MB of 15 MB each; a prompt takes 20 MB beside 25 caches
    assert serving.longest_context == 133 + 5  # a prompt of 133 tokens takes 3 MB a token
    assert Serving(replace(found, positions=100)).longest_context is None  # no device is known
    serving.ceilings = replace(SHEET, memory=500 * mega)
    assert (serving.largest_batch, serving.longest_context) == (0, 0)


def grown(batch, prompt):
    """A table of 5 kB that sequences share; 3 kB a token of a product, or 8 B for each pair of tokens of attention, whichever is more."""
    return {
        "parameters": 600_000,
        "temporaries": 5_000 + batch * max(3_000 * prompt, 8 * prompt * prompt),
        "kv cache": batch * 100 * prompt,
    }


def test_what_fits_is_found_beyond_the_sizes_at_which_a_peak_moves():
    """One prompt of 10 tokens is counted; the scores of all pairs take over at 375 tokens."""

    def step(prompt):
        return {"parameters": 600_000, "kv cache": 100 * (prompt + 1), "temporaries": 50}

    def profile(kinds):
        return handmade(peak=sum(kinds.values()), at_peak=kinds)

    sizes = [(1, 5), (2, 10), (32, 10), (64, 10), (1, 5_000), (1, 10_000)]
    samples = tuple(Sample(batch, prompt, grown(batch, prompt), step(prompt)) for batch, prompt in sizes)
    cache = KVCache("dynamic", (CachePart(100),))
    found = Generation(
        profile(grown(1, 10)), (Step(0, profile(step(10))),), 1, 10, 1, 10, cache, samples=samples
    )  # fmt: skip
    serving = Serving(found)
    for memory in (1_000_000, 10_000_000, 500_000_000):
        serving.ceilings = replace(SHEET, memory=memory)
        batch = (memory - 600_000 - 5_000) // (10 * 3_100)
        prompt = max(n for n in range(1, 10_001) if sum(grown(1, n).values()) <= memory)

        assert serving.largest_batch == batch
        assert serving.longest_context == pytest.approx(prompt + 1, abs=1)  # the square does not know the shared table


def test_predicted_times_have_a_column_of_their_own_if_the_device_was_measured():
    found = made()
    device = Ceilings(
        "a device", flops={"float32": 1e12}, bandwidth=1e11, memory=10**9, source="measured",
        efficiency={"pointwise": ((1e-9, 0.5), (1.0, 0.5))},
    )  # fmt: skip
    steps = tuple(replace(step, profile=replace(step.profile, ceilings=device)) for step in found.steps)
    found = replace(found, prefill=replace(found.prefill, ceilings=device), steps=steps)

    serving = found.serving()
    assert serving.predicted(found.last) == pytest.approx(2 * found.last.limit())  # each op at half of its limit
    assert "least  predicted  bound by" in str(found)
    assert "predicted: by the shares" in str(found)


def test_a_window_keeps_what_fits_into_it():
    cache = KVCache("dynamic", (CachePart(10), CachePart(100, window=4)), state_bytes=7, encoded_bytes=5)

    assert [cache.bytes_at(seen) for seen in (0, 3, 4, 9)] == [12, 342, 452, 502]
    assert cache.bytes_moved(9) == 502 + 110 + 7


def test_a_generation_is_a_value_that_is_saved_and_shown(tmp_path):
    found = made()

    loaded = flopsight.load(found.save(tmp_path / "g.json"))

    assert loaded == found
    assert loaded.decode.macs == found.decode.macs
    assert str(loaded) == str(found)
    assert "2 x 8 tokens of prompt, 6 new, dynamic cache" in str(loaded)
    assert "Step 3 of 6" in loaded.render("table")
    assert loaded.render("csv") == loaded.middle.render("csv")


def test_a_file_without_its_middle_step_is_damaged(tmp_path):
    path = made().save(tmp_path / "g.json")
    page = json.loads(path.read_text())
    del page["generation"]["steps"][1]
    path.write_text(json.dumps(page))

    with pytest.raises(ProfileFileError, match=r"damaged flopsight profile: generation.steps are those of the tokens"):
        flopsight.load(path)
