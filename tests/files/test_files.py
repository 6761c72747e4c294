"""A file is written whole or not at all, and only files are read and written."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from profiles import lenet

from flopsight.errors import FlopsightError, OutputError
from flopsight.files import whole_files


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "p.json"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OutputError, match="p.json cannot be written: No space left on device"):
        whole_files.write_text(path, "new")

    assert path.read_text() == "old"
    assert [child.name for child in tmp_path.iterdir()] == ["p.json"]


KILLED = """
import os, sys
from pathlib import Path
from flopsight.files import whole_files
Path.replace = lambda *_: os.kill(os.getpid(), 9)
whole_files.write_text(sys.argv[1], "new" * 100_000)
"""


def test_a_process_that_is_killed_while_it_writes_leaves_the_old_file(tmp_path):
    path = tmp_path / "p.json"
    path.write_text("old")

    done = subprocess.run([sys.executable, "-c", KILLED, path])

    assert done.returncode == -9
    assert path.read_text() == "old"


def test_a_link_stays_a_link_and_permissions_stay(tmp_path):
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)

    whole_files.write_text(link, "new")

    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_new_file_has_the_permissions_that_any_new_file_has(tmp_path):
    (tmp_path / "plain").write_text("x")

    whole_files.write_text(tmp_path / "deep" / "ours", "x")

    assert (tmp_path / "deep" / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("make", ["pipe", "folder", "under a file"])
def test_what_is_no_file_is_refused_in_one_sentence(tmp_path, make):
    path = tmp_path / "p.json"
    if make == "pipe":
        os.mkfifo(path)
    elif make == "folder":
        path.mkdir()
    else:
        path.write_text("x")
        path = path / "q.json"

    for write in (lambda: whole_files.write_text(path, "x"), lambda: lenet().save(path), lambda: lenet().to_html(path)):
        with pytest.raises(FlopsightError, match="cannot be written: "):
            write()
    with pytest.raises(FlopsightError, match="cannot be written: "):
        whole_files.check_writable(path)


def test_devices_take_text_as_it_comes():
    whole_files.check_writable("/dev/null")

    whole_files.write_text("/dev/null", "x")

    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode), "it is still the device"
    with pytest.raises(OutputError, match="No space left on device"):
        whole_files.write_text("/dev/full", "x" * 100_000)


def test_the_standard_output_by_its_name_is_written_and_stays(tmp_path):
    code = "from flopsight.files import whole_files; print('a', flush=True); whole_files.write_text('/dev/stdout', 'b\\n'); print('c')"

    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert piped.stdout == "a\nb\nc\n"


def test_a_link_that_leads_to_itself_stays_and_the_write_is_refused(tmp_path):
    link = tmp_path / "p.json"
    link.symlink_to(link)

    with pytest.raises(OutputError, match="p.json cannot be written: it is a link that leads to itself"):
        whole_files.write_text(link, "new")

    assert link.is_symlink()


def test_a_name_that_no_file_can_have_is_one_sentence(tmp_path):
    with pytest.raises(OutputError, match="cannot be written: .*embedded null"):
        whole_files.write_text(f"{tmp_path}/a\0b", "new")
