"""A notebook that is really executed: what its cells show of our values."""

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = {
    "setup": "import torch, flopsight\nfrom torch import nn\nmodel = nn.Sequential(nn.Linear(8, 4), nn.ReLU())\nx = torch.ones(2, 8)",
    "profile": "p = flopsight.count(model, (x,))\np",
    "progress": "_ = flopsight.profile(model, (x,), repeats=2, progress=True)",
    "node": 'p["0"]',
    "comparison": "flopsight.compare(p, flopsight.count(model, (torch.ones(4, 8),)))",
    "job": "flopsight.gather(p)",
    "frame": "p.to_frame().loc[:, ['params', 'macs']].to_string()",
    "picture": "[len(p.plot.icicle(by='flops').encoded(kind)) for kind in ('svg', 'png')]",
}


class Watching(NotebookClient):
    """Remembers every HTML that a cell shows, also what is replaced later."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.shown = []

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.shown.append(msg["content"]["data"].get("text/html", ""))
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()])
    folder = tmp_path_factory.mktemp("notebook")
    client = Watching(notebook, timeout=100, kernel_name="python3", resources={"metadata": {"path": folder}})
    client.execute()
    return client


@pytest.fixture(scope="module")
def outputs(executed):
    return {
        name: cell["outputs"][-1]["data"] if cell["outputs"] else {}
        for name, cell in zip(CELLS, executed.nb.cells, strict=True)
    }


@pytest.mark.parametrize("name", ["profile", "node", "comparison", "job"])
def test_a_value_is_shown_as_a_line_that_opens_without_script(outputs, name):
    html = outputs[name]["text/html"]

    assert "<details" in html
    assert "<script" not in html
    assert len(outputs[name]["text/plain"]) < 400


def test_progress_is_a_bar_that_goes_away(outputs, executed):
    assert any("<progress" in html and "counting" in html for html in executed.shown)
    assert any('max="2"' in html and "timing, run 1 of 2" in html for html in executed.shown)
    assert outputs["progress"]["text/html"] == ""


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
