"""The command's help as docs/cli.md shows it.

    python -m tests.cli.reference

writes it there anew, between the markers.
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from tallyroll.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
COMMANDS = (
    "",
    "send",
    "load",
    "count",
    "status",
    "event",
    "events",
    "top",
    "windows",
    "windows list",
    "windows open",
    "dlq",
    "dlq list",
    "dlq show",
    "dlq redrive",
    "dlq save",
    "dlq delete",
    "archive",
    "archive list",
    "archive verify",
    "archive copy",
    "archive read",
    "archive restore",
    "archive explain",
    "doctor",
    "preflight",
    "conform",
    "probe",
    "teardown",
    "validate",
    "schema",
    "plan",
    "simulate",
    "completion",
    "version",
)
_BLOCK = re.compile(r"(<!-- help: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def help_text(command: str, columns: int = 200) -> str:
    """What `tallyroll COMMAND --help` prints in a wide terminal, without colour."""
    with (
        redirect_stdout(io.StringIO()) as out,
        patch.dict("os.environ", {"COLUMNS": str(columns), "NO_COLOR": "1"}),
    ):
        assert main([*command.split(), "--help"]) == 0
    return out.getvalue()


def filled(page: str) -> str:
    """The page with the help as it is now; its markers say `<!-- help: tallyroll send -->`."""

    def fill(block: re.Match[str]) -> str:
        command = block[2].removeprefix("tallyroll").strip()
        return f"{block[1]}\n```text\n{help_text(command)}```\n\n{block[3]}"

    return _BLOCK.sub(fill, page)


def shown(page: str) -> list[str]:
    """The commands whose help a page shows."""
    return [block[2] for block in _BLOCK.finditer(page)]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
