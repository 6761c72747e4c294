"""Our values in JupyterLab, in a real browser: what a reader sees after running the cells."""

import os
import socket
import subprocess
import sys
import time
from urllib.request import urlopen

import nbformat
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--window-size=1440,9000",  # so tall that the lab draws every cell
)
SETUP = """
import torch, flopsight
from torch import nn
class Net(nn.Sequential):  # its last layer is never called, which is a finding
    def forward(self, x):
        for layer in self[:-1]:
            x = layer(x)
        return x
model = Net(*(nn.Linear(2 ** (4 + i % 3), 2 ** (4 + (i + 1) % 3)) for i in range(13)))
x = torch.ones(2, 16)
"""
CELLS = {
    "setup": SETUP,
    "profile": "p = flopsight.profile(model, (x,), train=True, warmup=1, repeats=2, timeline=True)\np",
    "findings": "p.findings",
    "comparison": "flopsight.compare(p, flopsight.count(model, (torch.ones(4, 16),), train=True))",
    "job": "flopsight.gather(p)",
    "sweep": "s = flopsight.sweep('zoo:lenet5', {'batch': [1, 2, 4]}, on='h100-sxm')\ns",
    "icicle": "p.plot.icicle()",
    "roofline": "p.plot.roofline(on='h100-sxm')",
    "memory": "p.plot.memory()",
    "timeline": "p.plot.timeline()",
    "lines": "s.plot.lines()",
}
HTML = ("profile", "findings", "comparison", "job", "sweep")
PICTURES = ("icicle", "roofline", "memory", "timeline", "lines")
CELL = "const cell = document.querySelectorAll('.jp-CodeCell')[arguments[0]]; const out = cell.querySelector('.jp-OutputArea');"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab with one notebook, that is not run yet."""
    folder, port = tmp_path_factory.mktemp("lab"), free_port()
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in CELLS.values()]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "profile.ipynb")
    options = (
        "--no-browser", "--allow-root", "--expose-app-in-browser", f"--port={port}", f"--ServerApp.root_dir={folder}",
        "--IdentityProvider.token=", "--ServerApp.port_retries=0", "--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    )  # fmt: skip
    apart = {name: str(folder) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    command = [sys.executable, "-m", "jupyterlab", *options]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, env=os.environ | apart, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}/lab"
    try:
        wait_for(address, server, folder / "log")
        yield f"{address}/tree/profile.ipynb"
    finally:
        server.terminate()
        server.wait(30)


def wait_for(address, server, log):
    until = time.monotonic() + 120
    while time.monotonic() < until and server.poll() is None:
        try:
            urlopen(address, timeout=5).close()
        except OSError:
            continue
        return
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def notebook(lab):
    """The browser, with the notebook run from its first to its last cell."""
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service("/usr/bin/chromedriver"))
    try:
        driver.get(lab)
        ready = "return window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
        WebDriverWait(driver, 120, 0.2).until(lambda _: driver.execute_script(ready))
        driver.set_script_timeout(300)
        driver.execute_async_script("jupyterapp.commands.execute('notebook:run-all-cells').then(arguments[0])")
        yield driver
    finally:
        driver.quit()


def at(name):
    return list(CELLS).index(name)


def shown(notebook, name):
    """What stands under a cell, as a reader sees it."""
    return notebook.execute_script(f"{CELL} return out.querySelector('.jp-OutputArea-output').innerText", at(name))


@pytest.mark.parametrize("name", CELLS)
def test_no_cell_has_an_error(notebook, name):
    cell = "return jupyterapp.shell.currentWidget.model.cells.get(arguments[0]).toJSON()"
    found = notebook.execute_script(cell, at(name))

    assert found["execution_count"] == at(name) + 1
    assert [out["traceback"][-1] for out in found["outputs"] if out["output_type"] == "error"] == []


def test_a_profile_opens_on_its_headline_and_eight_rows_with_bars(notebook):
    seen = f"""{CELL} const rows = [...out.querySelectorAll('table')][0].querySelectorAll('tr');
      return [...rows].map((row) => [row.innerText, row.getBoundingClientRect().height, getComputedStyle(row.lastElementChild).backgroundImage.slice(0, 15)])"""
    head, *rows = notebook.execute_script(seen, at("profile"))

    assert "Net" in shown(notebook, "profile").splitlines()[0]
    assert "module" in head[0]
    assert len(rows) == 8
    assert all(height > 10 and bar == "linear-gradient" for _, height, bar in rows)
    assert sum("Linear" in text for text, _, _ in rows) >= 6, (
        "beside layers, at most the model itself and what ran outside"
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [("findings", "finding"), ("comparison", "FLOPs"), ("job", "rank"), ("sweep", "batch")],
)
def test_other_values_are_tables_that_are_seen_at_once(notebook, name, says):
    tables = f"{CELL} return [...out.querySelectorAll('.flopsight table')].filter((one) => one.getBoundingClientRect().height > 10).length"

    assert notebook.execute_script(tables, at(name)) >= 1
    assert says in shown(notebook, name)


@pytest.mark.parametrize("name", HTML)
def test_no_value_brings_a_script(notebook, name):
    assert notebook.execute_script(f"{CELL} return out.querySelectorAll('script').length", at(name)) == 0


@pytest.mark.parametrize("name", PICTURES)
def test_a_plot_is_drawn_inline(notebook, name):
    size = f"{CELL} const picture = out.querySelector('img, svg'); return [picture?.naturalWidth ?? picture?.clientWidth, picture?.getBoundingClientRect().width]"
    natural, wide = notebook.execute_script(size, at(name))

    assert natural > 200
    assert 200 < wide < 1440


def test_the_page_has_no_error_of_a_script(notebook):
    said = [entry["message"] for entry in notebook.get_log("browser") if entry["level"] == "SEVERE"]

    assert [text for text in said if "Failed to load resource" not in text] == []
