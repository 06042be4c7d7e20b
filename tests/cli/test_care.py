from __future__ import annotations

import io
import sys

import pytest

from tallyroll.cli import main
from tallyroll.errors import Refused
from tallyroll.model.states import Status
from tallyroll.operations.doctor.examine import EXAMINATIONS
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.cli.command_line import CommandLine
from tests.harness.doctoring import first, grown, states
from tests.harness.pipeline import HOUR, NOW, hour

CHECKS = f"tallyroll: {len(EXAMINATIONS)} checks"


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A pipeline that has worked for eight hours."""
    monkeypatch.setenv("TALLYROLL_BUCKET", "memory")
    for name, value in (("SHARDS", "4"), ("RETENTION_MS", str(2 * HOUR)), ("SETTLE_MS", "0")):
        monkeypatch.setenv(f"TALLYROLL_{name}", value)
    pipeline = grown()
    for table in pipeline.store.tables():
        pipeline.store.recover_table(table)
    return CommandLine(pipeline, monkeypatch, capsys)


def test_the_doctor_says_that_all_is_well(cli: CommandLine) -> None:
    answer = cli.run("doctor")
    assert (answer.status, answer.err) == (0, f"{CHECKS}, 0 findings, 0 warnings\n")
    lines = answer.out.splitlines()
    assert len(lines) == len(EXAMINATIONS)
    assert all(line.startswith("ok ") for line in lines)
    deep = cli.run("doctor", "--deep", "--json")
    assert deep.status == 0
    assert {check["level"] for check in deep.json} == {"ok"}


def test_the_doctor_names_findings_and_remedies(cli: CommandLine) -> None:
    table = f"tallyroll-{hour(8)}"
    cli.pipeline.store.table(table).protected = False
    cli.pipeline.store.make_table("tallyroll-20200101T000000Z")
    answer = cli.run("doctor")
    assert answer.status == 1
    assert f"{CHECKS}, 2 findings, 0 warnings\n" in answer.err
    lines = answer.out.splitlines()
    at = lines.index(f"finding    tables         {table}: it is not protected from deletion")
    assert f"remedy: `aws dynamodb update-table --table-name {table} " in lines[at + 1]
    found = {check["check"]: check for check in cli.run("doctor", "--json").json}
    assert found["tables"]["signs"][0]["window"] == hour(8)
    assert found["stray-tables"]["level"] == "finding"


def test_the_doctor_shows_a_check_with_many_signs_in_part(cli: CommandLine) -> None:
    for table in cli.pipeline.store.tables():
        cli.pipeline.store.table(table).tags.clear()
        cli.pipeline.store.table(table).protected = False
    answer = cli.run("doctor")
    assert "and 4 more (--json)" in answer.out


def test_what_the_doctor_cannot_check(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLYROLL_BUCKET")
    answer = cli.run("doctor")
    assert answer.status == 3
    assert "Give --bucket" in answer.out
    assert "1 could not be checked" in answer.err
    assert cli.run("doctor", "--bucket", "memory").status == 0
    assert cli.run("doctor", "--wide").status == 2
    cli.cut_off()
    assert cli.run("doctor").status == 3


def test_the_deployments_settings_hold(cli: CommandLine) -> None:
    cli.deployment.there = {"TALLYROLL_RETENTION_MS": "0", "TALLYROLL_SHARDS": "4"}
    answer = cli.run("doctor")
    assert answer.status == 1
    assert "past its retention, and not exported" in answer.out
    variable = "TALLYROLL_RETENTION_MS is '7200000' in this environment, '0' in the deployment"
    assert f"warning    settings       {variable}" in answer.out
    assert cli.deployment.asked == ["tallyroll"]
    late = cli.run("windows", "list")
    assert "late: " in late.err


def test_settings_of_a_deployment_that_may_not_be_read(cli: CommandLine) -> None:
    def refuse(pipeline: str) -> None:
        raise Refused("GetFunctionConfiguration: AccessDeniedException", "AccessDeniedException")

    cli.deployment.environment = refuse  # type: ignore[method-assign]
    answer = cli.run("doctor")
    assert answer.status == 0
    assert "settings are not known, this environment's are used" in answer.err
    assert cli.run("windows", "list").err == ""

    def unknown(pipeline: str) -> None:
        raise Refused("GetFunctionConfiguration: NoCredentialsError", "NoCredentialsError")

    cli.deployment.environment = unknown  # type: ignore[method-assign]
    assert "settings are not known" not in cli.run("doctor").err, "the remedy comes first"
    cli.deployment.environment = refuse  # type: ignore[method-assign]
    down = cli.run("teardown", "--force", "--yes", "tallyroll")
    assert down.status == 2
    assert "it could not be seen" in down.err


# --- windows list


def test_windows_with_everything(cli: CommandLine) -> None:
    listed = cli.run("windows", "list", "--hot", "--size", "--json").json
    sealed = next(window for window in listed if window["state"] == "sealed")
    assert sealed["since"] == sealed["times"]["sealed"]
    assert sealed["hot"] == {}
    assert sealed["size"]["items"] > 3
    assert all("late" not in window for window in listed)
    table = cli.run("windows", "list", "--size").out
    assert " items, " in table
    assert "late" not in table


def test_windows_by_state(cli: CommandLine) -> None:
    listed = cli.run("windows", "list", "--state", "open", "--state", "creating", "--json").json
    assert {window["state"] for window in listed} == {"open", "creating"}
    dropped = cli.run("windows", "list", "--state", "dropped", "--json").json
    assert [window["window"] for window in dropped] == [
        window for window, status in states(cli.pipeline).items() if status is Status.DROPPED
    ]
    assert cli.run("windows", "list", "--state", "ajar").status == 2


def test_hot_keys(cli: CommandLine) -> None:
    specs = cli.pipeline.catalog._specs
    hot = {"a": 8, "b": 64, "c": 8, "d": 16, "e": 2}
    specs[hour(8)] = specs[hour(8)].__class__(
        **{name: getattr(specs[hour(8)], name) for name in specs[hour(8)].__slots__} | {"hot": hot}
    )
    assert "b 64, d 16, a 8, 2 more" in cli.run("windows", "list", "--hot").out


def test_windows_that_are_late(cli: CommandLine) -> None:
    cli.pipeline.effects.pass_by(5 * HOUR)
    answer = cli.run("windows", "list")
    assert answer.status == 0
    assert f"late: {hour(9)}: not open yet" in answer.err
    assert f"not made: {hour(13)}, {hour(14)}, {hour(15)}; does the roller run?" in answer.err
    late = [window for window in cli.run("windows", "list", "--json").json if "late" in window]
    head, _, *rows = answer.out.splitlines()
    assert head.endswith(" late")
    assert 2 < sum(row.endswith(" late") for row in rows) == len(late)


# --- teardown


def test_taking_down_by_way_of_archives(cli: CommandLine) -> None:
    dry = cli.run("teardown", "--export", "--dry-run")
    assert dry.status == 0
    assert "windows would be closed" in dry.err
    before = states(cli.pipeline)
    assert before == states(cli.pipeline)
    answer = cli.run("teardown", "--export", "--yes", "tallyroll")
    assert answer.status == 0, answer.err
    assert cli.pipeline.store.tables() == []
    assert set(states(cli.pipeline).values()) == {Status.DROPPED}
    assert "aws dynamodb delete-table --table-name tallyroll-totals" in answer.err
    assert "identities" not in answer.err
    assert "s3://memory/archive/tallyroll/" in answer.err
    assert "s3://memory/payloads/tallyroll/" in answer.err
    assert cli.run("teardown", "--export", "--yes", "tallyroll").status == 0


def test_the_end_names_the_table_of_identities(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the settings have none any more: the stack keeps it."""
    for scope in ("key", "window"):
        monkeypatch.setenv("TALLYROLL_IDENTITY", scope)
        declared = declare(Settings(keep_identities=True)).identities
        assert declared
        cli.tables.declared_tables[declared.name] = declared
        answer = cli.run("teardown", "--export", "--yes", "tallyroll")
        assert answer.status == 0, answer.err
        assert "refer, and the table of identities. To remove them, too:" in answer.err
        assert "aws dynamodb delete-table --table-name tallyroll-identities" in answer.err


