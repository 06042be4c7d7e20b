"""What the operator's commands say about windows in Keyspaces, beside some in DynamoDB."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.tools.listing import DynamoListing
from tallyroll.errors import Refused, StoreError, Unknown
from tallyroll.model.states import Status
from tallyroll.model.windows import DYNAMODB, KEYSPACES, store_of
from tallyroll.operations.doctor.checkup import Level
from tallyroll.resources import TAG_PIPELINE
from tests.cli.command_line import CommandLine
from tests.harness.both_stores import BothStores
from tests.harness.doctoring import CLEAN, bad, examined, grown, only
from tests.harness.pipeline import HOUR, NOW, StillEffects, hour
from tests.unit.adapters.test_no_keyspace import Unasked

NOT_FOLDED = "its largest keys are known once it is sealed"


@pytest.fixture
def pipeline() -> BothStores:
    """At half past eight: windows 06 and before in DynamoDB, 07 and later in Keyspaces."""
    settings = replace(CLEAN, keyspace="tallyroll", ahead_windows=1)
    made = BothStores(settings, StillEffects(NOW - 6 * HOUR))
    grown(3, made)
    made.change_store(KEYSPACES)
    grown(3, made)
    return made


@pytest.fixture
def cli(
    pipeline: BothStores, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(pipeline, monkeypatch, capsys)


def test_there_are_windows_of_each_kind(pipeline: BothStores) -> None:
    windows = pipeline.catalog.windows(0, NOW + 9 * HOUR)
    kinds = {(store_of(window.table), window.status) for window in windows}
    assert (DYNAMODB, Status.DROPPED) in kinds
    assert {(KEYSPACES, Status.OPEN), (KEYSPACES, Status.CREATING)} & kinds
    assert store_of(pipeline.state(hour(6)).table) == DYNAMODB
    assert store_of(pipeline.state(hour(7)).table) == KEYSPACES


def test_the_doctor_finds_nothing(pipeline: BothStores) -> None:
    assert bad(pipeline) == {}
    assert bad(pipeline, deep=True) == {}
    checks = examined(pipeline)
    assert checks["quota"].signs[0].text.startswith("in Keyspaces 3 tables of windows; to be kept")


def test_the_doctor_names_a_table_that_is_gone(pipeline: BothStores) -> None:
    pipeline.rows.drop_table(pipeline.state(hour(7)).table)
    sign = only(pipeline, "tables")
    assert sign.text.startswith(f"{hour(7)}: it is open, and its table tallyroll-{hour(7)} is gone")
    assert f"--source-table-name tallyroll_{hour(7)} " in sign.remedy


def test_the_doctor_names_a_table_that_another_hand_made(pipeline: BothStores) -> None:
    window = pipeline.state(hour(9))
    pipeline.rows.tag_table(window.table, {TAG_PIPELINE: "votes"})
    creating = replace(window, status=Status.CREATING, times={str(Status.CREATING): NOW})
    pipeline.catalog.advance(creating)
    told = f"another hand made its table tallyroll-{hour(9)}: it lacks our tag"
    assert bad(pipeline)["tables"] == [f"{hour(9)}: it is creating, and {told}"]


def test_the_doctor_names_a_table_that_the_catalog_should_not_name(pipeline: BothStores) -> None:
    window = pipeline.state(hour(8))
    pipeline.catalog.advance(replace(window, table="keyspaces:votes-20261120T080000Z"))
    assert "the catalog names the table keyspaces:votes-" in bad(pipeline)["tables"][0]


def unreachable(pipeline: BothStores, error: StoreError) -> None:
    def fails() -> None:
        raise error

    pipeline.store._keyspaces, pipeline.store._open = None, fails


def test_the_doctor_says_that_it_could_not_look(pipeline: BothStores) -> None:
    unreachable(pipeline, Unknown("no node answers"))
    check = examined(pipeline)["tables"]
    assert check.level is Level.UNCHECKED
    assert "its table in Keyspaces could not be looked at: no node answers" in check.text


def test_the_quota_of_keyspaces(pipeline: BothStores) -> None:
    few = replace(pipeline.settings, table_quota=7)
    found = bad(pipeline, settings=few)["quota"]
    assert found == [
        "in Keyspaces 3 tables of windows; to be kept 8 with the permanent ones, over a quota of 7"
    ]


def test_windows_are_listed_without_asking_dynamodb_about_them(cli: CommandLine) -> None:
    answer = cli.run("windows", "list", "--size", "--json")
    assert answer.status == 0
    listed = {row["window"]: row for row in answer.json}
    assert listed[hour(7)]["table"] == f"keyspaces:tallyroll-{hour(7)}"
    assert "size" not in listed[hour(7)]
    assert "size" in listed[hour(6)]
    assert DynamoListing(Caller(Unasked(), StillEffects())).card(listed[hour(7)]["table"]) is None


def test_counts_and_largest_keys(cli: CommandLine, pipeline: BothStores) -> None:
    counted = cli.run("count", "k1", "--windows", "--json").json[0]
    assert counted["events"] == 6
    assert counted["complete"]
    live = cli.run("top", "--window", hour(7))
    assert (live.status, NOT_FOLDED in live.err) == (2, True)
    closed = cli.run("top", "--window", hour(3), "--json")
    assert closed.json[0]["events"] == 3


@pytest.mark.parametrize(
    "error",
    [Refused("the keyspace votes is not there: set TALLYROLL_KEYSPACE"), Unknown("no node")],
)
def test_a_count_says_why_windows_are_missing(
    cli: CommandLine, pipeline: BothStores, error: StoreError
) -> None:
    unreachable(pipeline, error)
    answer = cli.run("count", "k1")
    assert answer.status == 1
    assert "k1: could not read" in answer.err
    assert str(error) in answer.err
    one = cli.run("event", "k1", "e", "--window", hour(7))
    assert (one.status, str(error) in one.err) == (3, True)
    some = cli.run("events", "k1", "--window", hour(7))
    refused = isinstance(error, Refused)
    assert (some.status, str(error) in some.err) == (3 if refused else 1, refused)


def test_status(cli: CommandLine) -> None:
    status = cli.run("status", "--json")
    assert (status.status, status.json[0]["window"]["takes_events"]) == (0, True)


def test_windows_that_are_not_open_yet_are_not_looked_for_in_dynamodb(
    cli: CommandLine, pipeline: BothStores
) -> None:
    window = pipeline.state(hour(8))
    pipeline.catalog.advance(replace(window, status=Status.CREATING))
    told = cli.run("windows", "list").err
    assert f"its table tallyroll-{hour(8)} is made in Keyspaces: the roller's log says more" in told


def test_teardown_by_export_takes_windows_of_both_stores_down(
    cli: CommandLine, pipeline: BothStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLYROLL_KEYSPACE", "tallyroll")
    ours = ("teardown", "--export", "--yes", "tallyroll", "--bucket", "b")
    answer = cli.run(*ours, "--dry-run")
    assert "cannot be archived" not in answer.err
    answer = cli.run(*ours, "--timeout", "2h")
    assert answer.status == 0, answer.err
    assert "aws keyspaces delete-keyspace --keyspace-name tallyroll" in answer.err
    windows = pipeline.catalog.windows(0, NOW + 9 * HOUR)
    assert {window.status for window in windows} == {Status.DROPPED}
    assert pipeline.rows.tables() == []


def test_teardown_by_force_lists_and_deletes_tables_of_both_stores(
    cli: CommandLine, pipeline: BothStores
) -> None:
    pipeline.rows.tag_table(pipeline.state(hour(9)).table, {TAG_PIPELINE: "votes"})
    window = pipeline.state(hour(9))
    pipeline.catalog.advance(replace(window, status=Status.CREATING, times={}))
    answer = cli.run("teardown", "--force", "--yes", "tallyroll", "--json")
    losses = {row["table"]: row for row in answer.json if "table" in row}
    assert losses[f"keyspaces:tallyroll-{hour(7)}"]["events"] is None
    assert f"keyspaces:tallyroll-{hour(9)} is not touched: another hand made it" in answer.err
    assert answer.status == 0, answer.err
    assert pipeline.rows.tables() == [f"keyspaces:tallyroll-{hour(9)}"]
