"""Real trackers: what is written to disk is read back, without a network."""

import json
import os
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import mlflow
import pytest
import torch
import wandb
from prometheus_client.parser import text_string_to_metric_families
from script.running import free_port
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.utils.tensorboard import SummaryWriter
from wandb.proto import wandb_internal_pb2

import flopsight
from flopsight.integrations.trackers import log_profile, scalars

BATCH, INPUTS, HIDDEN, OUTPUTS = 4, 6, 10, 2


@pytest.fixture(name="profile", scope="module")
def _profile():
    """Two steps of a loop: one counted, one timed."""
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, OUTPUTS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with flopsight.step_profiler(model, optimizer, steps=range(1, 3)) as prof:
        for _ in range(4):
            model(torch.randn(BATCH, INPUTS)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            prof.step()
    return prof.profile


def test_tensorboard_has_every_figure_at_its_step(profile, tmp_path):
    with SummaryWriter(tmp_path) as writer:
        log_profile(profile, writer)

    events = EventAccumulator(str(tmp_path))
    events.Reload()
    found = {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}

    assert found["flopsight/macs"] == [(1, BATCH * (INPUTS * HIDDEN + HIDDEN * OUTPUTS))]
    assert found["flopsight/params"] == [(1, INPUTS * HIDDEN + HIDDEN + HIDDEN * OUTPUTS + OUTPUTS)]
    assert found.keys() == scalars(profile).keys()
    for name, value in scalars(profile).items():
        assert found[name] == [(1, pytest.approx(value, rel=1e-6))]  # TensorBoard keeps 32 bits


def test_wandb_has_every_figure_at_its_step_in_its_offline_file(profile, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = wandb.init(mode="offline", dir=tmp_path, project="p", settings=wandb.Settings(x_disable_stats=True))
    log_profile(profile, run)
    run.finish()
    wandb.teardown()  # the file is written by a service, which may be behind until it ends

    (history,) = offline_history(tmp_path)

    assert history["_step"] == 1
    assert history["flopsight/macs"] == BATCH * (INPUTS * HIDDEN + HIDDEN * OUTPUTS)
    assert {name: history[name] for name in scalars(profile)} == pytest.approx(scalars(profile))


def offline_history(folder: Path):
    """The rows of history in the one run below a folder."""
    wandb.teardown()  # its service may still be writing the file when a run has finished
    (file,) = folder.rglob("run-*.wandb")
    for data in logged(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            yield {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def logged(data: bytes, block: int = 32768, header: int = 7):
    """The records of a file in LevelDB's log format, behind W&B's own header of 7 bytes.

    A fragment is a checksum (4 bytes), a length (2), a type (1: whole, 2: first, 3: middle, 4: last) and its bytes;
    a block's end that has no room for a header is filled with zeros.
    """
    at, record = 7, b""
    while at + header <= len(data):
        left = block - at % block
        if left < header:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        record += data[at + header : at + header + length]
        at += header + length
        if kind in (1, 4):
            yield record
            record = b""


def monitored(to, every=2):
    """Four steps, of which every two make a record; their FLOPs are worked by hand."""
    model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, OUTPUTS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with flopsight.monitor(model, optimizer, every=every, to=to):
        for _ in range(4):
            model(torch.randn(BATCH, INPUTS)).square().mean().backward()
            optimizer.step()
    up, down = BATCH * INPUTS * HIDDEN, BATCH * HIDDEN * OUTPUTS
    return 2 * (2 * (up + down) + down)


def test_a_monitored_run_is_in_the_event_file(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        flops = monitored(writer)

    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("flopsight/model_flops")] == [(1, flops), (3, flops)]


def test_a_monitored_run_is_in_an_offline_wandb_run(tmp_path):
    with wandb.init(mode="offline", dir=tmp_path, project="p") as run:
        flops = monitored(run)

    rows = [row for row in offline_history(tmp_path) if "flopsight/model_flops" in row]
    assert [(row["_step"], row["flopsight/model_flops"]) for row in rows] == [(1, flops), (3, flops)]


def test_a_monitored_run_is_in_mlflow(tmp_path):
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    with mlflow.start_run() as run:
        flops = monitored(mlflow)

    found = mlflow.MlflowClient().get_metric_history(run.info.run_id, "flopsight/model_flops")
    assert [(metric.step, metric.value) for metric in found] == [(1, flops), (3, flops)]


TRACKED = """
import json, sys, trackio
from trackio.sqlite_storage import SQLiteStorage
from lanes.trackers.test_trackers import monitored

run = trackio.init(project="p", embed=False)
flops = monitored(trackio)
trackio.finish()
rows = [(row["step"], row["flopsight/model_flops"]) for row in SQLiteStorage.get_logs("p", run.name)]
print("found", json.dumps([rows, flops]))
"""


def test_a_monitored_run_is_in_trackios_database(tmp_path):
    """In a process of its own: trackio reads where its database is when it is imported."""
    done = subprocess.run(
        [sys.executable, "-c", TRACKED],
        env=os.environ | {"TRACKIO_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    rows, flops = json.loads(done.stdout.rpartition("found ")[2])
    assert rows == [[1, flops], [3, flops]]
    assert list(tmp_path.glob("*.db"))


def test_prometheus_reads_the_text_of_a_monitored_run(tmp_path):
    flops = monitored(tmp_path / "flopsight.prom")

    families = text_string_to_metric_families((tmp_path / "flopsight.prom").read_text())
    found = {family.name: family.samples[0].value for family in families}
    assert found["flopsight_model_flops"] == flops


def test_prometheus_reads_the_endpoint_of_a_monitored_run():
    address, pages, asked = f"http://127.0.0.1:{free_port()}/metrics", [], threading.Event()

    def ask(_record):
        while not pages:  # the endpoint has a thread of its own, which may not be there yet
            with suppress(OSError):
                pages.append(urlopen(address, timeout=10).read().decode())
        asked.set()

    model = nn.Linear(INPUTS, OUTPUTS, bias=False)
    with flopsight.monitor(model, every=1, to=[address, ask]) as live:
        model(torch.randn(BATCH, INPUTS)).sum().backward()
        live.step()
        assert asked.wait(60)

    found = {family.name: family.samples[0].value for family in text_string_to_metric_families(pages[0])}
    assert found["flopsight_model_flops"] == 2 * 2 * BATCH * INPUTS * OUTPUTS
    assert found["flopsight_steps"] == 1
