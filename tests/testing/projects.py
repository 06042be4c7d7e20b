"""Projects of users: files in a folder of their own, on which pytest runs in a bare environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

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
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *asked, *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def passes(done: subprocess.CompletedProcess[str], number: int) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{number} passed" in done.stdout
