from __future__ import annotations

from typing import Any

import pytest

from tallyroll.errors import Refused
from tallyroll.model.states import Status
from tallyroll.ports.queue import Backlog
from tests.cli.command_line import CommandLine, NoMetrics
from tests.harness.pipeline import MINUTE, NOW, hour

AT = "2026-11-20T08:30:00.000Z"


def rows(out: str) -> dict[str, str]:
    """The table's rows: name to text."""
    return {line[:18].strip(): line[18:].strip() for line in out.splitlines()[2:]}


def test_all_is_counted(mixed: CommandLine) -> None:
    answer = mixed.run("status")
    assert (answer.status, answer.err) == (0, "")
    assert rows(answer.out) == {
        "as of": AT,
        "waiting": "0 messages, 0 in flight",
        "all counted up to": "2026-11-20T08:29:00.000Z",
        "current window": f"{hour(8)}, open: takes events until 2026-11-20T10:00:00.000Z",
        "dead letters": "4",
    }
    (told,) = mixed.run("status", "--json").json
    assert told == {
        "pipeline": "tallyroll",
        "as_of": AT,
        "queue": {"visible": 0, "in_flight": 0, "delayed": 0},
        "counted_up_to": "2026-11-20T08:29:00.000Z",
        "window": {"window": hour(8), "state": "open", "takes_events": True},
        "dead_letters": 4,
    }


def test_events_that_wait(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def backlog(since: int) -> Backlog:
        return Backlog(2, 1, 1, ((NOW - MINUTE, 9 * MINUTE),))

    monkeypatch.setattr(cli.pipeline.queue, "backlog", backlog)
    monkeypatch.setattr(
        NoMetrics, "counted", staticmethod(lambda since: ((NOW - 2 * MINUTE, 3_000),))
    )
    found = rows(cli.run("status").out)
    assert found["waiting"] == "2 messages, 1 in flight, 1 delayed"
    assert found["oldest waiting"] == "sent 2026-11-20T08:20:00.000Z, 10 min ago"
    assert found["all counted up to"] == "2026-11-20T08:20:00.000Z"
    assert found["rate"] == "10.0 events/s, over 5 min"
    (told,) = cli.run("status", "--json").json
    assert (told["oldest_sent"], told["rate"]) == ("2026-11-20T08:20:00.000Z", 10.0)


def test_a_window_that_takes_nothing_is_said(cli: CommandLine) -> None:
    cli.pipeline.move(Status.CLOSING, hour(8))
    found = rows(cli.run("status").out)
    assert found["current window"] == f"{hour(8)}, closing: its events are rejected"
    del cli.pipeline.catalog._windows[hour(8)]
    assert "does the roller run?" in rows(cli.run("status").out)["current window"]


def test_a_queue_that_may_not_be_read_is_not_known(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> Any:
        raise Refused("GetQueueAttributes: AccessDenied", "AccessDenied")

    monkeypatch.setattr(cli.dead_letters_queue, "backlog", denied)
    answer = cli.run("status")
    assert answer.status == 0
    assert answer.err == "tallyroll: not known: dead letters: GetQueueAttributes: AccessDenied\n"
    assert rows(answer.out)["dead letters"] == "not known"


def test_what_is_not_known_is_said(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(since: int) -> Any:
        raise Refused("GetMetricStatistics: AccessDenied", "AccessDenied")

    monkeypatch.setattr(NoMetrics, "counted", staticmethod(denied))
    cli.pipeline.queue.send('{"key": "k"}')
    answer = cli.run("status")
    assert (answer.status, answer.err) == (
        0,
        "tallyroll: not known: events a second: GetMetricStatistics: AccessDenied\n",
    )
    assert rows(answer.out)["all counted up to"] == "not known"


def test_a_count_says_that_events_wait(cli: CommandLine) -> None:
    cli.pipeline.write({"key": "k", "id": "a"})
    assert cli.run("count", "k").err == ""
    cli.pipeline.queue.send('{"key": "k", "id": "b"}')
    for argv in (("count", "k"), ("count", "k", "--json")):
        answer = cli.run(*argv)
        assert answer.status == 0
        assert answer.err == (
            "tallyroll: 1 message in the queue: their events may be missing from this count"
            " (tallyroll status)\n"
        )


def test_a_count_needs_no_queue(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Backlog:
        raise Refused("GetQueueAttributes: AccessDenied", "AccessDenied")

    monkeypatch.setattr(cli.pipeline.queue, "counts", refuse)
    answer = cli.run("count", "k")
    assert (answer.status, answer.err) == (0, "")
    assert cli.run("--name", "other", "count", "k").status == 0
