"""The tests and the doctor on one release of torch, in a process of their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fetch import environment, fetched, python_version

ROOT = Path(__file__).resolve().parents[3]
MATRIX_TESTS = (
    "formulas", "capture", "engine", "training", "compat", "no_trace", "agreement", "loop", "zoo", "doctor",
    "analysis", "cli", "config", "files", "hardware", "progress", "render", "units",
)  # fmt: skip
"""What every row of the matrix runs: not the examples in the docs and model targets, which are slow."""
PROCESS_TESTS = ("distributed", "script")
"""What starts processes of its own, which is slow too: some rows run these as well."""
LANE_TESTS = ("formulas", "capture", "compat", "no_trace/test_order.py", "doctor")
"""What the lane runs, so that two releases and their downloads fit into its time."""


@dataclass(frozen=True)
class Outcome:
    """How the tests went on a release."""

    release: str
    python: str
    passed: int
    failed: tuple[str, ...]
    skipped: int
    crash: str
    """The signal that ended the interpreter, or an empty text."""
    doctor: str
    """fine, or the names of the checks that failed."""
    seconds: int

    @property
    def fine(self) -> bool:
        """Whether everything passed and nothing crashed."""
        return bool(self.passed) and not self.failed and not self.crash and self.doctor == "fine"


def tried(
    release: str, tests: tuple[str, ...] = MATRIX_TESTS, python: str = sys.executable, limit: int = 3600
) -> Outcome:
    """Run the tests and the doctor on a release; temporary files stand apart, so that several may run at once."""
    home = fetched(release, python)
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        variables = environment(home, ROOT / "src") | {"TMPDIR": folder, "HYPOTHESIS_STORAGE_DIRECTORY": folder}
        report = Path(folder) / "report.xml"
        command = [python, "-X", "faulthandler", "-m", "pytest", "-p", "no:cacheprovider", "--tb=short",
                   f"--junitxml={report}", *(f"tests/{name}" for name in tests)]  # fmt: skip
        log = home / "tests.log"
        try:
            with log.open("w") as out:
                code = subprocess.run(
                    command, cwd=ROOT, env=variables, stdout=out, stderr=out, timeout=limit
                ).returncode
        except subprocess.TimeoutExpired:
            code = 0
        text = report.read_text() if report.exists() else ""
        doctor = asked_doctor(python, variables)
    passed, failed, skipped = read_report(text)
    if not text and code >= 0:
        failed = (f"the tests did not end, see {log}",)
    crash = f"signal {-code}" if code < 0 else ""
    seconds = round(time.monotonic() - began)
    return Outcome(release, python_version(python), passed, failed, skipped, crash, doctor, seconds)


def read_report(text: str) -> tuple[int, tuple[str, ...], int]:
    """Passed tests, names of failed ones, and skipped ones in pytest's report."""
    cases = re.findall(r'<testcase classname="([^"]*)" name="([^"]*)"[^>]*?(?:/>|>(.*?)</testcase>)', text, re.DOTALL)
    failed = tuple(
        dict.fromkeys(f"{home}::{name}" for home, name, inside in cases if re.search(r"<(failure|error)\b", inside))
    )
    skipped = sum("<skipped" in inside for _, _, inside in cases)
    names = {f"{home}::{name}" for home, name, _ in cases}
    return len(names) - len(failed) - skipped, failed, skipped


def asked_doctor(python: str, variables: dict[str, str]) -> str:
    """What `flopsight doctor` says on that release."""
    done = subprocess.run(
        [python, "-m", "flopsight", "doctor", "--json"], cwd=ROOT, env=variables, capture_output=True, text=True
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return f"no report, exit code {done.returncode}"
    return "fine" if report["fine"] else ", ".join(check["name"] for check in report["checks"] if not check["fine"])
