from __future__ import annotations

import re
from dataclasses import replace
from unittest.mock import patch

import pytest

from tallyroll.cli.windows import length
from tallyroll.errors import Refused, Throttled
from tallyroll.model.states import Attempt, Status
from tallyroll.resources import TAG_PIPELINE
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import HOUR, MINUTE, NOW, hour


def test_counts_as_a_table(cli: CommandLine) -> None:
    cli.pipeline.write(
        {"key": "k", "id": "a", "ts": NOW, "value": 2.5}, {"key": "k", "id": "b", "ts": NOW - HOUR}
    )
    answer = cli.run("count", "k", "none", "k", "--windows")
    assert (answer.status, answer.err) == (0, "")
    assert answer.row("k", "2", "3.5", "yes", "2026-11-20T08:30:00.000Z")
    assert answer.row("none", "0", "0", "yes", "2026-11-20T08:30:00.000Z")
    assert answer.row("k", hour(7), "open", "1", "1")
    assert answer.row("k", hour(8), "open", "1", "2.5")


def test_a_range_of_windows(cli: CommandLine) -> None:
    cli.pipeline.write(
        {"key": "k", "id": "a", "ts": NOW}, {"key": "k", "id": "b", "ts": NOW - HOUR}
    )
    answer = cli.run("count", "k", "--json", "--since", "2026-11-20T08:00Z", "--until", hour(9))
    assert [(c["events"], len(c["windows"])) for c in answer.json] == [(1, 1)]


def test_a_count_that_is_not_whole_says_so(cli: CommandLine) -> None:
    def throttled(*arguments: object) -> None:
        raise Throttled("BatchGetItem: too much")

    cli.pipeline.store.tallies = throttled  # type: ignore[assignment]
    answer = cli.run("count", "k")
    assert answer.status == 1
    assert hour(8) in answer.err
    assert "no" in answer.out.split()


def test_wrong_counts(cli: CommandLine) -> None:
    inside = cli.run("count", "k", "--since", "2026-11-20T08:10Z")
    assert (inside.status, inside.out) == (2, "")
    assert "the nearest bound is 2026-11-20T08:00:00.000Z" in inside.err
    assert cli.run("count", "~k").status == 2
    assert cli.run("count", "k", "--since", "now").status == 2


def test_windows_that_are_not_dropped(cli: CommandLine) -> None:
    cli.pipeline.move(Status.DROPPED, hour(6))
    answer = cli.run("windows", "list")
    assert answer.status == 0
    lines = answer.out.splitlines()
    assert lines[0].split() == ["window", "state", "since"]
    assert [line.split()[0] for line in lines[2:]] == [hour(7), hour(8), hour(9), hour(10)]
    assert lines[3].split()[1:] == ["open", "11-20", "08:30:00"]
    head, _, _, row, *_ = cli.run("windows", "list", "--wide").out.splitlines()
    assert head.split() == ["window", "length", "state", "since", "shards", "made", "opened"]
    assert row.split()[1:7] == ["1", "h", "open", "11-20", "08:30:00", "4"]


def test_every_window(cli: CommandLine) -> None:
    cli.pipeline.move(Status.SEALED, hour(6), keys=2, events=1200, amount=3_500_000)
    attempt = Attempt(archive="exports/6/1/", problem="no manifest")
    cli.pipeline.move(Status.DROPPED, hour(6), attempt=attempt)
    listed = cli.run("windows", "list", "--all", "--json").json
    assert [window["window"] for window in listed] == [hour(n) for n in (6, 7, 8, 9, 10)]
    first = listed[0]
    assert (first["state"], first["events"], first["sum"]) == ("dropped", 1200, "3.5")
    assert first["times"]["sealed"] == "2026-11-20T08:30:00.000Z"
    assert "keys" not in listed[1]
    table = cli.run("windows", "list", "--all", "--until", hour(7), "--wide").out
    assert all(text in table for text in ("1,200", "3.5", "exports/6/1/", "no manifest"))


def test_a_list_of_windows_fits_into_80_columns(cli: CommandLine) -> None:
    for at in (6, 7):
        cli.pipeline.move(Status.SEALED, hour(at), keys=98_765_432, events=9_876_543_210, amount=0)
    cli.pipeline.effects.pass_by(24 * HOUR)
    lines = cli.run("windows", "list").out.splitlines()
    assert {"late", "9,876,543,210"} <= set(lines[2].split()) | set(lines[0].split())
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("columns", [80, 200])
def test_no_date_is_broken_however_narrow_the_terminal(cli: CommandLine, columns: int) -> None:
    archive = f"archives/tallyroll/{hour(6)}/attempt-1/some-more-to-make-it-long"
    cli.pipeline.move(Status.SEALED, hour(6), keys=98_765_432, events=9_876_543_210, amount=0)
    attempt = Attempt(archive=archive, items=12_345, problem="no manifest " * 9)
    cli.pipeline.move(Status.PROVEN, hour(6), attempt=attempt)
    whole = cli.run("windows", "list", "--wide").out
    with patch("tallyroll.cli.screen.PIPE_COLUMNS", columns):
        shown = cli.run("windows", "list", "--wide").out
    assert max(map(len, shown.splitlines())) <= columns
    dates = r"\d\d-\d\d \d\d:\d\d:\d\d|[0-9]{8}T[0-9]{6}Z\\b"
    assert sorted(re.findall(dates, shown)) == sorted(re.findall(dates, whole))
    assert archive in shown.replace("\n", "").replace(" ", "")
    assert {"9,876,543,210", "98,765,432"} <= set(shown.split())


