"""`tallyroll events --archived`: a range whole, whether its windows were dropped or not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.archive.corrections import copy_corrections
from tallyroll.archive.indexed import making
from tallyroll.model.states import Status
from tallyroll.model.totals import Total
from tests.cli.command_line import CommandLine
from tests.harness.archives import Archived, as_archived
from tests.harness.pipeline import HOUR, NOW, WINDOW, hour
from tests.harness.retracted_archives import LIKE_PACKED, correction_of, retracted_archive

KEYS = ("k0", "k1", "k2", "large")
HERE = ("--bucket", "memory", "--json")


@pytest.fixture
def whole() -> Archived:
    """A sealed and proven window with retractions before and after the seal."""
    made = retracted_archive(more=LIKE_PACKED)
    made.pipeline.totals.correct([correction_of(made, "e#e0")])
    copy_corrections(made.window, made.pipeline.totals, made.bucket)
    made.pipeline.totals.correct([correction_of(made, "e#p:3")])
    _move(made, Status.PROVEN)
    return made


@pytest.fixture
def cli(
    whole: Archived, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(whole.pipeline, monkeypatch, capsys)


def _move(made: Archived, status: Status) -> None:
    window = made.window
    sums: dict[str, Any] = {"keys": window.keys, "events": window.events, "amount": window.amount}
    made.pipeline.move(status, attempt=window.attempt, **sums)


def drop(made: Archived) -> None:
    _move(made, Status.DROPPED)
    made.pipeline.store.drop_table(made.window.table)


def listed(cli: CommandLine, key: str, *more: str) -> list[str]:
    answer = cli.run("events", key, "--window", WINDOW, *more)
    assert answer.status == 0, answer.err
    return answer.out.splitlines()


@pytest.mark.parametrize("layout", ["dynamodb", "parquet"])
def test_a_dropped_window_gives_what_it_gave(
    cli: CommandLine, whole: Archived, layout: str
) -> None:
    before = {key: listed(cli, key, "--json") for key in KEYS}
    assert {key: listed(cli, key, "--archived", *HERE) for key in KEYS} == before
    assert sum(map(len, before.values())) == 18
    assert sum('"retracted"' in line for lines in before.values() for line in lines) == 9
    if layout == "parquet":
        assert cli.run("archive", "compact", "--bucket", "memory").status == 0
        own = [key for key in whole.bucket.list("archive/") if ".parquet." not in key]
        whole.remove(*own)
    drop(whole)
    assert cli.run("events", "k0", "--window", WINDOW).status == 3
    assert {key: listed(cli, key, "--archived", *HERE) for key in KEYS} == before


def test_a_range_goes_over_live_and_dropped_windows(cli: CommandLine, whole: Archived) -> None:
    drop(whole)
    pipeline = whole.pipeline
    pipeline.write({"id": "at-1", "key": "k1", "ts": NOW - HOUR, "value": 4, "v": 1})
    pipeline.effects.pass_by(HOUR)
    pipeline.roller().run(60_000)
    pipeline.write({"id": "at1", "key": "k1", "ts": NOW + HOUR, "value": 4, "v": 1})
    asked = ("events", "k1", "--since", hour(7), "--archived", *HERE)
    ids = [json.loads(line)["id"] for line in cli.run(*asked).out.splitlines()]
    assert ids == ["at-1", "both", "e1", "e4", "at1"]
    by_time = cli.run(*asked, "--order", "time").json
    assert [each["ts"] for each in by_time] == sorted(each["ts"] for each in by_time)
    assert len(by_time) == len(ids)


def test_an_archive_that_is_not_whole_gives_nothing(cli: CommandLine, whole: Archived) -> None:
    drop(whole)
    key = whole.spoil()
    answer = cli.run("events", "k0", "--window", WINDOW, "--archived", *HERE)
    assert (answer.status, answer.out) == (1, "")
    assert key in answer.err
    nothing = cli.run("events", "nobody", "--window", WINDOW, "--archived", *HERE)
    assert (nothing.status, nothing.out) == (0, "")
    whole.remove(f"{whole.prefix}/proof.json")
    unproven = cli.run("events", "k0", "--window", WINDOW, "--archived", *HERE)
    assert (unproven.status, unproven.out) == (1, "")
    assert "no proven archive" in unproven.err


def test_an_archive_that_is_not_what_the_totals_say_gives_nothing(
    cli: CommandLine, whole: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(whole)
    totals = type(whole.pipeline.totals)
    of_key = totals.of_key

    def more(*asked: Any) -> list[Total]:
        return [replace(total, n=total.n + 1) for total in of_key(*asked)]

    monkeypatch.setattr(totals, "of_key", more)
    answer = cli.run("events", "k0", "--window", WINDOW, "--archived", *HERE)
    assert (answer.status, answer.out) == (1, "")
    assert "the total is" in answer.err


@pytest.mark.parametrize(
    "more", [("--follow",), ("--limit", "3"), ("--cursor", "x")], ids=lambda more: more[0]
)
def test_what_does_not_go_with_it(cli: CommandLine, more: tuple[str, ...]) -> None:
    answer = cli.run("events", "k0", "--since", "-1h", "--archived", *more)
    assert answer.status == 2
    assert "--archived: give it without" in answer.err


IDS: Mapping[str, Sequence[str]] = {
    "k0": ("e0", "p", "p:1", "p:3"),
    "k1": ("e4", "both"),
    "large": ("q", "q:2"),
}


def found(
    cli: CommandLine, *more: str, of: Mapping[str, Sequence[str]] = IDS
) -> dict[tuple[str, str], str]:
    """What `event` gives of each id, but for the window's state."""
    answers = {
        (key, each): cli.run("event", key, each, "--date", "2026-11-20", *more)
        for key, ids in of.items()
        for each in ids
    }
    assert {answer.status for answer in answers.values()} == {0}
    return {name: answer.out.replace('"proven"', '"dropped"') for name, answer in answers.items()}


