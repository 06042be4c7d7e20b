"""`tallyroll keys list`: all keys of a range, each with its count."""

from __future__ import annotations

from typing import Any

import pytest

from tallyroll.cli.heat import keys
from tallyroll.errors import Throttled
from tallyroll.model.totals import Correction
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import HOUR, NOW, hour
from tests.unit.reads.test_range_keys import seal

LIST = ("keys", "list")


@pytest.fixture
def written(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Four keys in the current window; one event of `a` an hour before, in a sealed window."""
    monkeypatch.setattr("tallyroll.cli.arguments.now_ms", lambda: NOW)
    bodies = [{"id": "e", "key": key, "ts": NOW, "value": 1.5} for key in ("a", "a.b", "b", "é")]
    cli.pipeline.write(*bodies, {"id": "f", "key": "a", "ts": NOW - HOUR})
    seal(cli.pipeline, hour(7))
    return cli


def test_all_keys_of_today(written: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = written.run(*LIST)
    assert (answer.status, answer.err) == (0, "")
    assert [line.split() for line in answer.out.splitlines()][2:] == [
        ["a.b", "1", "1.5"],
        ["a", "2", "2.5"],
        ["b", "1", "1.5"],
        ["é", "1", "1.5"],
    ]
    monkeypatch.setattr(keys, "ROWS_A_TABLE", 3)
    found = written.run(*LIST, "--since", "today", "--json").json
    assert found[1] == {"key": "a", "events": 2, "sum": "2.5"}
    assert [one["key"] for one in found] == ["a.b", "a", "b", "é"]
    assert written.run(*LIST).row("é", "1", "1.5")


def test_a_range_and_a_prefix(written: CommandLine) -> None:
    found = written.run(*LIST, "--since", hour(7), "--until", hour(8), "--json").json
    assert found == [{"key": "a", "events": 1, "sum": "1"}]
    found = written.run(*LIST, "--since", hour(8), "--prefix", "a", "--json").json
    assert [(one["key"], one["events"]) for one in found] == [("a.b", 1), ("a", 1)]
    none = written.run(*LIST, "--until", hour(7))
    assert (none.status, none.out) == (0, "")
    assert "no keys in the range" in none.err
    assert "no keys today" in written.run(*LIST, "--prefix", "none").err


def test_what_was_retracted(written: CommandLine) -> None:
    gone = Correction(hour(7), "f", ("a",), 1, 1_000_000, b"digest", NOW)
    written.pipeline.totals.correct([gone])
    answer = written.run(*LIST)
    assert "retracted sum" in answer.out
    assert answer.row("a", "1", "1.5", "1", "1")
    assert answer.row("b", "1", "1.5")
    assert {"events": 1, "sum": "1"} in [
        one.get("retracted") for one in written.run(*LIST, "--json").json
    ]


def test_a_read_that_fails_is_no_end_of_the_list(
    written: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise Throttled("slow down")

    monkeypatch.setattr(written.pipeline.totals, "listing", fail)
    answer = written.run(*LIST)
    assert (answer.status, answer.out) == (3, "")
    assert (
        f"not all keys are listed: those could not be read, of {hour(7)}: slow down" in answer.err
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--hot", "--since", "today"), "--hot: give it without --since, --until and --prefix"),
        (("--hot", "--prefix", "a"), "--hot: give it without"),
        (("--since", hour(9), "--until", hour(8)), "is not before"),
        (("--since", "2026-11-20T08:10Z"), "nearest bound"),
        (("--prefix", "~a"), "must not start with '~'"),
    ],
)
def test_wrong_lists(written: CommandLine, argv: tuple[str, ...], said: str) -> None:
    answer = written.run(*LIST, *argv)
    assert (answer.status, answer.out) == (2, "")
    assert said in answer.err