def test_a_table_that_fits_into_200_columns_is_one(cli: CommandLine) -> None:
    with patch("tallyroll.cli.screen.PIPE_COLUMNS", 200):
        lines = cli.run("windows", "list", "--wide").out.splitlines()
    assert lines[0].split()[:3] == ["window", "length", "state"]
    assert len(lines) == 2 + 5


def test_why_a_window_is_not_open(cli: CommandLine) -> None:
    """Only of those that should be open by now."""
    store, window, table = cli.pipeline.store, hour(5), f"tallyroll-{hour(5)}"

    def told() -> str:
        return cli.run("windows", "list", "--state", "creating").err

    assert told() == ""
    cli.run("windows", "open", "--since", window, "--until", hour(6))
    assert told() == (
        f"tallyroll: creating: {window}: there is no table {table} yet: does the roller run? Its"
        " log says what stops it\n"
    )
    store.make_table(table, {TAG_PIPELINE: "tallyroll"})
    for status, why in (
        ("CREATING", "DynamoDB is still making its table"),
        ("DELETING", "is being deleted"),
        ("ACTIVE", "is there: the roller's next run opens it"),
    ):
        card = cli.tables.card(table)
        assert card
        with patch.object(cli.tables, "card", return_value=replace(card, status=status)):
            assert why in told()
    store.table(table).tags.clear()
    assert f"another hand made its table {table}: its tag {TAG_PIPELINE} is missing" in told()
    denied = Refused("DescribeTable: AccessDeniedException", "AccessDeniedException")
    with patch.object(cli.tables, "card", side_effect=denied):
        assert "is not known: DescribeTable: AccessDenied" in told()
    cli.run("windows", "open", "--since", hour(0), "--until", hour(6))
    assert told().count("creating: ") == 5
    assert "... and 1 more should be open" in told()


def test_no_windows(cli: CommandLine) -> None:
    answer = cli.run("windows", "list", "--since", "2027-01-01")
    assert (answer.status, answer.out) == (0, "")
    assert "no windows" in answer.err


def test_opening_the_past(cli: CommandLine) -> None:
    argv = ("windows", "open", "--since", hour(0), "--until", hour(6))
    answer = cli.run(*argv, "--accept-for", "90m")
    assert answer.status == 0
    assert "6 created, 0 were there already" in answer.err
    state = cli.pipeline.state(hour(5))
    assert (state.accept_from, state.accept_until) == (NOW, NOW + 90 * MINUTE)

    again = cli.run(*argv, "--json")
    assert [window["created"] for window in again.json] == [False] * 6
    assert [window["state"] for window in again.json] == ["creating"] * 6


def test_waiting_until_the_past_is_open(cli: CommandLine) -> None:
    argv = ("windows", "open", "--since", hour(4), "--until", hour(6), "--wait")
    effects = cli.pipeline.effects
    sleep = effects.sleep

    def roll(ms: float) -> None:
        sleep(ms)
        cli.pipeline.roller().run(60_000)

    effects.sleep = roll  # type: ignore[method-assign]
    answer = cli.run(*argv)
    assert answer.status == 0
    assert answer.out.count(" open ") == 2

    cli.pipeline.write({"key": "k", "id": "old", "ts": NOW - 4 * HOUR})
    assert cli.run("count", "k", "--json").json[0]["events"] == 1


def test_waiting_in_vain(cli: CommandLine) -> None:
    argv = ("windows", "open", "--since", hour(4), "--until", hour(6), "--wait")
    answer = cli.run(*argv, "--timeout", "30s")
    assert answer.status == 1
    assert "does the roller run?" in answer.err
    assert cli.pipeline.effects.now() == NOW + 30_000


def test_a_window_that_is_over_is_told(cli: CommandLine) -> None:
    cli.pipeline.move(Status.CLOSING, hour(6))
    answer = cli.run("windows", "open", "--since", hour(5), "--until", hour(7))
    assert answer.status == 1
    assert f"{hour(6)} will take no more events" in answer.err


def test_wrong_openings(cli: CommandLine) -> None:
    def said(since: str, until: str, *more: str) -> str:
        answer = cli.run("windows", "open", "--since", since, "--until", until, *more)
        assert (answer.status, answer.out) == (2, "")
        return answer.err

    assert "regular" in said(hour(10), hour(12))
    assert "nearest bound" in said("2026-11-20T00:10Z", hour(6))
    assert "is not before" in said(hour(6), hour(6))
    assert "over 1,000 windows" in said("2020-01-01", hour(6))
    assert "7d" in said(hour(5), hour(6), "--accept-for", "soon")
    assert "at most 366 days" in said(hour(5), hour(6), "--accept-for", "400d")
    assert cli.pipeline.catalog.window(hour(5)) is None
    assert cli.run("windows", "open", "--since", hour(5)).status == 2


def test_a_pipeline_without_a_calendar(cli: CommandLine) -> None:
    cli.pipeline.catalog.__init__()  # type: ignore[misc]
    answer = cli.run("windows", "open", "--since", hour(5), "--until", hour(6))
    assert answer.status == 3
    assert "its roller has not run yet" in answer.err


def test_lengths_for_people() -> None:
    assert [length(ms) for ms in (HOUR, 90 * MINUTE, 5_000, 48 * HOUR)] == [
        "1 h",
        "90 min",
        "5 s",
        "2 d",
    ]
