"""Every architecture of the page gives the numbers in its file, and what transformers cannot build is its own doing."""

import inspect

import architectures
import pytest
import torch

from flopsight.targets.loading import load_target
from flopsight.targets.packages import library


@pytest.mark.parametrize("name", [name for name in architectures.TYPES if name not in architectures.REAL])
def test_an_architecture_costs_what_the_file_says(name):
    assert architectures.line(name, *architectures.row(name)) == architectures.written()[name]


@pytest.mark.parametrize("name", architectures.REAL)
def test_an_architecture_whose_shapes_depend_on_values_runs_with_its_parameters(name):
    """How long its sound is depends on rounding too, so that its costs differ between machines."""
    remark, params, macs, backward = architectures.row(name)

    assert architectures.written()[name][1:3] == [remark, str(params)]
    assert backward > macs > 0


def test_the_page_sums_up_the_file():
    rows = architectures.written()

    assert list(rows) == architectures.TYPES
    assert len(rows) >= 60
    assert architectures.PAGE.read_text(encoding="utf-8") == architectures.page(rows)


@pytest.mark.parametrize("name", architectures.INCOMPLETE)
def test_an_incomplete_default_configuration_fails_without_flopsight_too(name):
    _, word, why = architectures.INCOMPLETE[name]
    transformers = library("transformers")
    kind = type(load_target(f"hf:{architectures.target_text(name)}", meta=True).model)

    with pytest.raises(Exception, match=word), torch.device("meta"):
        model = kind(transformers.AutoConfig.for_model(name))
        assert "input_ids" in inspect.signature(model.forward).parameters
        model(input_ids=torch.zeros(1, 8, dtype=torch.int64))
    assert f"| `{name}` | {why} |" in architectures.PAGE.read_text()
