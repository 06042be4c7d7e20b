"""Functions run in processes of their own: their memory is theirs, and they can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def spawned(module: str, environment: Mapping[str, str], *arguments: str) -> subprocess.Popen[str]:
    """A process of this interpreter that runs a module, its output to be read."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
    )


def last_said(process: subprocess.Popen[str]) -> Any:
    """The JSON in a process's last line, when it has ended. Raises RuntimeError if it failed."""
    said, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
    return json.loads(said.splitlines()[-1])
