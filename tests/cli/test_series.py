"""`tallyroll series` shows a key's counts by steps, as a table, a chart or JSON."""

from __future__ import annotations

from typing import Any

import pytest

from tallyroll.errors import Throttled
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import HOUR, NOW, WINDOW


@pytest.fixture
def written(cli: CommandLine) -> CommandLine:
    """A pipeline with one event of k in window 07, and four in window 08."""
    cli.pipeline.write({"key": "k", "id": "e", "ts": NOW - HOUR, "value": 2.5})
    cli.pipeline.write(*({"key": "k", "id": f"e{n}", "ts": NOW} for n in range(4)))
    return cli


def test_a_table(written: CommandLine) -> None:
    answer = written.run("series", "k", "--since", "20261120T060000Z")
    assert answer.status == 0
    assert answer.row("hour", "events", "sum")
    assert answer.row("2026-11-20T06:00:00+00:00", "0", "0")
    assert answer.row("2026-11-20T07:00:00+00:00", "1", "2.5")
    assert answer.row("2026-11-20T08:00:00+00:00", "4", "4")
    assert "k: 5 events in 3 hours of UTC" in answer.err


def test_a_chart_of_a_zone(written: CommandLine) -> None:
    zone = ("--since", "20261120T060000Z", "--tz", "America/New_York")
    answer = written.run("series", "k", *zone, "--chart")
    assert answer.row("2026-11-20T02:00:00-05:00", "1", "2.5", "█" * 6)
    assert answer.row("2026-11-20T03:00:00-05:00", "4", "4", "█" * 24)
    days = written.run("series", "k", *zone, "--step", "day")
    assert days.row("2026-11-20T01:00:00-05:00", "5", "6.5")
    assert "k: 5 events in 1 day of America/New_York" in days.err


def test_json(written: CommandLine) -> None:
    (found,) = written.run("--json", "series", "k", "--since", WINDOW).json
    assert found["points"] == [{"start": "2026-11-20T08:00:00+00:00", "events": 4, "sum": "4"}]
    assert (found["tz"], found["events"]) == ("UTC", 4)


def test_minutes(written: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyroll.cli.arguments.now_ms", lambda: NOW + 1_500)
    answer = written.run("series", "k", "--step", "minute", "--since", "-2m", "--chart")
    assert answer.row("minute", "events")
    assert answer.row("2026-11-20T08:28:00+00:00", "0")
    assert answer.row("2026-11-20T08:30:00+00:00", "4", "█" * 24)
    assert "k: 4 events in 3 minutes of UTC" in answer.err
    (found,) = written.run("--json", "series", "k", "--step", "minute").json
    assert (found["events"], found["step"], len(found["points"])) == (5, "minute", 151)


def test_minutes_that_could_not_be_read(
    written: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise Throttled("BatchGetItem: slow down")

    monkeypatch.setattr(written.pipeline.store, "tallies", refuse)
    answer = written.run("series", "k", "--step", "minute", "--since", WINDOW)
    assert answer.status == 1
    assert f"could not read {WINDOW}: BatchGetItem: slow down" in answer.err
    assert answer.row("2026-11-20T08:30:00+00:00", "0", "not", "read")


def test_what_could_not_be_read(written: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise Throttled("BatchGetItem: slow down")

    monkeypatch.setattr(written.pipeline.store, "tallies", refuse)
    answer = written.run("series", "k", "--since", WINDOW)
    assert answer.status == 1
    assert f"could not read {WINDOW}" in answer.err
    assert answer.row("2026-11-20T08:00:00+00:00", "0", "0", "not", "all", "could", "be", "read")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--tz", "Europe/Berlln"), "Europe/Berlin is one"),
        (("--tz", "Asia/Kathmandu"), "inside the window"),
        (("--step", "year"), "year"),
        (("--since", "2026-11-20T08:30Z"), "lies inside a window"),
        (("--step", "minute", "--since", "2026-11-20T08:30:01Z"), "must be a whole minute"),
    ],
)
def test_wrong_use(written: CommandLine, argv: tuple[str, ...], said: str) -> None:
    answer = written.run("series", "k", *argv)
    assert answer.status == 2
    assert said in answer.err
