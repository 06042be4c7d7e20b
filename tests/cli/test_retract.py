"""`tallyroll retract` finds an event, authorizes its retraction, sends it, and sees its effect."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.model.events import Event
from tallyroll.model.ids import IdentityItem, identity_names
from tallyroll.model.records import record_of
from tallyroll.model.retractions import Authorization, Retraction
from tallyroll.model.specs import IdentityScope
from tallyroll.model.states import Status
from tallyroll.model.totals import Correction
from tallyroll.ports.catalog import Claim
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import HOUR, MINUTE, NOW, SMALL, START, WINDOW, hour, opened
from tests.harness.retracting import retracted, stone

OPERATOR = replace(SMALL, retraction="operator")
EVENT = {"id": "e1", "key": "k", "ts": NOW, "value": 2.5}
PACKET = {"v": 1, "id": "p", "key": "k", "t0": START, "events": [[0], [10, 4]]}
ASK = ("retract", "k", "e1", "--window", WINDOW, "--by", "ann", "--why", "a test")


def retracting(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A pipeline whose operators may retract, with an event and a packet in window 08."""
    line = CommandLine(opened(OPERATOR), monkeypatch, capsys)
    line.deployment.there = {"TALLYROLL_RETRACTION": "operator"}
    line.pipeline.write(EVENT, PACKET)
    return line


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """See `retracting`."""
    return retracting(monkeypatch, capsys)


def authorized(cli: CommandLine, *target: Any) -> Authorization:
    place = target or (WINDOW, "k", "e1", None)
    return cli.pipeline.catalog.authorizations([place])[place]


# --- what it does


def test_it_shows_authorizes_and_sends(cli: CommandLine) -> None:
    answer = cli.run(*ASK)
    assert (answer.status, answer.err) == (0, "")
    assert answer.row("k", "e1", "2026-11-20T08:30:00.000Z", WINDOW, "open", "1", "2.5", "sent")
    assert authorized(cli) == Authorization((WINDOW, "k", "e1", None), "ann", "a test", NOW)
    asked = Retraction("k", "e1", window=WINDOW, by="ann", why="a test")
    assert cli.producer.bodies == [asked.body]
    cli.drain()
    assert retracted(cli.pipeline) == (1, 2_500_000)
    assert stone(cli.pipeline).by == "ann"


def test_the_authorization_is_there_before_the_message(cli: CommandLine) -> None:
    seen: list[str] = []

    def refuse(_: str) -> str:
        seen.append(authorized(cli).by)
        return "full"

    cli.producer.refuses = refuse
    answer = cli.run(*ASK)
    assert seen == ["ann"]
    assert answer.status == 3
    assert "authorized, but not certainly sent: full: run it again" in answer.err


def test_its_window_follows_from_its_time(cli: CommandLine) -> None:
    (answer,) = cli.run("--json", *ASK[:3], "--ts", "2026-11-20T08:59Z").json
    assert answer | {"by": ""} == {
        "key": "k",
        "id": "e1",
        "window": WINDOW,
        "counted_in": WINDOW,
        "state": "open",
        "ts": NOW,
        "events": 1,
        "sum": "2.5",
        "result": "sent",
        "by": "",
        "why": "",
    }


