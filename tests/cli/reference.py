"""The help of every command: `docs/cli-help.md`.

    python -m tests.cli.reference

writes it anew.
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from tallyroll.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "cli-help.md"
COMMANDS = (
    "",
    "send",
    "load",
    "count",
    "console",
    "status",
    "event",
    "events",
    "top",
    "retract",
    "windows",
    "windows list",
    "windows open",
    "windows warm",
    "windows recompute",
    "keys",
    "keys split",
    "keys merge",
    "keys list",
    "dlq",
    "dlq list",
    "dlq show",
    "dlq find",
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
    "archive compact",
    "archive sql",
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
_TOP = """# Help of every command

What the option `--help` prints. [Command line](cli.md) says which command does what.
`python -m tests.cli.reference` writes this page.
"""


def help_text(command: str, columns: int = 200) -> str:
    """What `tallyroll COMMAND --help` prints in a wide terminal, without colour."""
    with (
        redirect_stdout(io.StringIO()) as out,
        patch.dict("os.environ", {"COLUMNS": str(columns), "NO_COLOR": "1"}),
    ):
        assert main([*command.split(), "--help"]) == 0
    return out.getvalue()


def page() -> str:
    """The page as it should be."""
    helps = (
        f"\n## {f'tallyroll {command}'.strip()}\n\n```text\n{help_text(command)}```\n"
        for command in COMMANDS
    )
    return _TOP + "".join(helps)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
