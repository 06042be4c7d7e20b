"""Programs that tests run to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

TAKES_S = 600.0


def ran(
    command: Sequence[str], *, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Status and output of a program. The options are those of `subprocess.run`."""
    options.setdefault("timeout", TAKES_S)
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, check=check, capture_output=True, text=True, **options
    )
    return done
