"""Plans with logs: what a logged event takes, and what is left to records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.errors import UsageError
from tallyroll.limits import LOG_RATE_MAX
from tallyroll.planning import prices
from tallyroll.planning.alternatives import cheaper, ways_of
from tallyroll.planning.costs import (
    READS_OF_LOGS,
    SECONDS_A_MONTH,
    WRITES,
    WRITES_OF_LOGS,
    dollars_of,
)
from tallyroll.planning.facts import IdsSeen, Measurements, ids_seen
from tallyroll.planning.feedback import feedback
from tallyroll.planning.lines import as_json, lines_of
from tallyroll.planning.load import LoggedKey, PeakLoad, at_once
from tallyroll.planning.plan import planned
from tallyroll.planning.writes import LOGS_MEASURED, log_units
from tallyroll.settings import Settings
from tests.harness.pipeline import record_with

PEAK = PeakLoad(events_per_second=5_000, hottest_per_second=2_000, mean_per_second=300)
BARE = PeakLoad(events_per_second=1_000, hottest_per_second=1_000, keys=1, event_bytes=60)


@pytest.mark.parametrize("writers", LOGS_MEASURED)
def test_units_are_those_that_were_measured(writers: int) -> None:
    found = log_units(LoggedKey(1_000, 1_000), writers)
    assert found[:2] == pytest.approx(LOGS_MEASURED[writers])


def test_units_lie_between_what_was_measured_and_go_on_beyond_it() -> None:
    each = [sum(log_units(LoggedKey(1_000, 1_000), writers)[:2]) for writers in (1, 2, 4, 8, 16)]
    assert each == sorted(each)
    assert log_units(LoggedKey(1, 1), 4).writes > 2.041  # more than records take
    assert log_units(LoggedKey(100_000, 100_000), 1)[:2] == pytest.approx(LOGS_MEASURED[1])
    # Named far too high, a slot has hardly an event; named with the half, leaves have more.
    assert log_units(LoggedKey(1_000, 100_000), 16).writes > 2.041
    assert log_units(LoggedKey(1_000, 500), 4).writes < LOGS_MEASURED[4][0]
    payload = log_units(LoggedKey(1_000, 1_000), 4, 18.4 + 512)
    assert payload.writes == pytest.approx(LOGS_MEASURED[4][0] + 1)
    assert payload.reads > 10 * LOGS_MEASURED[4][1]


def test_a_plan_without_logs_is_what_it_was() -> None:
    plan = planned(PEAK)
    assert plan.load.recorded is plan.load
    assert plan.per_event == plan.batch.per_event
    assert plan.table_units == PEAK.events_per_second * plan.batch.per_event.each
    assert plan.logged.events == plan.logged_on_average.writes == 0
    text = str([line.name for line in lines_of(plan)]) + str(as_json(plan, dollars_of(plan)))
    assert "log" not in text.replace("logarithm", "")
    assert WRITES_OF_LOGS not in dollars_of(plan)


def test_logged_events_take_no_records_shards_and_warm_throughput() -> None:
    plain, logged = planned(PEAK), planned(replace(PEAK, logs={"home": LoggedKey(2_000, 300)}))
    assert logged.load.recorded.hottest_per_second == pytest.approx(3_000 / 999)
    assert (plain.shards, logged.shards) == (5, 1)
    units = logged.per_event.each
    assert logged.table_units == pytest.approx(3_000 * units + logged.logged.writes)
    assert logged.warm_units < plain.warm_units
    found, before = dollars_of(logged), dollars_of(plain)
    events = 120 * SECONDS_A_MONTH
    each = log_units(LoggedKey(120, 300), logged.writers.needed, PEAK.log_entry_bytes)
    assert found[WRITES_OF_LOGS] == pytest.approx(events * each.writes * prices.WRITE_UNIT)
    assert found[READS_OF_LOGS] == pytest.approx(events * each.reads * prices.READ_UNIT)
    assert found[WRITES] == pytest.approx(180 * SECONDS_A_MONTH * units * prices.WRITE_UNIT)
    assert found["SQS"] == before["SQS"]
    assert found["tables"] < before["tables"]
    assert logged.context()["tallyroll:logs"] == {"home": 300}
    names = {line.name: line.value for line in lines_of(logged)}
    assert names["events in a leaf of a log"] == pytest.approx(384.6, abs=0.1)
    assert as_json(logged, found)["load"]["logs"]["home"]["named"] == 300


def test_all_events_of_the_only_key_may_be_logged() -> None:
    plan = planned(replace(BARE, logs={"k": LoggedKey(1_000, 1_000)}))
    assert plan.table_units == pytest.approx(1_000 * LOGS_MEASURED[4][0], rel=0.01)
    assert dollars_of(plan)["in all"] < 0.2 * dollars_of(planned(BARE))["in all"]


def test_a_named_key_that_is_not_the_hottest_leaves_that_one() -> None:
    hot = {"a": 2_000.0, "b": 1_500.0}
    named = replace(PEAK, hot=hot, logs={"a": LoggedKey(1_900, 1_900)})
    assert named.recorded.hottest_per_second == 1_500
    assert dict(named.recorded.hot) == {"a": 100, "b": 1_500}
    other = replace(PEAK, logs={"b": LoggedKey(500, 500)})
    assert other.recorded.hottest_per_second == 2_000
    assert other.recorded.mean == pytest.approx(270)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"logs": {"k": LoggedKey(5_001, 1)}}, "more than all"),
        ({"logs": {"k": LoggedKey(1, 1)}, "packed": 2}, "events in packets are not logged"),
        (
            {"logs": {"j": LoggedKey(1, 1), "k": LoggedKey(1, 1)}, "keys": 1},
            "more than there are, 1",
        ),
    ],
)
def test_logs_that_cannot_be_are_refused(changes: dict[str, object], why: str) -> None:
    alone = {"hottest_per_second": 5_000} if "keys" in changes else {}
    with pytest.raises(UsageError, match=why):
        replace(PEAK, **(alone | changes))  # type: ignore[arg-type]


def test_a_key_gains_from_a_log_if_it_has_events_enough() -> None:
    assert not ways_of(1, writers=4).gains
    ways = ways_of(1_000, writers=4, event_bytes=60)
    assert ways.gains
    assert ways.records > ways.log > ways.packets > 0
    assert ways.text.startswith("records $3,357.24 a month, a log $")
    assert (ways_of(120, writers=4, peak=2_000).named, ways.named) == (250, 1_000)


def named(load: PeakLoad) -> dict[str, str]:
    return {each.name: each.loses for each in cheaper(planned(load))}


def test_logs_are_proposed_as_far_as_events_may_have_no_ids() -> None:
    unknown = named(PEAK)["a log of the hottest key"]
    assert "Nothing here tells how many have none" in unknown
    hot = {"a": 2_000.0, "b": 1_500.0, "cold": 1.0}
    known = replace(PEAK, hot=hot, plain={"a": 0.0, "b": 1_000.0, "cold": 1.0})
    (one,) = [name for name in named(known) if "log" in name]
    assert one == "logs of 'b' (125)"
    assert "the events of the file that have none" in named(known)[one]
    logged = replace(known, logs={"b": LoggedKey(1_000, 100)})
    assert not [name for name in named(logged) if "log" in name]
    assert not [name for name in named(replace(PEAK, packed=17)) if "log" in name]
    assert not [name for name in named(replace(PEAK, mean_per_second=0)) if "log" in name]


FACTS = Measurements(
    settings=Settings(logs={"known": 100}),
    peak_per_second=2_000.0,
    mean_per_second=400.0,
    keys=100,
    hot={"home": 1_000.0, "known": 500.0, "ids": 490.0, "cold": 1.0},
    item_bytes=80.0,
    ids={"home": IdsSeen(59, 60), "ids": IdsSeen(0, 60), "cold": IdsSeen(20, 20)},
)


def test_a_running_pipelines_keys_are_advised_by_their_rates_and_ids() -> None:
    found = feedback(FACTS, 0, 1)
    assert found.plan
    assert found.plan.load.logs == {"known": LoggedKey(500, 100)}
    (one,) = found.logs
    assert (one.key, one.ways.events_per_second, one.ways.named) == ("home", 200, 200)
    (note,) = [note for note in found.notes if "tallyroll:logs" in note]
    assert "59 of 60 ids that were looked at have the form of SQS's" in note
    assert f"records ${one.ways.records:,.2f} a month, a log ${one.ways.log:,.2f}" in note
    assert found.as_json()["logs"]["home"]["log"] == round(one.ways.log, 2)
    assert "tallyroll:logs" not in found.context
    names = [name for name, _, _ in found.measured]
    assert "write units of a logged event" in names


@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, packed_share=1.0, packet_events=100.0),
        replace(FACTS, mean_per_second=0.0),
        replace(FACTS, settings=Settings(store="keyspaces", suffix="calculated")),
    ],
)
def test_packed_idle_and_untransacted_pipelines_are_not_advised(facts: Measurements) -> None:
    assert feedback(facts, 0, 1).logs == []


def test_unknown_ids_are_said_to_be_unknown() -> None:
    (one,) = feedback(replace(FACTS, ids={"ids": IdsSeen(0, 60)}), 0, 1).logs
    assert "Whether its events have ids of their own is not known here" in one.text


@pytest.mark.parametrize(
    ("record_id", "like_sqs"),
    [
        ("5fea7756-0ea4-451a-a703-a558b933e274", 1),
        ("5FEA7756-0EA4-451A-A703-A558B933E274", 0),
        ("0193a1c0-7b1e-7c39-9d4f-6e1f0a2b3c4d", 0),  # a UUIDv7 is a producer's
        ("ballot-1", 0),
    ],
)
def test_ids_of_another_form_than_the_queues_are_producers(record_id: str, like_sqs: int) -> None:
    packet = record_with("p", format="packet1+zlib", data=b"x")
    assert ids_seen([record_with(record_id), packet]) == IdsSeen(like_sqs, 1)


def test_keys_that_are_hottest_one_after_another_are_proposed() -> None:
    """Each is logged at its own peak, which are more together than all keys' busiest second."""
    rates = {"a": 2_000.0, "b": 2_000.0}
    load = replace(PEAK, events_per_second=2_500, hot=rates, plain=rates)
    (logs,) = [each for each in cheaper(planned(load)) if "logs" in each.name]
    assert logs.name == "logs of 'a' (250), 'b' (250)"
    named = {"a": LoggedKey(2_000, 2_000), "b": LoggedKey(500, 7)}
    assert at_once(named, 2_500) == named
    assert at_once(named, 1_250) == {"a": LoggedKey(1_000, 2_000), "b": LoggedKey(250, 7)}
    assert at_once({"a": LoggedKey(0, 5)}, 1) == {"a": LoggedKey(0, 5)}


def test_a_key_is_named_with_no_more_than_the_option_takes() -> None:
    assert ways_of(250_000, writers=4).named == LOG_RATE_MAX
