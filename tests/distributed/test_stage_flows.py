"""The data between the modules of a pipeline's stages: what one stage gives, the next one takes."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import flopsight
from flopsight.results.data_flow import INPUT, OUTPUT, DataFlow, chained
from flopsight.results.job import Job
from flopsight.results.world import World

ROWS, WIDTH, INNER = 3, 8, 16


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x):
        return x + self.down(self.up(x))


class Two(nn.Module):
    """Gives what two modules made."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.one(x), self.other(x)


def stage(number, model, size=2):
    profile = flopsight.count(model, (torch.randn(ROWS, WIDTH),), train=True)
    return replace(profile, world=World(size, number, pipeline=size, stage=number, model_parallel=size))


def job(*models):
    return Job({n: stage(n, model, len(models)) for n, model in enumerate(models)}, len(models))


def test_what_a_stage_gives_the_next_one_takes():
    flow = job(nn.Linear(WIDTH, WIDTH), Residual(), nn.Linear(WIDTH, 1)).model.data_flow

    narrow, wide = 4 * ROWS * WIDTH, 4 * ROWS * INNER  # four bytes a number
    found = {(source[0], target[0]): size for source, target, size in flow}
    assert {ends: size for ends, size in found.items() if "<outside>" not in ends[1]} == {  # where the loss is
        ("<input>", "stage0"): narrow,
        ("stage0", "stage1.up"): narrow,
        ("stage0", "stage1"): narrow,  # the residual
        ("stage1.up", "stage1.down"): wide,
        ("stage1.down", "stage1"): narrow,
        ("stage1", "stage2"): narrow,
        ("stage2", "<output>"): 4 * ROWS,
    }
    assert dict(zip(flow.modules, flow.work, strict=True))["stage1"] == "aten.add"


def test_through_a_stage_that_gives_what_it_took_the_data_of_the_one_before_goes_on():
    through = DataFlow.of({((INPUT, 0), (OUTPUT, 0)): 96}, {})
    plain = DataFlow.of({((INPUT, 0), ("", 0)): 96, (("", 0), (OUTPUT, 0)): 96}, {})

    assert list(chained({"stage0": plain, "stage1": through, "stage2": plain}) or ()) == [
        ((INPUT, 0), ("stage0", 0), 96),
        (("stage0", 0), ("stage2", 0), 96),
        (("stage2", 0), (OUTPUT, 0), 96),
    ]


def test_the_page_of_a_pipeline_draws_every_stage(tmp_path):
    page = job(Residual(), Residual()).to_html(tmp_path / "job.html").read_text()

    assert '"links":' in page


def test_a_stage_that_gives_what_several_modules_made_has_no_graph():
    assert job(Two(), nn.Linear(WIDTH, 1)).model.data_flow is None


@pytest.mark.parametrize("missing", [0, 1])
def test_a_stage_without_flows_has_no_graph(missing):
    flows = [stage(n, Residual()).data_flow for n in (0, 1)]
    flows[missing] = None

    assert chained(dict(zip(("stage0", "stage1"), flows, strict=True))) is None
