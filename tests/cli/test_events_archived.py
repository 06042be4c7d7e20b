"""`tallyroll events --archived`: a range whole, whether its windows were dropped or not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.archive.corrections import copy_corrections
from tallyroll.model.states import Status
from tallyroll.model.totals import Total
from tests.cli.command_line import CommandLine
from tests.harness.archives import Archived
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