def test_windows_whose_tables_are_gone_are_told_at_once(cli: CommandLine) -> None:
    cli.pipeline.store.drop_table(f"tallyroll-{hour(8)}")
    says = f"{hour(8)} cannot be archived: its table tallyroll-{hour(8)} is gone\n"
    dry = cli.run("teardown", "--export", "--dry-run")
    assert dry.status == 0
    assert says in dry.err
    alive = [w for w, status in states(cli.pipeline).items() if status is not Status.DROPPED]
    assert f"{len(alive) - 1} windows would be closed" in dry.err
    before = cli.pipeline.effects.now()
    answer = cli.run("teardown", "--export", "--yes", "tallyroll")
    assert answer.status == 1
    assert answer.err.startswith(f"tallyroll: {says}")
    assert f"{hour(8)} is left, open: its table" in answer.err
    assert "the other windows are finished" in answer.err
    assert "run it again" not in answer.err
    assert cli.pipeline.store.tables() == []
    assert cli.pipeline.effects.now() - before < HOUR // 2
    again = cli.run("teardown", "--export", "--json")
    assert (again.status, again.json[-1]["problem"]) == (
        1,
        f"its table tallyroll-{hour(8)} is gone",
    )


def test_a_foreign_table_under_a_windows_name_is_left_alone(cli: CommandLine) -> None:
    table = f"tallyroll-{hour(8)}"
    cli.pipeline.store.table(table).foreign = "id S HASH"
    cli.pipeline.store.table(table).tags.clear()
    answer = cli.run("teardown", "--force", "--yes", "tallyroll")
    assert answer.status == 0
    assert f"{table} is not touched: another hand made it: its keys are id S HASH" in answer.err
    assert table not in answer.out
    assert cli.pipeline.store.tables() == [table]


