"""`tallyroll plan --from-deployment`: what is measured of a pipeline, and what to change."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tallyroll.errors import Refused
from tallyroll.model.states import Status
from tallyroll.operations.heat.logging_advice import log_advice
from tallyroll.ports.gauges import Gauge, Quota, Trigger
from tallyroll.settings.options import Options
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import MINUTE, NOW, SMALL, hour, opened

DENIED = Refused("AccessDenied: no", "AccessDenied")


@pytest.fixture
def measured(cli: CommandLine) -> CommandLine:
    """A pipeline with 1,200 events of one key within a minute, 30 of others, and all gauges."""
    write(cli, "hot", 1_200)
    for number in range(30):
        write(cli, f"k{number}", 1)
    cli.gauges.values = {
        Gauge.COUNTED: [30.0, 1_230.0],
        Gauge.COUNTED_SINGLE: [1_230.0],
        Gauge.COUNTED_PACKED: [0.0],
        Gauge.MESSAGES: [1_230.0],
        Gauge.THROTTLED: [0.0, 3.0],
        Gauge.BATCHES: [41.0],
        Gauge.BATCH_MS: [100.0, 200.0],
        Gauge.WRITERS: [2.0, 3.0],
        Gauge.WRITERS_THROTTLED: [0.0],
        Gauge.OLDEST_S: [1.0, 12.0],
        Gauge.IN_FLIGHT: [40.0, 30.0],
        Gauge.READS: [120.0],
    }
    cli.gauges.quotas = {
        Quota.TABLES: 2_500.0,
        Quota.TABLE_WRITES: 40_000.0,
        Quota.FUNCTIONS: 1_000.0,
    }
    cli.gauges.triggers = Trigger(1_000, 1, 4)
    cli.deployment.there = SMALL.to_env()
    return cli


def write(cli: CommandLine, key: str, events: int, ts: int = NOW) -> None:
    """Count events of a key, all within a second."""
    bodies = [{"key": key, "id": f"{key}{n}", "ts": ts} for n in range(events)]
    assert not cli.pipeline.write(*bodies).failures


def told(cli: CommandLine, *more: str) -> dict[str, Any]:
    """What the command says as JSON."""
    answer = cli.run("plan", "--from-deployment", "--json", *more)
    assert answer.status == 0, answer.err
    (found,) = answer.json
    return dict(found)


def settings(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["setting"]: each for each in found["settings"]}


def test_what_is_measured(measured: CommandLine) -> None:
    found = told(measured)
    assert (found["pipeline"], found["as_of"]) == ("tallyroll", "2026-11-20T08:30:00.000Z")
    assert found["not_known"] == []
    is_measured = found["measured"]
    assert (is_measured["length of a window, s"], is_measured["retention, s"]) == (3_600, 259_200)
    assert is_measured["events in them"] == 1_230
    assert is_measured["peak events a second"] == 20.5
    assert is_measured["mean events a second"] == pytest.approx(1_230 / 2.5 / 3_600)
    assert is_measured["keys of a window, at most"] == 31
    assert is_measured["hottest key"] == "hot"
    assert is_measured["its peak events a second"] == 20.0
    assert (is_measured["its shards"], is_measured["its stripes"]) == (4, 8)
    assert is_measured["share of packed events"] == 0.0
    assert is_measured["bytes of a single event's item"] > 40
    assert is_measured["quota of tables"] == 2_500
    assert is_measured["messages of a batch, on average"] == 30
    assert is_measured["ms of a batch, on average"] == 150
    assert is_measured["writers at once, at most"] == 3
    assert is_measured["writes throttled"] == 3
    assert is_measured["of these, for one partition"] == 0
    assert is_measured["age of the oldest message, s"] == 12
    assert is_measured["messages in flight, at most"] == 40
    assert is_measured["counts read a second"] == 2
    assert measured.gauges.since == {NOW - 1_438 * MINUTE}


def test_the_load_is_planned_for(measured: CommandLine) -> None:
    found = told(measured)
    load = found["plan"]["load"]
    assert (load["events_per_second"], load["hottest_per_second"]) == (20.5, 20.0)
    assert (load["keys"], load["packed"]) == (31, 1)
    advice = settings(found)
    assert advice["most writers at once"]["now"] == 4
    assert not advice["most writers at once"]["change"]
    # SMALL has eight stripes and four gates, too few for four writers of eight transactions.
    assert (advice["stripes of a tally"]["now"], advice["stripes of a tally"]["planned"]) == (
        8,
        128,
    )
    assert found["context"] == {"tallyroll:stripes": 128, "tallyroll:gates": 256}
    assert Options.from_context(found["context"]).stripes == 128


def test_the_tables_of_a_terminal(measured: CommandLine) -> None:
    answer = measured.run("plan", "--from-deployment")
    assert answer.status == 0
    rows = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert "hottest key hot tallies" in rows
    assert any(row.startswith("stripes of a tally 8 128 change 32 commits at once") for row in rows)
    assert any(row.startswith("warm throughput 0 0 ") for row in rows)
    assert "a month at the mean rate costs $" in answer.err
    assert "write units a second of a table not known here sealed windows" in rows
    assert "not known" not in answer.err


def test_the_changes_as_context(measured: CommandLine) -> None:
    answer = measured.run("plan", "--from-deployment", "--context")
    assert json.loads(answer.out) == told(measured)["context"]


def test_what_the_engine_does_not_have_is_not_known(cli: CommandLine) -> None:
    write(cli, "k", 100)
    found = told(cli)
    unknown = {name for name, value in found["measured"].items() if value is None}
    assert {"quota of tables", "batch size", "ms of a batch, on average"} <= unknown
    assert found["not_known"][0].startswith("the quota of tables: GetServiceQuota")
    assert settings(found)["most writers at once"]["now"] is None
    assert "tallyroll:max_concurrency" not in found["context"]
    answer = cli.run("plan", "--from-deployment")
    assert answer.status == 0
    assert "not known here" in answer.out
    assert "tallyroll: not known: the quota of tables: " in answer.err


def test_what_is_not_allowed_is_told_once_with_its_permission(measured: CommandLine) -> None:
    measured.gauges.values = dict.fromkeys(Gauge, DENIED)
    measured.gauges.quotas = dict.fromkeys(Quota, DENIED)
    measured.gauges.triggers = DENIED
    assert told(measured)["not_known"] == [
        "cloudwatch:GetMetricStatistics is not allowed: AccessDenied: no",
        "servicequotas:GetServiceQuota is not allowed: AccessDenied: no",
        "lambda:ListEventSourceMappings is not allowed: AccessDenied: no",
    ]
    # The tallies alone tell the load; of the keys that are not among the largest, on average.
    assert 20.3 < told(measured)["measured"]["peak events a second"] < 20.5


def test_no_events_no_plan(cli: CommandLine) -> None:
    found = told(cli)
    assert (found["plan"], found["measured"]["peak events a second"]) == (None, None)
    assert set(settings(found)) == {"quota of tables"}
    answer = cli.run("plan", "--from-deployment")
    assert answer.status == 0
    assert "no events were counted in the last windows" in answer.err


def test_what_there_is_no_time_for_is_told(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(cli, "early", 50, NOW - 3_600_000)
    write(cli, "k", 100)
    stripes, effects = cli.pipeline.store.stripes, cli.pipeline.effects

    def slow(*asked: Any) -> Any:
        effects.pass_by(20_000)
        return stripes(*asked)

    monkeypatch.setattr(cli.pipeline.store, "stripes", slow)
    found = told(cli)
    assert found["measured"]["events in them"] <= 100
    assert f"window {hour(8)}: only a part of its tallies was read" in found["not_known"]
    last = f"windows up to {hour(7)}: there was no time left to read them"
    assert last in found["not_known"]


def test_packets_are_measured(cli: CommandLine) -> None:
    entries = [[n, 1] for n in range(50)]
    for number in range(4):
        packet = {"v": 1, "id": f"p{number}", "key": "k", "t0": NOW, "events": entries}
        assert cli.pipeline.write(packet).events == 50
    found = told(cli)
    assert found["measured"]["share of packed events"] == 1.0
    assert found["measured"]["events in a packet"] == 50
    assert found["plan"]["load"]["packed"] == 50


def test_the_share_of_packets_without_a_metric_is_that_of_the_hottest_keys(
    cli: CommandLine,
) -> None:
    entries = [[n, 1] for n in range(60)]
    cli.pipeline.write({"v": 1, "id": "p", "key": "packed", "t0": NOW, "events": entries})
    write(cli, "single", 20)
    found = told(cli)["measured"]
    assert found["share of packed events"] == pytest.approx(0.75)
    cli.gauges.values = {Gauge.COUNTED_SINGLE: [60.0], Gauge.COUNTED_PACKED: [20.0, 20.0]}
    assert told(cli)["measured"]["share of packed events"] == pytest.approx(0.4)


def test_a_sealed_and_a_dropped_window_count(cli: CommandLine) -> None:
    write(cli, "early", 100, NOW - 7_200_000)
    write(cli, "k", 100)
    cli.pipeline.move(Status.DROPPED, hour(6), events=3_600_000, keys=7, peak=5_000)
    found = told(cli)
    assert found["measured"]["events in them"] == 3_600_100
    assert found["measured"]["write units a second of a table"] == 5_000
    assert found["measured"]["peak events a second"] == 1_000.0
    assert found["measured"]["keys of a window, at most"] == 7


def test_a_pipeline_that_never_rolled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = opened(replace(SMALL, name="young"))
    cli = CommandLine(pipeline, monkeypatch, capsys)
    monkeypatch.setattr(pipeline.catalog, "calendar", lambda: None)
    answer = cli.run("plan", "--from-deployment")
    assert answer.status == 3
    assert "has no calendar" in answer.err


@pytest.mark.parametrize(
    "more",
    [("--rate", "5"), ("x.jsonl",), ("--packed", "10"), ("--window", "1d"), ("--distinct", "5")],
)
def test_what_is_measured_is_not_given(cli: CommandLine, more: tuple[str, ...]) -> None:
    answer = cli.run("plan", "--from-deployment", *more)
    assert (answer.status, answer.out) == (2, "")
    assert "give only --reads, --staleness" in answer.err


def test_reads_may_be_given(measured: CommandLine) -> None:
    few = told(measured)["plan"]["dollars_a_month"]["HTTP API"]
    assert told(measured, "--reads", "200")["plan"]["dollars_a_month"]["HTTP API"] > 50 * few


def test_leaves_of_logs_are_no_packets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = replace(SMALL, logs={"home": 1_000})
    cli = CommandLine(opened(settings), monkeypatch, capsys)
    cli.deployment.there = settings.to_env()
    batch = [cli.pipeline.message({"key": "home"}) for _ in range(30)]
    batch = [replace(each, id=str(UUID(int=n)), sent=NOW - 5) for n, each in enumerate(batch)]
    assert cli.pipeline.writer().write(batch, 60_000).logged_events == 30
    write(cli, "single", 20)
    found = told(cli)["measured"]
    assert (found["share of packed events"], found["events in a packet"]) == (0, None)
    cli.gauges.values = {
        Gauge.COUNTED_SINGLE: [20.0],
        Gauge.COUNTED_PACKED: [20.0],
        Gauge.COUNTED_LOGGED: [60.0],
    }
    assert told(cli)["measured"]["share of packed events"] == pytest.approx(0.2)


def test_hot_keys_that_would_gain_from_a_log_are_told(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plain(cli, "home")
    monkeypatch.setattr(cli.pipeline.catalog, "hot", lambda _: {"home": False, "quiet": False})
    spec = cli.pipeline.spec()
    (advice,) = log_advice(cli.pipeline.store, spec, ["home", "quiet"], NOW)
    answer = cli.run("keys", "list", "--hot")
    assert (answer.status, advice.text in answer.err) == (0, True)
    assert advice.ways.events_per_second == pytest.approx(200_000 / 1_800)

    def refuse(*_: object) -> None:
        raise DENIED

    monkeypatch.setattr(cli.pipeline.store, "tallies", refuse)
    assert cli.run("keys", "list", "--hot").status == 0


def write_plain(cli: CommandLine, key: str) -> None:
    """Count 3,000 events of a key without ids, and 197,000 in packets."""
    found = [cli.pipeline.message({"key": key}) for _ in range(3_000)]
    found = [replace(each, id=str(UUID(int=n, version=4))) for n, each in enumerate(found)]
    assert not cli.pipeline.writer().write(found, 60_000).failures
    packet = {"key": key, "t0": NOW, "events": [[0, 1]] * 1_000}
    for number in range(197):
        cli.pipeline.write(packet | {"id": f"p{number}"})
