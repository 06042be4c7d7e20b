"""`tallyroll keys`: shards wished ahead, withdrawn and listed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.model.states import Wishes
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import HOUR, MINUTE, NOW, START, TIME_LEFT, hour

AHEAD = ("keys", "split", "k", "--shards", "1024", "--from", "2026-11-20T10:00Z")
FROM, MADE = "2026-11-20T10:00:00.000Z", "2026-11-20T08:30:00.000Z"


def roll_at(cli: CommandLine, at: int) -> None:
    """Let the roller run at this time, until it has nothing to do."""
    cli.pipeline.effects.pass_by(at - cli.pipeline.effects.now())
    for _ in range(2):
        cli.pipeline.roller().run(TIME_LEFT)


def test_a_key_is_split_ahead(cli: CommandLine) -> None:
    answer = cli.run(*AHEAD)
    assert (answer.status, answer.err) == (0, "")
    assert answer.row("k", "1,024", hour(10), FROM)
    [said] = cli.run(*AHEAD, "--until", hour(12), "--json").json
    assert said == {
        "key": "k",
        "shards": 1_024,
        "window": hour(10),
        "from": FROM,
        "until": "2026-11-20T12:00:00.000Z",
    }
    roll_at(cli, START + 2 * HOUR - MINUTE)
    assert cli.pipeline.spec(hour(10)).hot == {"k": 1_024}


def test_the_wish_that_it_replaces_is_told(cli: CommandLine) -> None:
    cli.run("keys", "split", "k", "--shards", "64", "--until", hour(12))
    answer = cli.run(*AHEAD)
    assert "replaces the wish of 64 from 2026-11-20T09:00:00.000Z until 2026-11-20T12" in answer.err


def test_a_frozen_window_is_refused(cli: CommandLine) -> None:
    roll_at(cli, START + 58 * MINUTE)
    answer = cli.run("keys", "split", "k", "--shards", "64", "--from", hour(9))
    assert (answer.status, answer.out) == (2, "")
    assert f"window {hour(9)} is frozen with 4 shards for 'k'" in answer.err
    assert f"the first window that takes 64 is {hour(10)} (--from {FROM})" in answer.err
    assert cli.pipeline.catalog.wishes() == Wishes()


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("k",), "shards"),
        (("k", "--shards", "10001"), "'10001': give a whole number, 1 to 10,000"),
        (("k", "--shards", "0"), "'0': give a whole number, 1 to 10,000"),
        (("k", "--shards", "many"), "'many': give a whole number, 1 to 10,000"),
        (("~k", "--shards", "64"), "must not start with '~'"),
        (("", "--shards", "64"), "key ''"),
        (("x" * 513, "--shards", "64"), "512"),
        (("k", "--shards", "64", "--from", "-1h"), "--from 2026-11-20T07:30:00.000Z is past"),
        (("k", "--shards", "64", "--from", "2026-11-20T08:00Z"), "is past: it is 2026-11-20T08:30"),
        (("k", "--shards", "64", "--from", "soon"), "'soon'"),
        (("k", "--shards", "64", "--until", hour(9)), "starts at 2026-11-20T09:00:00.000Z; give"),
    ],
)
def test_wrong_splits(
    cli: CommandLine, argv: tuple[str, ...], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.cli.arguments.now_ms", lambda: NOW)
    answer = cli.run("keys", "split", *argv)
    assert (answer.status, answer.out) == (2, "")
    assert error in answer.err
    assert cli.pipeline.catalog.wishes() == Wishes()


def test_a_wish_is_withdrawn(cli: CommandLine) -> None:
    cli.run("keys", "split", "k", "--shards", "64")
    roll_at(cli, START + 58 * MINUTE)
    answer = cli.run("keys", "merge", "k")
    assert (answer.status, answer.out) == (
        0,
        "k: withdrawn, 64 from 2026-11-20T09:00:00.000Z\n",
    )
    assert f"frozen with it, and keeping it: {hour(9)}" in answer.err
    again = cli.run("keys", "merge", "k")
    assert (again.status, again.out) == (3, "")
    assert "there is no wish for 'k': see tallyroll keys list --hot" in again.err
    cli.run("keys", "split", "k", "--shards", "64")
    [said] = cli.run("keys", "merge", "k", "--json").json
    assert said == {"key": "k", "shards": 64, "from": "2026-11-20T09:00:00.000Z", "kept": [hour(9)]}
    assert cli.run("keys", "merge", "~k").status == 2


def test_hot_keys_are_listed(cli: CommandLine) -> None:
    nothing = cli.run("keys", "list", "--hot")
    assert (nothing.status, nothing.out) == (0, "")
    assert "no key has shards of its own, and there is no wish" in nothing.err
    cli.run(*AHEAD)
    answer = cli.run("keys", "list", "--hot")
    assert (answer.status, answer.err) == (0, "")
    assert answer.row("k", hour(10), "1,024", "from", FROM)
    roll_at(cli, START + 2 * HOUR + MINUTE)
    answer = cli.run("keys", "list", "--hot")
    assert answer.row("k", hour(10), "1,024", "1,024", hour(10), "wish", "1,024", "from", FROM)
    [said] = cli.run("keys", "list", "--hot", "--json").json
    assert said == {
        "key": "k",
        "window": hour(10),
        "shards": 1_024,
        "stripes": 1_024,
        "since": hour(10),
        "why": "wish",
        "wish": {"shards": 1_024, "from": FROM, "made": MADE},
        "lacks": False,
    }


def test_a_wish_that_a_frozen_window_lacks(cli: CommandLine) -> None:
    """A roller of an older release puts specs without a look at the wishes."""
    put_spec = cli.pipeline.catalog.put_spec
    cli.run("keys", "split", "k", "--shards", "64")
    cli.pipeline.catalog.put_spec = (  # type: ignore[method-assign]
        lambda spec, wishes=None: put_spec(replace(spec, hot={}, why={}))
    )
    roll_at(cli, START + 58 * MINUTE)
    answer = cli.run("keys", "list", "--hot")
    assert answer.status == 1
    assert f"k: window {hour(9)} was frozen without the wish of 64 shards" in answer.err
    first, then = cli.run("keys", "list", "--hot", "--json").json
    assert (first["window"], first["shards"], first["lacks"]) == (hour(9), 4, True)
    assert (then["window"], then["lacks"], "shards" in then) == (hour(10), False, False)


def test_a_pipeline_that_never_rolled(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.pipeline.catalog, "calendar", lambda: None)
    for argv in (AHEAD, ("keys", "merge", "k"), ("keys", "list", "--hot"), ("keys", "list")):
        answer = cli.run(*argv)
        assert answer.status == 3
        assert "its roller has not run yet" in answer.err
