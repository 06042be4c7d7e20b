"""Times and windows as people name them: relative to now, and by `current` and `previous`."""

from __future__ import annotations

import pytest

from tallyroll.cli import arguments
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import HOUR, MINUTE, NOW, hour

SNAPPED = (
    "tallyroll: 2026-11-20T07:30:00.000Z is inside a window: its start 2026-11-20T07:00:00.000Z is"
    " taken\n"
)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's clock is the pipeline's."""
    monkeypatch.setattr(arguments, "now_ms", lambda: NOW)


@pytest.fixture
def counted(cli: CommandLine) -> CommandLine:
    """An event at half past seven, and one at half past eight."""
    for hours in range(2):
        cli.pipeline.write({"key": "k", "id": f"e{hours}", "ts": NOW - hours * HOUR})
    return cli


@pytest.mark.parametrize(
    ("since", "events"),
    [("-20m", 1), ("-1h", 2), ("-60m", 2), ("-1d", 2), ("today", 2), ("yesterday", 2)],
)
def test_a_count_since_a_time_relative_to_now(
    counted: CommandLine, since: str, events: int
) -> None:
    answer = counted.run("count", "k", "--since", since, "--json")
    assert (answer.status, answer.json[0]["events"]) == (0, events)
    assert ("is inside a window" in answer.err) is since.startswith("-")


def test_the_bound_that_is_taken_is_told(counted: CommandLine) -> None:
    assert counted.run("count", "k", "--since=-1h").err == SNAPPED
    answer = counted.run("count", "k", "--until", "-1h", "--json")
    assert (answer.json[0]["events"], answer.err) == (0, SNAPPED)
    assert counted.run("count", "k", "--until", "-10m", "--json").json[0]["events"] == 1
    answer = counted.run("windows", "list", "--since", "-1h", "--until", "-0s", "--json")
    assert [window["window"] for window in answer.json] == [hour(7)]


def test_a_time_that_is_not_relative_must_be_a_bound(counted: CommandLine) -> None:
    answer = counted.run("count", "k", "--since", "2026-11-20T07:30Z")
    assert (answer.status, answer.out) == (2, "")
    assert "the nearest bound" in answer.err


def test_opening_yesterday(cli: CommandLine) -> None:
    answer = cli.run("windows", "open", "--since", "yesterday", "--until", "today", "--json")
    assert len(answer.json) == 24
    assert answer.json[0]["window"] == "20261119T000000Z"


def test_an_event_of_a_while_ago(counted: CommandLine) -> None:
    assert counted.run("event", "k", "e1", "--ts", "-1h").status == 0
    assert counted.run("event", "k", "e1", "--ts", "-2h").status == 3
    assert counted.run("send", "--key", "k", "--id", "e9", "--ts", "-30m").status == 0
    assert f'"ts": {NOW - 30 * MINUTE}' in counted.producer.bodies[-1].replace('":', '": ')


@pytest.mark.parametrize("text", ["-", "-1", "-1x", "--until", "tomorrow", "now", "-1.5h"])
def test_what_is_no_time(cli: CommandLine, text: str) -> None:
    answer = cli.run("count", "k", "--since", text)
    assert (answer.status, answer.out) == (2, "")
    assert f"time {text!r}: give 2026-11-20T08:00:00Z" in answer.err
    assert "or -1h, today, yesterday" in answer.err


@pytest.mark.parametrize("text", ["2026-11-20", "2026-11-20T00:00", "20261120"])
def test_a_time_without_a_zone_is_named_as_utc(counted: CommandLine, text: str) -> None:
    answer = counted.run("windows", "list", "--since", text)
    if text.isdigit():  # that is ms
        assert answer.err == ""
    else:
        assert answer.err == (
            f"tallyroll: {text} has no zone: read as 2026-11-20T00:00:00.000Z (UTC)\n"
        )
    for zoned in ("2026-11-20T00:00Z", "2026-11-20T01:00+01:00", "20261120T000000Z"):
        assert counted.run("windows", "list", "--since", zoned).err == ""


def test_the_current_window_and_the_one_before(counted: CommandLine) -> None:
    for name, event in (("current", "e0"), ("previous", "e1")):
        assert counted.run("event", "k", event, "--window", name).status == 0
        answer = counted.run("events", "k", "--window", name, "--json")
        assert [found["id"] for found in answer.json] == [event]
    assert counted.run("top", "--window", "previous", "--json").json[0]["window"] == hour(7)


def test_a_redrive_into_the_window_before(mixed: CommandLine) -> None:
    answer = mixed.run("dlq", "redrive", "--reason", "too-late", "--to", "previous", "--yes")
    assert answer.status == 0
    assert hour(7) in answer.out


def test_an_archive_of_the_window_before(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYROLL_BUCKET", "memory")
    answer = cli.run("archive", "read", "previous")
    assert answer.status == 3
    assert f"/{hour(7)}/" in answer.err


def test_a_window_that_is_no_windows_name(cli: CommandLine) -> None:
    answer = cli.run("top", "--window", "last")
    assert answer.status == 2
    assert "an id looks like 20261120T080000Z; or give current or previous" in answer.err
    cli.pipeline.catalog.__init__()  # type: ignore[misc]
    answer = cli.run("top", "--window", "current")
    assert answer.status == 3
    assert "its roller has not run yet" in answer.err
    assert cli.run("count", "k", "--since", "-1h").err != SNAPPED
