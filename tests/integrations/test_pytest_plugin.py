"""The pytest plugin, as pytest finds it: budgets that hold, budgets that break, and marks that would hold anything."""

import importlib.metadata

import pytest

pytest_plugins = "pytester"

MODEL = """
import pytest
from torch import nn

def model():
    # 8 x 16 + 16 and 16 x 4 + 4 parameters; at batch 2: 2 x (8 x 16 + 16 x 4) MACs
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
"""
PARAMS = 8 * 16 + 16 + 16 * 4 + 4
MACS = 2 * (8 * 16 + 16 * 4)
FLOPS = 2 * MACS + 2 * 16 + 2 * 16 + 2 * 4  # bias, ReLU, bias


@pytest.fixture(name="outcome")
def _outcome(pytester):
    def run(test):
        pytester.makepyfile(MODEL + test)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "--strict-markers")

    return run


def test_pytest_finds_the_plugin_by_its_entry_point():
    (found,) = importlib.metadata.entry_points(group="pytest11", name="flopsight")

    assert found.value == "flopsight.integrations.pytest_plugin"


def test_a_model_within_its_budget_passes_and_its_profile_is_handed_over(outcome):
    outcome(f"""
@pytest.mark.model_budget(params={PARAMS}, macs={MACS}, flops={FLOPS}, activation_bytes="1KiB")
def test_small(profile_model):
    p = profile_model(model(), input_shape=(2, 8))
    assert (p.params, p.macs, p.flops) == ({PARAMS}, {MACS}, {FLOPS})
    assert p.latency is None
""").assert_outcomes(passed=1)


def test_a_model_over_its_budget_fails_with_the_shares_of_its_modules(outcome):
    result = outcome(f"""
@pytest.mark.model_budget(params="1k", flops={FLOPS - 1})
def test_small(profile_model):
    profile_model(model(), input_shape=(2, 8))
""")

    result.assert_outcomes(failed=1)
    first, second = 2 * 2 * 8 * 16 + 2 * 16, 2 * 2 * 16 * 4 + 2 * 4
    result.stdout.fnmatch_lines(
        [
            "*Sequential breaks its budget:",
            f"*flops is {FLOPS}, over the budget of {FLOPS - 1}.",
            f"*    0 * {first / FLOPS:.1%}  {first}  Linear",
            f"*    2 * {second / FLOPS:.1%}  {second}  Linear",
            "*    1 * 3.8%  32  ReLU",
        ]
    )
    assert "params is" not in result.stdout.str()


def test_the_failure_is_shown_at_the_line_of_the_test(outcome):
    result = outcome("""
@pytest.mark.model_budget(params=1)
def test_small(profile_model):
    profile_model(model(), input_shape=(2, 8))
""")

    result.stdout.fnmatch_lines([">*profile_model(model(), input_shape=(2, 8))"])
    assert "pytest_plugin.py:" not in result.stdout.str()


def test_a_training_step_and_a_time_are_measured_where_the_budget_asks_for_them(outcome):
    outcome("""
@pytest.mark.model_budget(backward_flops="1M", peak_bytes="1MiB", latency="60s")
def test_small(profile_model):
    p = profile_model(model(), input_shape=(2, 8), train=True, repeats=1, warmup=0)
    assert p.trained and p.latency > 0
""").assert_outcomes(passed=1)


def test_a_class_states_a_budget_for_its_tests_and_a_test_its_own(outcome):
    outcome(f"""
@pytest.mark.model_budget(params=1, macs={MACS})
class TestBoth:
    def test_that_keeps_the_limits_of_its_class(self, profile_model):
        profile_model(model(), input_shape=(2, 8))

    @pytest.mark.model_budget(params={PARAMS})
    def test_that_may_have_more_parameters(self, profile_model):
        profile_model(model(), input_shape=(2, 8))
""").assert_outcomes(passed=1, failed=1)


def test_the_fixture_profiles_without_a_budget_too(outcome):
    outcome("""
def test_small(profile_model):
    assert profile_model(model(), input_shape=(2, 8)).params > 0
""").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (
            "@pytest.mark.model_budget(params=1)\ndef test_x(): pass",
            "*profiled no model: call the profile_model fixture.*",
        ),
        ("@pytest.mark.model_budget(params=1)\ndef test_x(profile_model): pass", "*profiled no model*"),
        (
            "@pytest.mark.model_budget(parms=1)\ndef test_x(profile_model): profile_model(model(), input_shape=(2, 8))",
            "*There is no figure 'parms'. Did you mean 'params'?*",
        ),
        (
            "@pytest.mark.model_budget(params='lots')\ndef test_x(profile_model): profile_model(model(), input_shape=(2, 8))",
            "*'lots' is not a number*",
        ),
        ("@pytest.mark.model_budget\ndef test_x(profile_model): profile_model(model())", "*Write the limits*by name*"),
        ("@pytest.mark.model_budget('26M')\ndef test_x(profile_model): profile_model(model())", "*Write the limits*"),
    ],
)
def test_a_mark_that_would_hold_whatever_happens_fails(outcome, test, said):
    result = outcome(test)

    assert result.parseoutcomes().get("passed", 0) == 0
    result.stdout.fnmatch_lines([said])


def test_a_test_that_fails_by_itself_is_not_told_about_its_budget(outcome):
    result = outcome("""
@pytest.mark.model_budget(params=1)
def test_x(profile_model):
    assert 1 == 2
""")

    result.assert_outcomes(failed=1)
    assert "profiled no model" not in result.stdout.str()


def test_the_mark_is_among_those_that_pytest_lists(pytester):
    result = pytester.runpytest_inprocess("--markers")

    result.stdout.fnmatch_lines(["@pytest.mark.model_budget(*"])


def test_other_peoples_tests_import_neither_torch_nor_the_rest_of_us(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # plugins of other packages may import anything
    pytester.makepyfile("""
import sys

def test_nothing_heavy_came_along():
    ours = {name for name in sys.modules if name.startswith("flopsight")}
    assert ours == {"flopsight", "flopsight.integrations", "flopsight.integrations.pytest_plugin"}
    assert "torch" not in sys.modules and "numpy" not in sys.modules
""")

    words = ("-p", "flopsight.integrations.pytest_plugin", "-p", "no:cacheprovider")
    pytester.runpytest_subprocess(*words).assert_outcomes(passed=1)


def test_a_limit_that_is_no_quantity_is_one_sentence(outcome):
    result = outcome("""
@pytest.mark.model_budget(params="20 kilo")
def test_small(profile_model):
    profile_model(model(), input_shape=(2, 8))
""")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["'20 kilo' is not a quantity. Write it like 26M, 8.2G or 16GiB."])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*units.py*")
