"""The settings block: DeepSpeed's keys and defaults, every place it can be written, and what a mistake is answered with."""

import json
import subprocess
import sys

import pytest

from flopsight.config import Settings, parse_steps, read_budgets
from flopsight.errors import ConfigError

# as DeepSpeed's tutorial prints it, with the comma that JSON forbids
PRINTED = """{
  "flops_profiler": {
    "enabled": true,
    "profile_step": 1,
    "module_depth": -1,
    "top_modules": 3,
    "detailed": true,
    }
}
"""


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def complaint(block):
    with pytest.raises(ConfigError) as problem:
        Settings.from_dict(block, "ds.json, flops_profiler")
    return str(problem.value)


def test_the_defaults_are_deepspeeds():
    settings = Settings()

    assert (settings.enabled, settings.recompute_fwd_factor, settings.profile_step) == (False, 0.0, 1)
    assert (settings.module_depth, settings.top_modules, settings.detailed, settings.output_file) == (-1, 1, True, None)


def test_the_block_is_read_as_the_tutorial_prints_it(tmp_path):
    settings = Settings.read(write(tmp_path, "ds.json", PRINTED))

    assert settings == Settings(
        enabled=True, profile_step=1, module_depth=-1, top_modules=3, detailed=True, formats=("deepspeed",)
    )


def test_a_comma_inside_a_string_stays(tmp_path):
    path = write(tmp_path, "ds.json", '{"output_file": "a,] \\",}", "strict": true,}')

    assert Settings.read(path).output_file == 'a,] ",}'


def test_a_deepspeed_configuration_keeps_its_other_keys_to_itself(tmp_path):
    page = {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "flops_profiler": {"enabled": True}}

    settings = Settings.read(write(tmp_path, "ds.json", json.dumps(page)))

    assert settings == Settings(enabled=True, formats=("deepspeed",))


def test_where_deepspeed_s_block_is_silent_it_means_what_deepspeed_does(tmp_path):
    elsewhere = Settings(profile_step=5, formats=("table",))
    theirs = Settings.read(write(tmp_path, "ds.json", '{"flops_profiler": {"enabled": true}}'), elsewhere)
    ours = Settings.read(write(tmp_path, "ours.json", '{"flopsight": {"enabled": true}}'), elsewhere)

    assert (theirs.profile_step, theirs.formats) == (1, ("deepspeed",))
    assert (ours.profile_step, ours.formats) == (5, ("table",))


def test_a_file_may_be_the_block_itself(tmp_path):
    assert Settings.read(write(tmp_path, "f.json", '{"profile_step": 4}')).profile_step == 4


@pytest.mark.parametrize("table", ["", "[flops_profiler]\n", "[flopsight]\n", "[tool.flopsight]\n"])
def test_toml_is_read_from_a_file_of_ours_and_from_a_pyproject(tmp_path, table):
    text = f'{table}enabled = true\nsteps = "2-6"\nformats = ["deepspeed", "html"]\nbudgets = {{flops = "8.2G"}}\n'

    settings = Settings.read(write(tmp_path, "pyproject.toml", text))

    assert settings.window == (2, 6)
    assert settings.formats == ("deepspeed", "html")
    assert settings.budgets == {"flops": "8.2G"}


def test_a_pyproject_without_our_table_gives_the_defaults(tmp_path):
    assert Settings.read(write(tmp_path, "pyproject.toml", "[tool.ruff]\nline-length = 100\n")) == Settings()


def test_one_step_is_a_window_of_one():
    assert Settings(profile_step=5).window == (5, 5)


@pytest.mark.parametrize("value", ["2-6", [2, 6], (2, 6)])
def test_a_window_can_be_written_as_text_or_as_a_pair(value):
    assert parse_steps(value) == (2, 6)


def test_an_unknown_key_is_named_with_its_file_and_the_nearest_key():
    assert complaint({"profil_step": 2}) == (
        "ds.json, flops_profiler: there is no setting 'profil_step'. Did you mean 'profile_step'?"
    )


def test_an_unknown_key_far_from_all_lists_them():
    assert "There are budgets, detailed, enabled" in complaint({"zzz": 2})


@pytest.mark.parametrize(
    ("key", "value", "must"),
    [
        ("enabled", 1, "true or false"),
        ("enabled", "true", "true or false"),
        ("detailed", None, "true or false"),
        ("profile_step", "3", "a whole number, 0 or more"),
        ("profile_step", True, "a whole number, 0 or more"),
        ("profile_step", -1, "a whole number, 0 or more"),
        ("module_depth", -2, "a whole number, -1 or more"),
        ("top_modules", 0, "a whole number, 1 or more"),
        ("top_modules", 1.5, "a whole number, 1 or more"),
        ("recompute_fwd_factor", 2, "a number from 0 to 1"),
        ("output_file", 7, "the name of a file, or null"),
        ("steps", "6-2", "a first and a last step"),
        ("steps", [1], "a first and a last step"),
        ("formats", 3, "a list of names"),
        ("budgets", [1], "a table of names and limits"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_must_be(key, value, must):
    said = complaint({key: value})

    assert said.startswith(f"ds.json, flops_profiler: {key} is ")
    assert must in said


def test_steps_are_repeated_as_they_were_written():
    assert 'steps is "6-2";' in complaint({"steps": "6-2"})


def test_an_unknown_phase_is_answered_with_the_nearest():
    assert "no phase 'backwards'. Did you mean 'backward'?" in complaint({"phases": ["backwards"]})


def test_no_phase_at_all_is_refused():
    assert "phases is empty; name at least one of forward, backward" in complaint({"phases": []})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("bad.json", "{", "is not JSON"),
        ("bad.toml", "a =", "is not TOML"),
        ("list.json", "[1]", "the settings are"),
        ("number.json", '{"flops_profiler": 3}', "the settings are 3, not a table"),
        ("ds.json", '{"train_batch_size": 8}', "holds no settings: it has no block 'flops_profiler'"),
        ("near.json", '{"profile_stp": 8}', "Did you mean 'profile_step'?"),
    ],
)
def test_a_bad_file_is_named_in_one_sentence(tmp_path, name, text, said):
    path = write(tmp_path, name, text)

    with pytest.raises(ConfigError) as problem:
        Settings.read(path)

    assert said in str(problem.value)
    assert name in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="There is no settings file .*nowhere.json"):
        Settings.read(tmp_path / "nowhere.json")


def test_reading_settings_needs_no_torch(tmp_path):
    path = write(tmp_path, "ds.json", PRINTED)
    code = f"import sys; from flopsight.config import Settings; Settings.read({str(path)!r}); sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("b.toml", 'flops = "8.2G"\n'),
        ("b.json", '{"flops": "8.2G"}'),
        ("pyproject.toml", '[tool.flopsight.budgets]\nflops = "8.2G"\n'),
        ("ds.json", '{"flops_profiler": {"enabled": true, "budgets": {"flops": "8.2G"}}}'),
    ],
)
def test_budgets_are_a_file_of_their_own_or_part_of_the_settings(tmp_path, name, text):
    assert read_budgets(write(tmp_path, name, text)) == {"flops": "8.2G"}


@pytest.mark.parametrize(
    ("text", "said"), [("", "holds no budgets"), ("flops = true", "flops is true"), ("[flops]\nmax = 3", "flops is")]
)
def test_a_file_without_usable_budgets_says_so(tmp_path, text, said):
    with pytest.raises(ConfigError, match=said):
        read_budgets(write(tmp_path, "b.toml", text))
