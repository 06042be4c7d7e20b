from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from tallyroll.cli import screen
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import NOW, hour, opened
from tests.harness.redriving import LATE, drain, seal, send


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A pipeline whose windows 06 to 08 of 20 November 2026 stand open, at 08:30."""
    return CommandLine(opened(), monkeypatch, capsys)


@pytest.fixture
def mixed(cli: CommandLine) -> CommandLine:
    """Two late events of the sealed window 06, one that is no JSON, one that nobody delivered."""
    for number in (1, 2):
        send(cli.pipeline, id=f"e{number}", ts=LATE)
    cli.pipeline.queue.send("no JSON")
    drain(cli.pipeline)
    seal(cli.pipeline, hour(6))
    send(cli.pipeline, id="e3", ts=NOW)
    (held,) = cli.pipeline.queue.held()
    held.receives = 1_000
    assert cli.pipeline.queue.deliver(held) is None
    return cli


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own, in which it works."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, lines of progress come only where a test asks for them."""
    monkeypatch.setattr(screen, "FIRST_LINE_S", inf)
