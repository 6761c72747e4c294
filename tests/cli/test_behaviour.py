"""What a user may meet on the way: libraries that are missing, files that cannot be drawn, words that do not fit."""

import gc
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import typer.main
from profiles import lenet, stack

import flopsight
from flopsight import cli
from flopsight.analysis.tables import SORTS
from flopsight.cli.app import GROUPS, app
from flopsight.cli.completion import complete_format
from flopsight.render.formats import find_printed
from flopsight.results.timings import Stat, Timing


@pytest.fixture(name="flops")
def _flops(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stack().save("p.json")
    lenet().save("cpu.json")

    def run(*argv):
        code = cli.main(list(argv))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_a_library_that_lacks_another_is_said_so(flops, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "timm").mkdir()
    (tmp_path / "timm" / "__init__.py").write_text("import not_installed_here.ops\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("flopsight.targets.early_checks.check_target", lambda _address, _specs: None)
    code, _, err = flops("profile", "timm:resnet18")

    assert code == 2
    assert (
        "timm needs not_installed_here, which is not installed here. Install it: pip install not_installed_here" in err
    )


def test_all_files_are_written_or_none(flops, tmp_path):
    code, _, err = flops("show", "cpu.json", "-o", "cpu.md", "-o", "cpu.trace.json", "-o", "page.html")

    assert code == 2
    assert "timeline" in err
    assert {path.name for path in tmp_path.iterdir()} == {"p.json", "cpu.json"}


def test_the_garbage_of_the_process_is_collected_at_its_end(flops):
    """Modules that are frozen when Python ends are never freed, of which triton's bindings complain in thirty lines."""
    frozen = gc.get_freeze_count()

    code, _, err = flops("profile", "zoo:lenet5", "--meta")

    assert code == 0, err
    assert gc.get_freeze_count() == frozen
    assert gc.isenabled()


WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
import torch, flopsight
s = flopsight.sweep(lambda width: (torch.nn.Linear(8, width), torch.ones(4, 8)), {{"width": [2, 4]}})
print(s)
try:
    s.to_frame()
except flopsight.errors.FlopsightError as problem:
    print(problem)
"""


def test_a_sweep_needs_neither_numpy_nor_pandas():
    script = WITHOUT.format(missing=["numpy", "pandas"])
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    rows = [line.split()[:4] for line in done.stdout.splitlines()[2:4]]
    assert rows == [[f"{n}" for n in (w, 9 * w, 4 * 8 * w, 2 * 4 * 8 * w + 4 * w)] for w in (2, 4)]
    assert "to_frame() needs pandas, which is not installed: pip install pandas." in done.stdout


def test_check_reads_the_budgets_of_the_project(flops, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.flopsight.budgets]\nparams = "1k"\n')
    code, out, err = flops("check", "cpu.json")

    assert code == 1
    assert "FAILED  params is" in out
    assert "breaks 1 of 1 budgets in pyproject.toml" in err


@pytest.mark.parametrize("text", [None, "[tool.flopsight]\nstrict = true\n", "[project]\nname = 'x'\n"])
def test_check_without_budgets_says_where_they_go(flops, tmp_path, text):
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    code, _, err = flops("check", "cpu.json")

    assert code == 2
    assert "pyproject.toml" in err
    assert "budgets" in err


def test_names_are_escaped_once_in_a_table_of_several(flops, tmp_path):
    stack().save(tmp_path / "a_b|c.json")
    code, out, _ = flops("show", "a_b|c.json", "p.json", "-f", "markdown")

    assert code == 0
    assert r"| a\_b\|c |" in out
    assert r"\\" not in out


def test_a_shell_is_offered_formats_that_can_be_printed():
    offered = complete_format("")

    assert "tree" in offered
    for name in offered:
        find_printed(name)


def test_an_option_that_a_format_does_not_have_is_refused_by_its_own_name(flops):
    code, _, err = flops("show", "p.json", "--sort", "flops")
    assert code == 2
    assert "--sort is not for -f tree; it is for -f table." in err

    code, _, err = flops("show", "p.json", "-f", "csv", "--depth", "1")
    assert code == 2
    assert "--depth is not for -f csv; it is for -f tree, -f table, -f bound," in err
    assert "max_rows" not in err


def test_the_help_names_every_order_that_there_is():
    show = typer.main.get_command(app).commands["show"]
    text = next(parameter.help for parameter in show.params if "--sort" in parameter.opts)

    assert set(text.partition(": ")[2].rstrip(".").split(", ")) == {*SORTS, "model"}


def test_a_shape_for_arguments_is_answered_with_a_hint():
    for measure in (flopsight.count, flopsight.profile):
        with pytest.raises(TypeError) as caught:
            measure(torch.nn.Conv2d(3, 8, 3), (1, 3, 8, 8))
        assert "write input_shape=(1, 3, 8, 8)." in caught.value.__notes__[0]


def test_whole_numbers_that_a_model_takes_are_arguments():
    class Made(torch.nn.Module):
        def forward(self, rows, columns):
            return torch.ones(rows, columns) * 2

    assert flopsight.count(Made(), (2, 3)).flops == 6


def test_with_a_stated_peak_it_is_the_memory_that_is_not_known(flops, monkeypatch):
    monkeypatch.setenv("FLOPSIGHT_PEAK_FLOPS", "fp32=1e12")
    code, out, _ = flops("profile", "zoo:lenet5", "-i", "4x1x32x32", "--repeats", "1", "--warmup", "0", "--depth", "0")

    assert code == 0
    limit = next(line for line in out.splitlines() if line.startswith("limit"))
    assert "MFU" in out
    assert "no peak" not in out
    assert "how fast the memory of" in limit


def timed_on_a_cpu():
    found = lenet()
    return replace(
        found,
        root=replace(found.root, latency=2.0),
        timing=Timing(forward=Stat((2.0,))),
        environment=replace(found.environment, device="cpu", device_name="Some CPU"),
    )


def test_the_times_of_another_device_are_said_to_be_so(flops):
    timed_on_a_cpu().save("timed.json")
    for more in ((), ("-f", "bound")):
        _, out, _ = flops("show", "timed.json", "--on", "h100-sxm", *more)
        assert "(for H100 SXM5 80GB, timed on Some CPU," in out
    _, out, _ = flops("show", "timed.json", "--on", "h100-sxm")
    assert "latency: as measured on Some CPU, not on H100 SXM5 80GB" in out
    flops("show", "timed.json", "--on", "h100-sxm", "-o", "page.html")
    assert "for H100 SXM5 80GB, timed on Some CPU," in Path("page.html").read_text(encoding="utf-8")


def test_the_head_says_what_products_run_in_under_autocast():
    model, rows = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), torch.ones(4, 8)
    plain = flopsight.count(model, (rows,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = flopsight.count(model, (rows,))

    assert ", float32, batch 4" in str(plain)
    assert ", float32 with products in bfloat16, batch 4" in str(mixed)


def test_every_option_of_profile_is_listed_in_one_group_of_its_help(capsys):
    command = typer.main.get_command(app).commands["profile"]
    options = {param.name for param in command.params if param.param_type_name == "option"}
    listed = [name for names in GROUPS.values() for name in names.split()]

    assert sorted(listed) == sorted(options)
    assert cli.main(["profile", "--help"]) == 0
    said = capsys.readouterr().out
    places = [said.index(f"{title}:") for title in ("Arguments", *GROUPS, "Beside these")]
    assert places == sorted(places)
    assert all(said.count(f"--{name.replace('_', '-')} ") for name in listed)