def test_its_time_may_be_relative_to_now(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyroll.cli.arguments.now_ms", lambda: NOW + MINUTE)
    assert cli.run("--json", *ASK[:3], "--ts", "-1m").json[0]["ts"] == NOW


def test_by_is_the_user_of_the_machine(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "eve")
    assert cli.run(*ASK[:5]).status == 0
    assert authorized(cli).by == "eve"

    def nameless() -> str:
        raise OSError("no user")

    monkeypatch.setattr("getpass.getuser", nameless)
    answer = cli.run(*ASK[:5])
    assert (answer.status, len(cli.producer.bodies)) == (2, 1)
    assert "give --by" in answer.err


def test_a_dry_run_changes_nothing(cli: CommandLine) -> None:
    answer = cli.run("--json", *ASK, "--dry-run")
    assert (answer.status, answer.json[0]["result"]) == (0, "would-be-retracted")
    assert cli.producer.tried == []
    assert cli.pipeline.catalog.authorizations([(WINDOW, "k", "e1", None)]) == {}


def test_an_event_of_several_keys_is_taken_from_all(cli: CommandLine) -> None:
    settings = replace(OPERATOR, mapping={"id": "id", "ts": "ts", "keys": ["a", "b"]})
    cli.pipeline = opened(settings)
    cli.pipeline.write({"id": "f", "ts": NOW})
    answer = cli.run("retract", "b", "f", "--ts", str(NOW), "--by", "ann")
    assert answer.status == 0, answer.err
    assert [line.split()[0] for line in answer.out.splitlines()[2:]] == ["a", "b"]
    assert authorized(cli, WINDOW, "a", "f", None).keys == ("a", "b")
    cli.producer.pipeline = cli.pipeline
    cli.pipeline.queue.send(cli.producer.bodies[-1])
    cli.drain()
    assert retracted(cli.pipeline, "a") == retracted(cli.pipeline, "b") == (1, 1_000_000)


@pytest.mark.parametrize("named", [("p:1",), ("p", "--index", "1")])
def test_an_event_of_a_packet(cli: CommandLine, named: tuple[str, ...]) -> None:
    answer = cli.run("--json", "retract", "k", *named, "--window", WINDOW)
    (said,) = answer.json
    assert (said["id"], said["index"], said["events"], said["sum"]) == ("p", 1, 1, "4")
    assert authorized(cli, WINDOW, "k", "p", 1).keys == ()
    cli.drain()
    assert retracted(cli.pipeline) == (1, 4_000_000)


def test_an_id_that_looks_like_that_of_a_packed_event(cli: CommandLine) -> None:
    cli.pipeline.write({"id": "p:1", "key": "k", "ts": NOW, "value": 9})
    (said,) = cli.run("--json", "retract", "k", "p:1", "--window", WINDOW).json
    assert (said["id"], said["sum"], "index" in said) == ("p:1", "9", False)


def test_an_event_that_is_not_there_yet_is_waited_for(cli: CommandLine) -> None:
    answer = cli.run("retract", "k", "later", "--window", WINDOW)
    assert answer.status == 0
    assert answer.row("k", "later", WINDOW, "open", "0", "sent")
    assert f"the event is not in {WINDOW} yet: its retraction waits for it" in answer.err
    assert authorized(cli, WINDOW, "k", "later", None).proven is None


def test_an_event_that_can_come_no_more(cli: CommandLine) -> None:
    cli.pipeline.move(Status.SEALED)
    answer = cli.run("retract", "k", "none", "--window", WINDOW)
    assert (answer.status, cli.producer.tried) == (3, [])
    assert f"there is no event 'none' of key 'k' in {WINDOW}, which is sealed" in answer.err


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (("p",), 2, "is a packet of 2 events: give the index of one of them"),
        (("p", "--index", "9"), 3, "packet 'p' has 2 events, counted from 0"),
        (("p:2",), 3, "packet 'p' has 2 events, counted from 0"),
        (("e1", "--index", "0"), 3, "event 'e1' is no packet, so it has no index"),
    ],
)
def test_what_is_no_event(cli: CommandLine, argv: tuple[str, ...], status: int, said: str) -> None:
    answer = cli.run("retract", "k", *argv, "--window", WINDOW)
    assert (answer.status, cli.producer.tried) == (status, [])
    assert said in answer.err


def test_an_event_of_several_keys_of_an_earlier_release_needs_them_all(cli: CommandLine) -> None:
    event = Event.of("a", id="old", ts=NOW)
    event = replace(event, other_keys=("b",))
    spec = cli.pipeline.spec()
    found = record_of(event, cli.pipeline.message("", sent=NOW), spec)
    group = [replace(each, keys=(), slot=None, series=(), others=()) for each in found.group]
    cli.pipeline.store.commit(spec, group, [])
    refused = cli.run("retract", "b", "old", "--window", WINDOW)
    assert (refused.status, cli.producer.tried) == (2, [])
    assert "are not just ['b']: give all of them" in refused.err
    assert (
        cli.run("retract", "b", "old", "--window", WINDOW, "--keys", "a", "--keys", "b").status == 0
    )
    assert authorized(cli, WINDOW, "a", "old", None).keys == ("a", "b")
    assert json.loads(cli.producer.bodies[0])[2]["keys"] == ["a", "b"]


def test_a_redriven_event_is_found_where_it_counts(cli: CommandLine) -> None:
    home = hour(6)
    cli.pipeline.catalog.claim((home, "k", "late"), Claim(WINDOW, NOW))
    spec = cli.pipeline.spec()
    record = cli.pipeline.store.record(spec, "k", "e1")
    assert record
    moved = replace(record, id="late", shard=spec.shard("k", "late"), ts=NOW - 2 * HOUR, series=())
    cli.pipeline.store.commit(spec, [moved], [])
    (said,) = cli.run("--json", "retract", "k", "late", "--window", home).json
    assert (said["window"], said["counted_in"], said["events"]) == (home, WINDOW, 1)
    assert authorized(cli, home, "k", "late", None).proven is None


