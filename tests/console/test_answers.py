"""The console's answers: their numbers are the commands'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

from tallyroll.errors import StoreError
from tallyroll.model.states import Status
from tallyroll.model.windows import window_start
from tallyroll.ports.gauges import Gauge
from tallyroll.ports.stack import AlarmCard
from tests.cli.command_line import CommandLine
from tests.console.asking import Asked, Clock, api
from tests.harness.doctoring import FakeStack, first, grown
from tests.harness.pipeline import MINUTE, WINDOW

HOSTILE = ("<img src=x onerror=alert(1)>", "\u202eabc", " ", "a&key=b#c", "%00+;")


def test_counts_are_those_of_the_command(ask: Callable[..., Asked], cli: CommandLine) -> None:
    for key, events in (("Ada", 30), *((key, 5) for key in HOSTILE)):
        cli.pipeline.write(*({"key": key, "id": f"{number}"} for number in range(events)))
    board = ask(api("tonight", key=["k1", *HOSTILE])).json
    assert "counts" in board, board
    said = {one["key"]: one for one in board["counts"]}
    wanted = {
        one["key"]: one for one in cli.run("--json", "count", "Ada", "k0", "k1", *HOSTILE).json
    }
    assert said.keys() >= wanted.keys()
    for key, count in wanted.items():
        assert (said[key]["events"], said[key]["sum"]) == (count["events"], count["sum"]), key
    [total] = cli.run("--json", "count", "--all").json
    assert board["ranking"]["events"] == total["events"]
    assert board["complete"]
    assert board["ranking"]["complete"]
    assert board["missing"] == {}
    assert sum(events for _, events in said["k1"]["parts"]) == said["k1"]["events"]


def test_a_key_is_found_with_what_holds_it(ask: Callable[..., Asked], cli: CommandLine) -> None:
    found = ask(api("find", key="k1")).json
    [count] = cli.run("--json", "count", "k1").json
    assert found["count"] == count
    dropped = next(one for one in found["places"] if one["state"] == Status.DROPPED)
    assert dropped["table"] is None
    assert dropped["archive"] == cli.pipeline.state(dropped["window"]).attempt.archive
    assert found["places"] == cli.run("--json", "count", "k1", "--where").json[1:]
    assert dropped["archive"] in cli.run("count", "k1", "--where").out


def test_a_key_is_found_in_windows_that_are_rolled_up(
    ask: Callable[..., Asked], cli: CommandLine
) -> None:
    grown(60, cli.pipeline)
    found = ask(api("find", key="k1")).json
    assert found["count"]["rolled_up"]
    counts = cli.pipeline.reader().count("k1", by_window=True).windows
    held = [(one.window, one.events) for one in counts if one.events][-50:]
    assert len(held) == 50
    assert [(one["window"], one["events"]) for one in found["places"]] == held


def test_an_event_is_found_with_its_record(ask: Callable[..., Asked], cli: CommandLine) -> None:
    cli.pipeline.write({"key": "Ada", "id": "ballot-7", "value": 2.5})
    [match] = ask(api("find", key="Ada", id="ballot-7", date="2026-11-20")).json["matches"]
    [event] = cli.run("--json", "event", "Ada", "ballot-7", "--window", WINDOW).json
    assert event.items() <= match.items()
    spec = cli.pipeline.spec()
    assert (match["record"], match["shard"]) == ("ballot-7", spec.shard("Ada", "ballot-7"))
    assert ask(api("find", key="Ada", id="none", window=WINDOW)).status == 404
    gone = ask(api("find", key="k1", id="none", window="20261120T000000Z"))
    assert (gone.status, gone.json["archive"][:8]) == (410, "archive/")


def test_letters_are_found_by_reason_and_text(ask: Callable[..., Asked], cli: CommandLine) -> None:
    cli.pipeline.write({"key": "", "id": "forged-ballot"}, "no JSON at all")
    found = ask(api("letters", text="FORGED")).json
    assert [one["reason"] for one in found["letters"]] == ["bad-key"]
    assert found["groups"] == cli.run("--json", "dlq", "list").json
    assert [one["letter"] for one in cli.run("--json", "dlq", "find", "FORGED").json] == [
        one["letter"] for one in found["letters"]
    ]
    assert len(ask(api("letters", reason="not-json")).json["letters"]) == 1


def test_what_others_show_is_kept_a_while(
    ask: Callable[..., Asked], cli: CommandLine, clock: Clock
) -> None:
    assert ask("/api/health").json["status"]["queue"]["visible"] == 0
    cli.pipeline.queue.send("one more")
    clock.ms += 14_999
    assert ask("/api/health").json["status"]["queue"]["visible"] == 0
    clock.ms += 1
    said = ask("/api/health").json
    [status] = cli.run("--json", "status").json
    assert said["status"]["queue"] == status["queue"]
    assert status["queue"]["visible"] == 1


def test_metrics_alarms_and_shape_are_those_of_the_command(
    ask: Callable[..., Asked], cli: CommandLine
) -> None:
    cli.gauges.values = {Gauge.THROTTLED: [0, 7, 2], Gauge.BATCHES: StoreError("denied", "Denied")}
    cli.stack = FakeStack(alarming=[AlarmCard("votes-dead-letters", True, [], "ALARM", "wait")])
    said = ask("/api/health").json
    [status] = cli.run("--json", "status", "--more").json
    assert {name: said[name] for name in ("gauges", "alarms", "shape")} == {
        name: status[name] for name in ("gauges", "alarms", "shape")
    }
    assert said["gauges"]["throttled writes"] == [[0, 0], [1, 7], [2, 2]]
    words = cli.run("status", "--more")
    assert words.row("throttled", "writes", "9", "7", "2")
    assert words.row("votes-dead-letters", "ALARM")
    assert "not known: batches: denied" in words.err
    assert cli.run("status", "--more", "--watch").status == 2


def test_words_of_no_meaning_make_no_other_answer(
    ask: Callable[..., Asked], cli: CommandLine
) -> None:
    cli.pipeline.write("no JSON at all", "{")
    before = [ask(api(name)).json for name in ("health", "letters")]
    cli.pipeline.queue.send("one more")
    assert [ask(api(name, x=1)).json for name in ("health", "letters")] == before
    assert ask(api("letters", text="", reason="")).json == before[1]
    assert ask(api("letters", text="JSON", reason="")).json["letters"] != before[1]["letters"]


def test_windows_and_checks_are_those_of_the_commands(
    ask: Callable[..., Asked], cli: CommandLine
) -> None:
    cli.pipeline.effects.pass_by(600 * MINUTE)
    said = ask("/api/windows").json
    listed = {
        one["window"]: one for one in cli.run("--json", "windows", "list", "--all", "--hot").json
    }
    shown = {one["window"]: one for one in said["windows"]}
    assert shown.keys() == listed.keys()
    for window, one in listed.items():
        assert one.items() <= shown[window].items()
        assert ("late" in one) == ("remedy" in shown[window])
    assert any("late" in one for one in listed.values())
    checks = cli.run("--json", "doctor").json
    same = [one["check"] for one in checks if one not in ask("/api/doctor").json["checks"]]
    assert set(same) <= {"totals", "listing"}  # they look at a sample


def test_an_answer_says_what_is_missing(
    ask: Callable[..., Asked], cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tallies = cli.pipeline.store.tallies

    def refuse(spec: Any, *rest: Any) -> Any:
        if spec.window == WINDOW:
            raise StoreError("BatchGetItem: InternalServerError", "InternalServerError")
        return tallies(spec, *rest)

    monkeypatch.setattr(cli.pipeline.store, "tallies", refuse)
    said = ask(api("tonight", key="k1")).json
    assert not said["complete"]
    assert "InternalServerError" in said["missing"][WINDOW]
    [count] = (one for one in said["counts"] if one["key"] == "k1")
    assert not count["complete"]
    assert count["parts"][-1] == [window_start(WINDOW), None]


@pytest.mark.parametrize("status", [Status.DROPPED, Status.OPEN])
def test_largest_keys_that_cannot_be_read_are_missing_alone(
    ask: Callable[..., Asked], cli: CommandLine, status: Status
) -> None:
    catalog, window = cli.pipeline.catalog, first(cli.pipeline, status)
    catalog._windows[window] = replace(catalog._windows[window], listed=None)
    if status is Status.OPEN:  # as if it had opened just now
        del catalog._specs[window]
    said = ask(api("tonight", key="k1")).json
    assert (said["complete"], said["ranking"]) == (False, None)
    assert window in said["missing"]["the largest keys"]
    [count] = cli.run("--json", "count", "k1").json
    assert [one["events"] for one in said["counts"]] == [count["events"]]


def test_a_store_may_go_and_come_back(
    ask: Callable[..., Asked], cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as gone:
        for name in ("calendar", "windows", "live"):
            gone.setattr(cli.pipeline.catalog, name, _refused)
        for path in ("/api/tonight", "/api/windows", "/api/find?key=k1"):
            reply = ask(path)
            assert (reply.status, "AccessDenied" in reply.json["detail"]) == (503, True), path
    assert ask("/api/tonight").status == ask("/api/windows").status == 200


def test_each_part_of_health_fails_alone(
    ask: Callable[..., Asked], cli: CommandLine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ask("/api/health").json
    assert whole["unknown"] == {}
    cli.gauges.values[Gauge.BATCHES] = StoreError(
        "GetMetricStatistics: AccessDenied", "AccessDenied"
    )
    for port, call, parts in (
        (cli.pipeline.queue, "backlog", {"messages waiting", "the oldest message"}),
        (cli.dead_letters_queue, "backlog", {"dead letters"}),
        (cli.pipeline.catalog, "calendar", {"current window", "the oldest message"}),
        (cli.pipeline.catalog, "specs", {"shards"}),
        (cli.stack, "all_alarms", {"alarms"}),
    ):
        clock.ms += 60_000
        with monkeypatch.context() as gone:
            gone.setattr(port, call, _refused)
            said = ask("/api/health").json
        assert said["unknown"].keys() == {"batches", *parts}
        assert len(said["gauges"]) == len(whole["gauges"]) - 1
        assert said["alarms"] == []


def _refused(*_: object) -> None:
    raise StoreError("GetItem: AccessDeniedException", "AccessDeniedException")


@pytest.mark.parametrize(
    "path",
    [
        "/api/tonight?since=noon",
        "/api/tonight?since=-soon",
        "/api/tonight?" + urlencode({"key": [f"k{n}" for n in range(71)]}, doseq=True),
        "/api/find",
        "/api/find?key=%FF",
        "/api/find?key=a&id=b",
    ],
)
def test_wrong_use_is_told(ask: Callable[..., Asked], path: str) -> None:
    reply = ask(path)
    assert (reply.status, bool(reply.json["detail"])) == (400, True)


def test_a_ranking_reads_what_is_sealed_once(
    ask: Callable[..., Asked], cli: CommandLine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    listing = cli.pipeline.totals.listing

    def watched(window: str, *rest: Any) -> Any:
        read.append(window)
        return listing(window, *rest)

    monkeypatch.setattr(cli.pipeline.totals, "listing", watched)
    first = ask("/api/tonight").json["ranking"]
    assert read
    read.clear()
    cli.pipeline.write({"key": "k1", "id": "one more"})
    clock.ms += 10_000
    again = ask("/api/tonight").json["ranking"]
    assert (read, again["events"]) == ([], first["events"] + 1)
