"""Projects of users: files in a folder of their own, on which pytest runs in a bare environment, or
in this process, which costs less.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.harness.processes import ran

PLUGIN = "tallyroll.testing.plugin"
_HIDDEN = ("AWS_", "PYTEST", "COV_", "TALLYROLL")


def run_project(
    folder: Path, files: Mapping[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    """Write the files by their names, and run pytest there with these options."""
    for name, text in files.items():
        (folder / name).write_text(text)
    installed = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
    asked = [] if installed else ["-p", PLUGIN]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_HIDDEN)}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(folder), *(entry for entry in sys.path if entry)]),
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    return ran(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *asked, *options],
        cwd=folder,
        env=environment,
        timeout=600,
    )


class Outcomes:
    """How the tests of a run in this process ended: `passed` by name, `failed` with what was said.

    It is a plugin of that run.
    """

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = report.longreprtext
        elif report.when == "call":
            self.passed.append(report.nodeid.rpartition("::")[2])


def run_here(
    folder: Path, files: Mapping[str, str], patch: pytest.MonkeyPatch, *options: str
) -> Outcomes:
    """Write the files by their names, and run pytest on them in this process, with no plugins but
    pytest's own and the package's.
    """
    for name, text in files.items():
        (folder / name).write_text(text)
    outcomes, before = Outcomes(), {*sys.modules}
    left_out = [f"-pno:{name}" for name in ("cacheprovider", "faulthandler", "terminal")]
    with patch.context() as run:
        run.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        run.delenv("PYTEST_ADDOPTS", raising=False)
        pytest.main(
            [str(folder), f"-p{PLUGIN}", *left_out, "-s", "--import-mode=importlib", *options],
            plugins=[outcomes],
        )
    for name in {Path(name).stem for name in files} & (sys.modules.keys() - before):
        del sys.modules[name]
    return outcomes


def passes(done: subprocess.CompletedProcess[str], number: int) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{number} passed" in done.stdout
