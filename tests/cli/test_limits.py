"""`advise`, `device NAME` and `--on`, as a user runs them."""

import pytest
from profiles import lenet, stack

from flopsight import cli


@pytest.fixture
def flops(capsys, tmp_path, monkeypatch):
    """Run `flopsight ...` in this process, in a folder with a saved profile and no measured ceilings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLOPSIGHT_CACHE_DIR", str(tmp_path))
    stack().save("p.json")
    lenet().save("cpu.json")

    def run(*argv):
        code = cli.main(list(argv))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_show_on_a_device_that_is_not_here(flops):
    code, out, _ = flops("show", "p.json", "--on", "h100-sxm")

    assert code == 0
    assert "at least 264 us a step on H100 SXM5 80GB, MFU at most 100%, 2.50 GB of 85.9 GB of memory: fits" in out


def test_the_bound_view_of_a_saved_profile(flops):
    code, out, _ = flops("show", "p.json", "-f", "bound", "--width", "160")

    assert code == 0
    assert "bound by" in out
    assert "ceilings: datasheet of H200 SXM5 141GB" in out


def test_on_needs_a_format_that_shows_limits(flops):
    code, _, err = flops("show", "p.json", "-f", "csv", "--on", "h100-sxm")

    assert code == 2
    assert "The format csv shows no limits; --on is for -f tree, -f bound, -o page.html and -o roofline.svg." in err


@pytest.mark.parametrize(
    "command", [("show", "p.json", "--on", "h100"), ("advise", "p.json", "--on", "h100"), ("device", "h100")]
)
def test_an_ambiguous_name_is_refused_with_its_candidates(flops, command):
    code, _, err = flops(*command)

    assert code == 2
    assert "'h100' is ambiguous. Write one of: h100-sxm (H100 SXM5 80GB), h100-pcie" in err


def test_advise_says_that_nothing_was_found_and_against_what(flops):
    code, out, _ = flops("advise", "p.json")

    assert code == 0
    assert out.startswith("Nothing found to change.\nCeilings: datasheet of H200 SXM5 141GB")


def test_advise_says_what_it_lacks_on_a_cpu_that_was_not_measured(flops):
    _, out, _ = flops("advise", "cpu.json")

    assert "Findings that need a limit were left out: no peak of cpu is known" in out


def test_advise_lists_findings_with_evidence_and_next_move(flops, tmp_path):
    flops("profile", "zoo:lenet5", "--meta", "-o", "m.json")
    code, out, _ = flops("advise", "m.json", "--on", "h100-sxm")

    assert code == 0
    first, *_ = out.split("\n\n")
    assert [line[:12].strip() for line in first.splitlines()[1:]] == ["where", "evidence", "to win", "next"]


def test_a_row_of_the_table_needs_no_torch_and_cannot_be_measured_here(flops):
    code, out, _ = flops("device", "h100-sxm")
    assert code == 0
    assert "dense peak" in out

    code, _, err = flops("device", "h100-sxm", "--measure")
    assert code == 2
    assert "--measure and --peak are for a device of this machine" in err


def test_the_processor_says_how_to_measure_it(flops):
    _, out, _ = flops("device", "cpu")

    assert "flopsight device --measure" in out