@pytest.mark.parametrize("layout", ["indexed", "dynamodb", "parquet"])
def test_one_event_of_a_dropped_window_is_what_it_was(
    cli: CommandLine, whole: Archived, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if layout == "indexed":
        monkeypatch.setattr(making, "INDEXED_OVER", 0)
        whole.remove(f"{whole.prefix}/proof.json")
        as_archived(whole.pipeline, whole.window)
    of = {"k0": ("p:1",), "large": ("q:2",)} if layout == "parquet" else IDS  # which takes long
    before = found(cli, "--json", of=of)
    assert found(cli, "--archived", *HERE, of=of) == before
    if layout == "parquet":
        assert cli.run("archive", "compact", "--bucket", "memory").status == 0
        own = [key for key in whole.bucket.list("archive/") if ".parquet." not in key]
        whole.remove(*own)
    drop(whole)
    assert cli.run("event", "k0", "e0", "--date", "2026-11-20").status == 3
    assert found(cli, "--archived", *HERE, of=of) == before
    absent = cli.run("event", "k0", "none", "--window", WINDOW, "--archived", *HERE)
    assert (absent.status, absent.out) == (3, "")
    assert "there is no event 'none' of key 'k0'" in absent.err
    where = cli.run("event", "k0", "p:1", "--window", WINDOW, "--archived", "--where", *HERE)
    assert (where.json[0]["record"], where.json[0]["archive"]) == ("p", whole.prefix)


def test_one_event_of_an_archive_that_is_not_whole_is_an_error(
    cli: CommandLine, whole: Archived
) -> None:
    drop(whole)
    key = whole.spoil()
    answer = cli.run("event", "k0", "e3", "--window", WINDOW, "--archived", *HERE)
    assert (answer.status, answer.out) == (1, "")
    assert key in answer.err
