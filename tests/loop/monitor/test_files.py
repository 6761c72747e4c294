"""What a run leaves on disk: lines that grow while it trains, a page, a Prometheus text."""

import json
import re
import threading
from contextlib import suppress
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from loop.monitor.training import mlp, mlp_flops, model_flops, one_step, rows, sgd
from script.running import free_port

import flopsight
from flopsight.distributed.join import merge
from flopsight.errors import InputError, OutputError, ProfileFileError
from flopsight.files.run_file import LineFile
from flopsight.loop.monitor import series
from flopsight.render.run_page import difference
from flopsight.results.run import Interval, Run, SlowStep, thinned


def trained(to, steps=5, every=2):
    model = mlp()
    optimizer = sgd(model)
    with flopsight.monitor(model, optimizer, every=every, to=to) as live:
        for count in range(1, steps + 1):
            one_step(model, optimizer, rows(count))
    return live


def test_every_line_is_an_interval_and_load_opens_the_run(tmp_path):
    path = tmp_path / "run.jsonl"

    live = trained(path)

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert model_flops(lines) == [mlp_flops(1.5), mlp_flops(3.5), mlp_flops(5)]
    run, kept = flopsight.load(path), live.summary()
    assert (run.steps, run.shapes, run.model) == (5, 5, "Sequential")
    assert run.intervals == kept.intervals
    assert run.median_seconds == kept.median_seconds
    assert run.profile.forward.macs == 8 * 16 + 16 * 2


def test_a_file_that_is_still_being_written_is_a_run_up_to_there(tmp_path):
    path = tmp_path / "run.jsonl"
    trained(path)
    path.write_text(path.read_text()[:-40])

    run = flopsight.load(path)

    assert run.steps == 4
    assert "still going on" in str(run)


def test_a_saved_summary_is_the_same_run(tmp_path):
    run = trained(()).summary()

    again = flopsight.load(run.save(tmp_path / "run.json"))

    assert again.intervals == run.intervals
    assert str(again) == str(run)


def test_a_damaged_line_is_one_sentence(tmp_path):
    path = tmp_path / "run.jsonl"
    trained(path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:-9], lines[2]]))

    with pytest.raises(ProfileFileError, match="line 2 is not JSON"):
        flopsight.load(path)


def test_a_second_run_in_the_same_file_is_the_one_that_is_read(tmp_path):
    path = tmp_path / "run.jsonl"
    trained(path, steps=5)
    trained(path, steps=3)

    assert flopsight.load(path).steps == 3


def test_a_profile_is_asked_for_and_a_run_is_there(tmp_path):
    path = tmp_path / "run.jsonl"
    trained(path)

    with pytest.raises(ProfileFileError, match="is a monitored run, not a profile"):
        flopsight.files.store.load_profile(path)


def test_what_a_full_disk_did_not_take_is_written_later(tmp_path):
    folder = tmp_path / "later"
    folder.write_text("in the way")
    file = LineFile(folder / "run.jsonl")
    with pytest.raises(OutputError, match="cannot be written"):
        file.append("one")
    folder.unlink()
    file.append("two")

    assert (folder / "run.jsonl").read_text() == "one\ntwo\n"


def test_prometheus_text_has_a_gauge_for_each_figure(tmp_path):
    path = tmp_path / "flopsight.prom"

    trained(path, steps=1, every=1)

    assert f"# TYPE flopsight_model_flops gauge\nflopsight_model_flops {float(mlp_flops(1))}\n" in path.read_text()


def test_an_endpoint_serves_the_latest_figures_until_the_loop_is_over():
    port = free_port()
    address, read = f"http://127.0.0.1:{port}/metrics", threading.Event()
    model, pages = mlp(), []
    optimizer = sgd(model)

    def after(_record):
        """Each sink has a thread of its own: ask until the endpoint is there."""
        while not pages:
            with suppress(OSError):
                pages.append(urlopen(address, timeout=10).read().decode())
        read.set()

    with flopsight.monitor(model, optimizer, every=1, to=[address, after]) as live:
        one_step(model, optimizer, rows(3))
        live.step()
        assert read.wait(60)

    assert f"flopsight_model_flops {float(mlp_flops(3))}\n" in pages[0]
    with pytest.raises(URLError):
        urlopen(address, timeout=10)


@pytest.mark.parametrize(
    "address", ["http://0.0.0.0:9400", "http://example.org:9400", "https://127.0.0.1:1", "http://localhost"]
)
def test_an_endpoint_is_on_the_loopback_address_and_has_a_port(address):
    with pytest.raises(InputError, match="loopback address and has a port"):
        flopsight.monitor(mlp(), to=address)


def test_joined_neighbours_keep_every_sum():
    parts = [Interval(at, timed=1, seconds=2.0, total_model_flops=3.0, tokens=4, at_peak=1.0) for at in range(7)]

    kept = thinned(parts, 3)

    assert len(kept) == 2
    assert [(one.first, one.steps) for one in kept] == [(0, 4), (4, 3)]
    assert sum(one.total_model_flops for one in kept) == 21
    assert Run(intervals=kept).whole.tokens_per_second == 2.0
    assert Run(intervals=kept).whole.mfu == 0.5


