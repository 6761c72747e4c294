"""What every test shares: nothing may stay behind in the process."""

import pytest
from leftovers import differences, process_state


@pytest.fixture(autouse=True)
def nothing_stays_behind():
    """Compare what is global before and after every test."""
    before = process_state()
    yield
    changed = differences(before, process_state())
    assert not changed, f"the test left behind: {', '.join(changed)}"


@pytest.fixture(name="no_trace")
def _no_trace():
    """`with no_trace(model):` holds that the block leaves the model, the generators and the process as they were."""
    from leftovers import no_trace

    return no_trace
