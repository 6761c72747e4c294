"""A notebook that is really executed: what its cells show of our values."""

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = {
    "setup": "import torch, flopsight\nfrom torch import nn\nmodel = nn.Sequential(nn.Linear(8, 4), nn.ReLU())\nx = torch.ones(2, 8)",
    "profile": "p = flopsight.count(model, (x,))\np",
    "node": 'p["0"]',
    "comparison": "flopsight.compare(p, flopsight.count(model, (torch.ones(4, 8),)))",
    "job": "flopsight.gather(p)",
    "frame": "p.to_frame().loc[:, ['params', 'macs']].to_string()",
    "picture": "from flopsight.render.plots import icicle\n[icicle(p, f'icicle.{kind}', by='flops').stat().st_size for kind in ('svg', 'png')]",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()])
    folder = tmp_path_factory.mktemp("notebook")
    NotebookClient(notebook, timeout=100, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return {
        name: cell["outputs"][-1]["data"] if cell["outputs"] else {}
        for name, cell in zip(CELLS, notebook.cells, strict=True)
    }


@pytest.mark.parametrize("name", ["profile", "node", "comparison", "job"])
def test_a_value_is_shown_as_a_line_that_opens_without_script(outputs, name):
    html = outputs[name]["text/html"]

    assert "<details>" in html
    assert "<script" not in html
    assert len(outputs[name]["text/plain"]) < 400


def test_the_line_of_a_profile_holds_its_figures(outputs):
    # Linear(8, 4): 8 * 4 + 4 parameters, 2 * 8 * 4 MACs
    assert "36 params" in outputs["profile"]["text/html"]
    assert "64 MACs" in outputs["profile"]["text/html"]


def test_a_frame_has_a_row_for_every_module(outputs):
    text = outputs["frame"]["text/plain"]

    assert text.count("36") >= 2, "the model and its linear layer"
    assert "64" in text


def test_pictures_are_written_as_vectors_and_pixels(outputs):
    vector, pixels = outputs["picture"]["text/plain"].strip("[]").split(", ")

    assert int(vector) > 1000
    assert int(pixels) > 1000
