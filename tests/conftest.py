"""What every test shares: nothing may stay behind in the process."""

import os
import random
import sys

import pytest
import torch
from hypothesis import HealthCheck, settings
from leftovers import differences, process_state

settings.register_profile("any pace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any pace")  # a busy machine fails no test


def pytest_addoption(parser):
    parser.addoption(
        "--bless", action="store_true", help="write the golden files anew; read the difference before you commit"
    )
    parser.addoption("--shuffle", type=int, metavar="SEED", help="random order: of the files, and of the tests in each")


def pytest_report_header(config):
    seed = config.getoption("--shuffle")
    return None if seed is None else f"random order: --shuffle {seed}"


def pytest_collection_modifyitems(config, items):
    """Shuffle on request. A file stays together, so that what its tests share is made once."""
    seed = config.getoption("--shuffle")
    if seed is None:
        return
    order = random.Random(seed)
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    shuffled = [order.sample(tests, len(tests)) for tests in files.values()]
    order.shuffle(shuffled)
    items[:] = [item for tests in shuffled for item in tests]


def pytest_configure(config):
    """Views are as wide as their tests expect, on any terminal and in workers; pytest's own lines keep their width."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter._tw.fullwidth = reporter._tw.fullwidth
    os.environ["COLUMNS"] = "120"
    if "PYTEST_XDIST_WORKER" in os.environ:
        threads = max(1, torch.get_num_threads() // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
        torch.set_num_threads(threads)  # workers share the cores: threads that wait for each other take minutes
        os.environ["OMP_NUM_THREADS"] = str(threads)


@pytest.fixture(name="bless")
def _bless(request):
    """Whether golden files are to be written anew."""
    return request.config.getoption("--bless")


@pytest.fixture(autouse=True, scope="session")
def nothing_measured(tmp_path_factory):
    """No ceilings that someone has measured on this machine, and none that a command measures by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOPSIGHT_CACHE_DIR", str(tmp_path_factory.mktemp("measured")))
        patch.setenv("FLOPSIGHT_NO_MEASURE", "1")
        yield


@pytest.fixture(autouse=True)
def nothing_stays_behind():
    """Compare what is global before and after every test."""
    before = process_state()
    yield
    changed = differences(before, process_state())
    assert not changed, f"the test left behind: {', '.join(changed)}"


@pytest.fixture(autouse=True)
def nothing_of_a_test_stays_imported(tmp_path_factory):
    """Forget what was imported from a test's own folder, so that no other test finds it under the same name."""
    known, path, folders = set(sys.modules), list(sys.path), str(tmp_path_factory.getbasetemp())
    yield
    sys.path[:] = path
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(folders):
            del sys.modules[name]


@pytest.fixture(name="no_trace")
def _no_trace():
    """`with no_trace(model):` holds that the block leaves the model, the generators and the process as they were."""
    from leftovers import no_trace

    return no_trace
