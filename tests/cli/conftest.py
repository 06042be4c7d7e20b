from __future__ import annotations

from math import inf

import pytest

from tallyroll.cli import screen
from tests.cli.desk import Desk
from tests.harness.pipeline import NOW, hour, opened
from tests.harness.redriving import LATE, drain, seal, send


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A desk before a pipeline whose windows 06 to 08 of 20 November 2026 stand open, at 08:30."""
    return Desk(opened(), monkeypatch, capsys)


@pytest.fixture
def mixed(desk: Desk) -> Desk:
    """Two late events of the sealed window 06, one that is no JSON, one that nobody delivered."""
    for number in (1, 2):
        send(desk.pipeline, id=f"e{number}", ts=LATE)
    desk.pipeline.queue.send("no JSON")
    drain(desk.pipeline)
    seal(desk.pipeline, hour(6))
    send(desk.pipeline, id="e3", ts=NOW)
    (held,) = desk.pipeline.queue.held()
    held.receives = 1_000
    assert desk.pipeline.queue.deliver(held) is None
    return desk


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, lines of progress come only where a test asks for them."""
    monkeypatch.setattr(screen, "FIRST_LINE_S", inf)