def test_a_long_run_is_thinned_in_memory_and_whole_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(series, "MOST_KEPT", 8)
    path = tmp_path / "run.jsonl"

    live = trained(path, steps=40, every=1)

    kept = live.summary()
    assert len(kept.intervals) <= 8
    assert kept.steps == 40
    assert kept.whole.total_model_flops == sum(mlp_flops(count) for count in range(1, 41))
    assert len(path.read_text().splitlines()) == 40


def test_the_page_draws_the_curves_and_marks_slow_steps(tmp_path):
    intervals = tuple(
        Interval(at, timed=1, seconds=0.5, at_peak=0.2, tokens=100, total_model_flops=1.0) for at in range(4)
    )
    run = Run(model="<Net>", intervals=intervals, slow=(SlowStep(2, 1.5, 0.5, "waiting for data +1 s"),))

    page = run.to_html(tmp_path / "run.html").read_text()

    assert "<h2>MFU</h2>" in page
    assert "<h2>Tokens a second</h2>" in page
    assert "40.0%" in page
    assert 'class="slow"' in page
    assert "<Net>" not in page
    assert "&lt;Net&gt;" in page
    assert "step 2" in str(run)
    assert "waiting for data +1 s" in str(run)


def shown_tiles(run, path):
    """Labels, values and notes at the top of a run's page."""
    top = run.to_html(path).read_text().split('<dl class="tiles">')[1].split("</dl>")[0]
    return re.findall(r'<dt>(.*?)</dt><dd class="value">(.*?)</dd><dd class="soft">(.*?)</dd>', top)


def test_the_page_begins_with_the_figures_of_the_run(tmp_path):
    intervals = tuple(
        Interval(at, timed=1, seconds=0.5, waited=0.1, at_peak=0.2, all_at_peak=0.25, tokens=100, peak_bytes=2 * 10**9)
        for at in range(4)
    )
    slow = (SlowStep(1, 0.9, 0.5, "forward +0.4 s"), SlowStep(2, 1.5, 0.5, "waiting for data +1 s"))
    run = Run(intervals=intervals, slow=slow, median_seconds=0.5, quartiles=(0.25, 0.75))

    assert shown_tiles(run, tmp_path / "run.html") == [
        ("MFU", "40.0%", "HFU 50.0%"),
        ("Tokens a second", "200", "of this process"),
        ("A step, median", "500 ms", "half of them from 250 ms to 750 ms"),
        ("Peak memory", "2.00 GB", "of the process"),
        ("Slow steps", "2", "the slowest: step 2, 1.50 s"),
    ]
    page = (tmp_path / "run.html").read_text()
    assert "products take 40.0% of the device&#x27;s peak." in page
    assert "Waiting for data takes 20.0% of the time." in page


def test_a_figure_that_is_not_known_has_no_tile(tmp_path):
    run = Run(intervals=(Interval(0, timed=0, seconds=0.0),))

    assert shown_tiles(run, tmp_path / "run.html") == [("Slow steps", "0", "of 1")]
    assert "No step was seen." in Run().to_html(tmp_path / "empty.html").read_text()


def test_the_difference_of_two_runs_says_what_changed():
    def run(seconds):
        return Run(intervals=(Interval(0, timed=1, seconds=seconds, at_peak=0.2, tokens=100, total_model_flops=8.0),))

    text = difference(run(0.5), run(0.4))

    assert "MFU                        40.0% ->        50.0%  +25.0%" in text
    assert "tokens/s                     200 ->          250  +25.0%" in text
    assert "the same: model FLOPs a step, waiting for data, slow steps" in text


def test_a_run_without_a_step_is_saved_and_says_what_is_missing(tmp_path):
    model = mlp()
    with flopsight.monitor(model) as live:
        model(rows(4)).sum().backward()  # and no optimizer

    run = live.summary()
    loaded = flopsight.load(run.save(tmp_path / "run.json"))

    assert loaded == run
    assert (run.steps, run.model) == (0, "Sequential")
    assert "call live.step() at the end of each step" in str(loaded)


def test_a_tracker_whose_log_takes_no_step_gets_the_figures():
    class Tracker:
        def __init__(self):
            self.seen = []

        def log(self, figures):
            self.seen.append(figures)

    tracker = Tracker()
    trained(tracker, steps=2, every=1)

    assert model_flops(tracker.seen) == [mlp_flops(1), mlp_flops(2)]


def test_runs_among_profiles_are_named(tmp_path):
    trained(tmp_path / "run.json")

    with pytest.raises(InputError, match=r"run\.json is a monitored run, not a profile"):
        merge(tmp_path)


def test_a_prometheus_file_gets_the_last_figures_and_is_never_too_slow(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("flopsight.loop.monitor.deliveries.MOST_WAITING", 2)
    path = tmp_path / "run.prom"

    trained(path, steps=50, every=1)

    assert "flopsight_step 49" in path.read_text()
    assert "too slow" not in capsys.readouterr().err