def test_an_event_whose_id_is_taken_in_another_window(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second sending of it was a duplicate: its time leads to a window without the event."""
    store, catalog = cli.pipeline.store, cli.pipeline.catalog
    specs = catalog.specs

    def scoped(windows: Any) -> Any:
        found = specs(windows)
        return {name: replace(spec, identity=IdentityScope.KEY) for name, spec in found.items()}

    monkeypatch.setattr(catalog, "specs", scoped)
    [name] = identity_names(scoped([WINDOW])[WINDOW], ("k",), "e1")
    taken = {name: IdentityItem(name, WINDOW, "k", b"", 0)}
    monkeypatch.setattr(store, "identities", lambda names: {n: taken[n] for n in names})
    (said,) = cli.run("--json", "retract", "k", "e1", "--window", hour(7)).json
    assert (said["window"], said["counted_in"], said["sum"]) == (WINDOW, WINDOW, "2.5")


# --- what is done already


def test_an_event_that_is_retracted_already(cli: CommandLine) -> None:
    cli.run(*ASK)
    cli.drain()
    answer = cli.run(*ASK[:-4], "--by", "bob")
    assert (answer.status, len(cli.producer.bodies)) == (0, 1)
    assert "already retracted" in answer.out
    assert "retracted by ann: a test" in answer.err
    (said,) = cli.run("--json", *ASK[:-4]).json
    assert (said["result"], said["by"], said["why"]) == ("already-retracted", "ann", "a test")


def test_an_event_whose_total_was_corrected(cli: CommandLine) -> None:
    record = cli.pipeline.store.record(cli.pipeline.spec(), "k", "e1")
    assert record
    cli.pipeline.move(Status.SEALED)
    other = Correction(WINDOW, "e1", ("k",), 1, 1, b"another", NOW, "bob")
    mine = replace(other, digest=record.digest, by="ann", why="")
    cli.pipeline.totals.correct([mine])
    (said,) = cli.run("--json", *ASK).json
    assert (said["result"], said["by"]) == ("already-retracted", "ann")
    assert said["at"] == "2026-11-20T08:30:00.000Z"
    assert "retracted by ann at 2026-11-20T08:30:00.000Z: no reason" in cli.run(*ASK).err


# --- what it refuses


def test_a_pipeline_that_lets_nobody_retract(cli: CommandLine) -> None:
    for there in ({"TALLYROLL_WINDOW_SECONDS": "3600"}, None):
        cli.deployment.there = there
        answer = cli.run(*ASK)
        assert (answer.status, cli.producer.tried) == (2, [])
        assert "tallyroll:retraction=operator" in answer.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("k", "e1"), "'e1': say when it happened, by --ts or --window"),
        (("k", "e1", "--ts", "1", "--window", WINDOW), "--"),
        (("~k", "e1", "--window", WINDOW), "'~k': must not start with '~'"),
        (("k", "", "--window", WINDOW), "id"),
        (("k", "e1", "--window", "today"), "'today'"),
        (("k", "e1", "--window", WINDOW, "--index", "-1"), "index -1"),
        (("k", "e1", "--window", WINDOW, "--keys", "a"), "'k' is not one of its keys: give all"),
        (("k", "e1", "--window", WINDOW, "--why", "x" * 257), "at most 256 bytes"),
    ],
)
def test_wrong_use(cli: CommandLine, argv: tuple[str, ...], said: str) -> None:
    answer = cli.run("retract", *argv)
    assert (answer.status, cli.producer.tried) == (2, [])
    assert said in answer.err


@pytest.mark.parametrize(
    ("window", "status", "said"),
    [
        ("20261120T081500Z", 3, "there is no window 20261120T081500Z"),
        ("20261119T080000Z", 3, "there is no window 20261119T080000Z"),
        ("20261121T080000Z", 2, "ahead of when it was sent"),
    ],
)
def test_a_window_that_there_is_not(cli: CommandLine, window: str, status: int, said: str) -> None:
    answer = cli.run("retract", "k", "e1", "--window", window)
    assert (answer.status, cli.producer.tried) == (status, [])
    assert said in answer.err
