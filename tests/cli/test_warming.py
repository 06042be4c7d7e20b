"""`tallyroll windows warm`: cost, bound, and what is refused, with its remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from tallyroll.cli.screen import Screen
from tallyroll.model.states import Status
from tallyroll.model.windows import KEYSPACES, table_name
from tallyroll.ports.table_listing import TableFacts, TableStatus
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import MINUTE, hour

if TYPE_CHECKING:
    from tallyroll.adapters.memory.tables import MemoryTable

WARM = ("windows", "warm")


def table_of(cli: CommandLine, window: str) -> MemoryTable:
    return cli.pipeline.store.table(table_name("tallyroll", window))


def test_a_live_windows_table_is_warmed_and_the_cost_is_told_first(cli: CommandLine) -> None:
    answer = cli.run(*WARM, "current", "--units", "20000", "--yes", "--wait", "--json")
    assert answer.status == 0
    [told] = answer.json
    assert (told["window"], told["before"], told["units"]) == (hour(8), 4_000, 20_000)
    assert (told["dollars"], told["result"]) == (10.4, "warm")
    assert "takes 4,000 write units a second now; 16,000 more x $0.00065 are $10.40" in answer.err
    assert "an assumption that no bill has confirmed" in answer.err
    assert "quota" not in answer.err
    assert table_of(cli, hour(8)).warm == 20_000


def test_a_coming_window_is_warmed_ahead_and_the_quota_is_told(cli: CommandLine) -> None:
    answer = cli.run(*WARM, hour(9), "--units", "64000", "--yes")
    assert (answer.status, table_of(cli, hour(9)).warm) == (0, 64_000)
    assert "64,000 are above the default quota of 40,000 a table" in answer.err
    assert "gets warm for 64,000 units" in answer.out


def test_nothing_is_done_before_somebody_agreed(cli: CommandLine) -> None:
    asked = cli.run(*WARM, "current", "--units", "20000", stdin=b"no\n")
    assert (asked.status, asked.out) == (2, "")
    assert "nobody can be asked here: give --yes" in asked.err
    assert table_of(cli, hour(8)).warm == 4_000


@pytest.mark.parametrize(("typed", "warm"), [("yes", 20_000), ("no", 4_000)])
def test_a_person_is_asked(cli: CommandLine, typed: str, warm: int) -> None:
    with patch.object(Screen, "ask", return_value=typed) as asked:
        answer = cli.run(*WARM, "current", "--units", "20000")
    assert "warm the table of" in asked.call_args.args[0]
    assert answer.status == (0 if typed == "yes" else 2)
    assert table_of(cli, hour(8)).warm == warm


def test_a_call_may_be_repeated_and_waits_for_what_is_under_way(cli: CommandLine) -> None:
    first = cli.run(*WARM, "current", "--units", "8000", "--yes", "--wait", "--timeout", "0s")
    assert first.status in (0, 1)
    table_of(cli, hour(8)).warm_at = cli.pipeline.effects.now() + MINUTE
    early = cli.run(*WARM, "current", "--units", "8000", "--wait", "--timeout", "1s")
    assert (early.status, early.out.strip()) == (1, f"{hour(8)} is not warm yet")
    assert "costs" not in early.err
    other = cli.run(*WARM, "current", "--units", "9000", "--yes")
    assert other.status == 2
    assert "being made or changed: try again" in other.err
    cli.pipeline.effects.pass_by(MINUTE)
    again = cli.run(*WARM, "current", "--units", "8000")
    assert (again.status, again.out.strip()) == (0, f"{hour(8)} is warm for 8,000 units")


def test_a_table_is_never_cooled(cli: CommandLine) -> None:
    table_of(cli, hour(8)).warm = 20_000
    answer = cli.run(*WARM, "current", "--units", "8000", "--yes")
    assert (answer.status, answer.out) == (2, "")
    assert "is warm for 20,000 write units a second" in answer.err
    assert "cannot be lowered: give more than 20,000" in answer.err
    assert table_of(cli, hour(8)).warm == 20_000


def test_the_option_bounds_the_command(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYROLL_WARM_UNITS_MAX", "10000")
    answer = cli.run(*WARM, "current", "--units", "10001", "--yes")
    assert (answer.status, table_of(cli, hour(8)).warm) == (2, 4_000)
    assert "10,001 units are over the bound of 10,000 (tallyroll:warm_units_max)" in answer.err
    assert cli.run(*WARM, "current", "--units", "10000", "--yes").status == 0


def test_the_deployments_bound_holds(cli: CommandLine) -> None:
    cli.deployment.there = {"TALLYROLL_WARM_UNITS_MAX": "10000"}
    answer = cli.run(*WARM, "current", "--units", "10001", "--yes")
    assert answer.status == 2
    assert "over the bound of 10,000" in answer.err


@pytest.mark.parametrize("status", [Status.CLOSING, Status.SEALED, Status.DROPPED])
def test_a_window_that_takes_no_more_events(cli: CommandLine, status: Status) -> None:
    cli.pipeline.move(status, hour(7))
    answer = cli.run(*WARM, hour(7), "--units", "20000", "--yes")
    assert answer.status == 2
    assert f"is {status} and takes no more events: warm one that is open or coming" in answer.err


def test_windows_that_are_not_there(cli: CommandLine) -> None:
    def run(window: str) -> tuple[int, str]:
        answer = cli.run(*WARM, window, "--units", "20000", "--yes")
        return answer.status, answer.err

    status, told = run(hour(23))
    assert status == 2
    assert "it is made from 2026-11-20T21:00:00.000Z on (tallyroll:ahead_windows 2)" in told
    assert "tallyroll:warm_units" in told
    status, told = run("20261120T233000Z")
    assert (status, f"lies in the window {hour(23)}" in told) == (2, True)
    status, told = run("20201120T080000Z")
    assert (status, "there is no window 20201120T080000Z" in told) == (3, True)
    status, told = run("nonsense")
    assert (status, "an id looks like" in told) == (2, True)


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (None, "has no table yet: the roller makes it within a minute"),
        (TableFacts(TableStatus.CREATING, True, 4_000), "being made or changed: try again"),
        (TableFacts(TableStatus.ACTIVE, True, 4_000, provisioned=True), "tallyroll:provisioned"),
        (TableFacts(TableStatus.ACTIVE, True), "tells no warm throughput of its tables"),
    ],
)
def test_tables_that_cannot_be_warmed(
    cli: CommandLine, facts: TableFacts | None, told: str
) -> None:
    with patch.object(cli.pipeline.store, "describe_table", return_value=facts):
        answer = cli.run(*WARM, "current", "--units", "20000", "--yes")
    assert answer.status == 2
    assert told in answer.err


def test_a_window_in_keyspaces_is_refused(cli: CommandLine) -> None:
    catalog = cli.pipeline.catalog
    window = catalog.window(hour(8))
    assert window
    moved = replace(window, table=table_name("tallyroll", window.id, KEYSPACES))
    with patch.object(catalog, "window", return_value=moved):
        answer = cli.run(*WARM, "current", "--units", "20000", "--yes")
    assert answer.status == 2
    assert "Amazon Keyspaces, whose tables are warmed when they are made" in answer.err


@pytest.mark.parametrize("units", ["0", "-1", "1.5", "10000001", "many"])
def test_units_that_are_none(cli: CommandLine, units: str) -> None:
    answer = cli.run(*WARM, "current", f"--units={units}", "--yes")
    assert answer.status == 2
    assert "--units" in answer.err
    assert "10,000,000" in answer.err
