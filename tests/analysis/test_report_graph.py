"""The data of the model graph: rows of stacks, bytes from block to block, and what is not drawn."""

from dataclasses import replace

import torch
from torch import nn

import flopsight
from flopsight.analysis.report import page_graph
from flopsight.analysis.report.page_data import Stacks, report
from flopsight.results.data_flow import DataFlow

WIDTH, BATCH, BLOCKS = 8, 3, 4
ROW = BATCH * WIDTH * 4
"""Bytes of one activation in float32."""


class Block(nn.Module):
    """x + fc(norm(x)); one layer is never called, and one hands on what it gets."""

    def __init__(self):
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.idle, self.same = nn.Linear(WIDTH, WIDTH), nn.Identity()

    def forward(self, x):
        return x + self.same(self.fc(self.norm(x)))


def stack(blocks=BLOCKS):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sequential(*(Block() for _ in range(blocks))), nn.Tanh())
    return flopsight.count(model, (torch.ones(BATCH, WIDTH),), on="meta")


def drawn(profile, folded=True):
    page = report(profile, folded=folded)["graph"]
    names = [f"{row} [{work}]" if work else row for row, _, work in page["places"]]
    return {(names[source], names[target]): size for source, target, size in page["links"]}, page


def test_blocks_of_a_stack_are_one_row_and_what_they_hand_each_other_is_apart():
    links, page = drawn(stack())

    assert links == {
        ("<input>", "0"): ROW,
        ("0", "1.0-3.norm"): ROW,
        ("0", "1.0-3 [add]"): ROW,
        ("1.0-3.norm", "1.0-3.fc"): BLOCKS * ROW,
        ("1.0-3.fc", "1.0-3 [add]"): BLOCKS * ROW,
        ("1.0-3 [add]", "2"): ROW,
        ("2", "<output>"): ROW,
    }
    # each block but the last hands its sum to the norm and to the sum of the next
    assert page["carried"] == {"1.0-3": 2 * (BLOCKS - 1) * ROW}


def test_with_every_block_apart_nothing_is_carried():
    links, page = drawn(stack(), folded=False)

    assert links["1.0 [add]", "1.1.norm"] == links["1.0 [add]", "1.1 [add]"] == ROW
    assert page["carried"] == {}


def test_modules_without_data_of_their_own_are_named_with_the_reason():
    _, page = drawn(stack())

    assert page["aside"] == {"idle": ["1.0-3.idle"], "passing": ["1.0-3.same"]}


def test_what_ran_outside_of_a_stage_is_not_a_module_that_was_never_called():
    profile = stack()
    outside = replace(profile.root.children[0], path="0.<outside>", name="<outside>", calls=0)
    page = page_graph.graph(profile.data_flow, [*profile.walk(), outside], Stacks(profile.root).row)

    assert page["aside"]["idle"] == ["1.0-3.idle"]


def test_below_a_depth_that_is_cut_data_belongs_to_the_module_above(tmp_path):
    profile = stack()
    nodes = [node for node in profile.walk() if node.path.count(".") == 0]
    page = page_graph.graph(profile.data_flow, nodes, Stacks(profile.root).row)

    assert [(page["places"][a][0], page["places"][b][0]) for a, b, _ in page["links"]] == [
        ("<input>", "0"), ("0", "1"), ("1", "2"), ("2", "<output>"),
    ]  # fmt: skip


def test_of_a_graph_with_too_many_places_the_upper_levels_are_left(monkeypatch):
    monkeypatch.setattr(page_graph, "MOST_PLACES", 5)

    links, _ = drawn(stack())

    assert links == {("<input>", "0"): ROW, ("0", "1.0-3"): 2 * ROW, ("1.0-3", "2"): ROW, ("2", "<output>"): ROW}


class Turning(nn.Module):
    """One layer, twice, with work of its own between: the sum is light, the product heavy."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)
        self.table = nn.Parameter(torch.ones(WIDTH, WIDTH))

    def forward(self, x):
        y = self.fc(x).add(1).matmul(self.table).exp()
        return self.fc(y).relu_()


def test_work_between_modules_is_named_by_its_heaviest_ops():
    links, _ = drawn(flopsight.count(nn.Sequential(Turning()), (torch.ones(BATCH, WIDTH),), on="meta"))

    # 2 * 3 * 8 * 8 FLOPs of the product, 3 * 8 of the sum, which is the first of the others
    assert {end for ends in links for end in ends} == {"<input>", "0.fc", "0 [mm, add, ...]", "0 [relu]", "<output>"}


def test_a_module_that_is_cut_has_one_turn_whatever_is_below_it():
    profile = flopsight.count(nn.Sequential(Turning(), nn.Tanh()), (torch.ones(BATCH, WIDTH),), on="meta")
    nodes = [node for node in profile.walk() if "." not in node.path]
    page = page_graph.graph(profile.data_flow, nodes, Stacks(profile.root).row)

    assert page["places"] == [["<input>", 0, ""], ["0", 0, ""], ["1", 0, ""], ["<output>", 0, ""]]


def test_a_profile_without_flows_has_no_graph():
    assert report(replace(stack(), data_flow=None))["graph"] is None
    assert report(replace(stack(), data_flow=DataFlow()))["graph"]["links"] == []