def test_a_queue_with_messages_keeps_all_as_it_is(cli: CommandLine) -> None:
    cli.pipeline.queue.send('{"key": "k"}')
    answer = cli.run("teardown", "--export", "--yes", "tallyroll")
    assert answer.status == 1
    assert "the event queue holds messages" in answer.err
    assert cli.pipeline.state(hour(8)).status is Status.OPEN


def test_a_window_that_is_not_proven_is_told(cli: CommandLine) -> None:
    sealed = first(cli.pipeline, Status.SEALED)
    del cli.pipeline.totals._totals["k0", sealed]
    answer = cli.run("teardown", "--export", "--yes", "tallyroll", "--json")
    assert answer.status == 1
    assert answer.json[-1]["window"] == sealed
    assert "k0" in answer.json[-1]["problem"]
    assert "run it again" in answer.err


def test_taking_down_by_force(cli: CommandLine) -> None:
    cli.pipeline.write({"key": "k", "id": "e", "ts": NOW})
    tables = cli.pipeline.store.tables()
    assert cli.run("teardown", "--force", "--dry-run").status == 0
    assert cli.run("teardown", "--force").status == 2
    assert cli.run("teardown", "--force", "--yes", "tally").status == 2
    assert cli.pipeline.store.tables() == tables
    answer = cli.run("teardown", "--force", "--yes", "tallyroll")
    assert answer.status == 0, answer.err
    assert cli.pipeline.store.tables() == []
    lost = next(line for line in answer.out.splitlines() if hour(8) in line)
    assert lost.split() == [f"tallyroll-{hour(8)}", "open", "1", "records"]
    assert f"{len(tables)} windows with 13 events are in no archive" in answer.err
    again = cli.run("teardown", "--force")
    assert again.status == 0
    assert "no window table of 'tallyroll' is left" in again.err


def test_the_name_is_typed(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for typed, status in (("votes\n", 2), ("", 2), ("tallyroll\n", 0)):
        monkeypatch.setattr(sys, "stdin", Terminal(typed))
        assert main.main(["teardown", "--force"]) == status
    assert cli.pipeline.store.tables() == []


def test_tables_that_do_not_go_in_time_are_named(cli: CommandLine) -> None:
    cli.pipeline.store._deleting_ms = 24 * HOUR
    answer = cli.run("teardown", "--force", "--yes", "tallyroll")
    assert answer.status == 1
    assert "tallyroll: 0 tables deleted\ntallyroll: not gone in time: tallyroll-" in answer.err


def test_a_policy_that_denies_is_explained(cli: CommandLine) -> None:
    def deny(table: str) -> None:
        raise Refused("DeleteTable: AccessDeniedException: no", "AccessDeniedException")

    cli.pipeline.store.drop_table = deny  # type: ignore[method-assign]
    answer = cli.run("teardown", "--force", "--yes", "tallyroll")
    assert answer.status == 1
    assert "without the tag `proven`" in answer.err
    assert "is left: AccessDeniedException" in answer.err


def test_a_denied_drop_of_a_proven_table_is_explained(cli: CommandLine) -> None:
    def deny(table: str) -> None:
        raise Refused("DeleteTable: AccessDeniedException: no", "AccessDeniedException")

    cli.pipeline.store.drop_table = deny  # type: ignore[method-assign]
    answer = cli.run("teardown", "--export", "--yes", "tallyroll")
    assert answer.status == 1
    assert "attribute-based access control" in answer.err
    assert {window.status for window in cli.pipeline.catalog.windows(NOW - HOUR, NOW)} == {
        Status.DROPPING
    }


def test_a_stack_that_is_still_there(cli: CommandLine) -> None:
    cli.deployment.there = {"TALLYROLL_BUCKET": "memory"}
    for how in ("--export", "--force"):
        answer = cli.run("teardown", how, "--yes", "tallyroll")
        assert answer.status == 2
        assert "cdk destroy" in answer.err
    answer = cli.run("teardown", "--force", "--yes", "tallyroll", "--schedules-off")
    assert answer.status == 0


def test_wrong_use(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.run("teardown").status == 2
    assert cli.run("teardown", "--export", "--force").status == 2
    monkeypatch.delenv("TALLYROLL_BUCKET")
    answer = cli.run("teardown", "--export", "--yes", "tallyroll")
    assert answer.status == 2
    assert "--bucket" in answer.err


def test_strays_are_named(cli: CommandLine) -> None:
    cli.pipeline.store.make_table("tallyroll-20200101T000000Z", {"tallyroll": "tallyroll"})
    cli.pipeline.store.make_table("tallyroll-20200101T010000Z", {"tallyroll": "another"})
    answer = cli.run("teardown", "--export", "--yes", "tallyroll")
    assert answer.status == 1
    assert "no living window names: tallyroll-20200101T000000Z; --force deletes" in answer.err
    assert "tallyroll-20200101T010000Z is not touched: its tag" in answer.err
