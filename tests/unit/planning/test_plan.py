"""Plans: their numbers against the writer's own, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest

from benchmarks.conflicts import units_each
from benchmarks.costs import EVENTS, HOUR_MS, START_MS, of_a_month, packets, scattered, store_cost
from tallyroll.errors import UsageError
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.events import Event, event_body
from tallyroll.model.states import Window
from tallyroll.planning.costs import deleting_month, dollars_of, idle_month, month_of
from tallyroll.planning.lines import as_json, lines_of
from tallyroll.planning.load import PeakLoad, sampled
from tallyroll.planning.plan import SHARDS_LISTED_MAX, planned
from tallyroll.planning.shards import (
    KeyWrites,
    fullest,
    key_rates,
    partitions_at_start,
    shards_at_start,
    unlucky_most,
)
from tallyroll.planning.writes import batch_writes, distinct_keys
from tallyroll.settings import Settings
from tallyroll.settings.options import Options

BATCH = 980
EVENTS_ALONE = 2 * BATCH


def own_ids(keys: int, hottest: float = 0.0, payload: int = 0) -> tuple[PeakLoad, list[str]]:
    """A load of events with ids of their own, and their bodies: some of one key, the others of keys
    drawn alike.
    """
    chance = Random(3)
    bodies = []
    for number in range(EVENTS_ALONE):
        hot = chance.random() < hottest
        key = "hot" if hot else f"k-{chance.randrange(keys)}"
        text = json.dumps({"p": "x" * payload}) if payload else None
        event = Event(key, f"e-{number:08d}", START_MS + number % HOUR_MS, 1_000_000, text)
        bodies.append(event_body(event))
    share = hottest or 1 / keys
    size = sum(map(len, bodies)) // len(bodies)
    load = PeakLoad(
        events_per_second=980,
        hottest_per_second=980 * share,
        event_bytes=size,
        keys=keys + bool(hottest),
    )
    return load, bodies


def packed(events: int, payload: str = "") -> tuple[PeakLoad, list[str]]:
    """A load of one key in packets of so many events, and their bodies."""
    found = scattered("Ada", EVENTS, START_MS, 60_000)
    chance = Random(4)
    if payload:
        found = [replace(event, payload=payload % chance.random()) for event in found]
    sample = sampled((event, len(event_body(replace(event, id="e" * 16)))) for event in found)
    load = sample.load(packed=events, reads_per_second=0, staleness_seconds=1)
    return load, packets(found, events_max=events)


WORKLOADS = {
    "one hot key": lambda: own_ids(1),
    "ten keys": lambda: own_ids(10),
    "a thousand keys": lambda: own_ids(1_000),
    "every event its own key": lambda: own_ids(100_000_000),
    "half of one key": lambda: own_ids(1_000, hottest=0.5),
    "a tenth of one key": lambda: own_ids(100, hottest=0.1),
    "payloads of 3 KB": lambda: own_ids(10, payload=3_000),
    "packets of ten": lambda: packed(10),
    "packets of a thousand": lambda: packed(980),
    "packets with payloads": lambda: packed(980, payload='{"user":"%.16f"}'),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_write_units_are_those_of_the_writer(name: str) -> None:
    load, bodies = WORKLOADS[name]()
    spec = freeze(Window("20261120T080000Z", "", START_MS, START_MS + HOUR_MS), Settings())
    real = store_cost(spec, bodies).total / (EVENTS if load.packed > 1 else EVENTS_ALONE)
    found = batch_writes(load, messages=min(BATCH, len(bodies))).per_event.each
    assert found == pytest.approx(real, rel=0.05)


def test_compression_is_not_planned_with() -> None:
    load, bodies = own_ids(3, payload=20_000)
    spec = freeze(Window("20261120T080000Z", "", START_MS, START_MS + HOUR_MS), Settings())
    compressed = store_cost(spec, bodies).total / EVENTS_ALONE
    assert batch_writes(load, messages=min(BATCH, len(bodies))).per_event.each > 5 * compressed


def test_distinct_keys_are_those_that_are_drawn() -> None:
    load = PeakLoad(events_per_second=100, hottest_per_second=30, keys=50)
    chance, rounds = Random(5), 300
    drawn = 0
    for _ in range(rounds):
        keys = {0 if chance.random() < 0.3 else 1 + chance.randrange(49) for _ in range(40)}
        drawn += len(keys)
    assert distinct_keys(load, 40) == pytest.approx(drawn / rounds, rel=0.03)


def test_a_small_load_needs_nothing_special() -> None:
    plan = planned(PeakLoad(events_per_second=10, hottest_per_second=5))
    assert (plan.shards, plan.start_shards, plan.warm_units, plan.partitions) == (1, 1, 0, 4)
    assert plan.writers.needed == 4
    assert not [line for line in lines_of(plan) if line.warning]
    assert "tallyroll:hot_shards" not in plan.context()


def test_a_hot_key_gets_shards_and_warm_throughput() -> None:
    plan = planned(PeakLoad(events_per_second=10_000, hottest_per_second=10_000, keys=1))
    assert plan.shards == 23  # 20,000 record units at 0.9 x 1,000
    assert plan.warm_units >= 1.25 * plan.table_units
    assert plan.partitions == plan.warm_units // 1_000
    assert plan.start_shards is not None
    assert plan.shards < plan.start_shards <= SHARDS_LISTED_MAX
    writes = plan.batch.per_event
    rates = key_rates(writes, shards=plan.start_shards, partitions=plan.partitions)
    assert rates.low >= 0.98 * 10_000
    assert plan.table_units == pytest.approx(10_000 * units_each(), rel=0.01)


def test_other_keys_leave_a_hot_key_less() -> None:
    alone = planned(PeakLoad(events_per_second=500, hottest_per_second=500, keys=1))
    beside = planned(PeakLoad(events_per_second=1_000, hottest_per_second=500, keys=10))
    assert alone.start_shards
    assert beside.start_shards
    assert beside.start_shards > alone.start_shards


def test_a_load_that_no_shards_take_at_once_is_planned_with_a_warning() -> None:
    plan = planned(PeakLoad(events_per_second=200_000, hottest_per_second=200_000, keys=1))
    assert plan.start_shards is None or plan.start_shards > 1_000
    warned = {line.name: line.warning for line in lines_of(plan) if line.warning}
    assert "quota" in warned["write units a second"]
    assert "each table" in warned["warm throughput"]
    assert "delivers no more" in warned["messages in flight"]


def test_approximated_placements_are_near_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = [unlucky_most(shards, 8) for shards in (8, 64, 200)]
    assert sum(chance for _, chance in fullest(64, 8)) == pytest.approx(1)
    assert sum(chance for _, chance in fullest(64, 8, 0)) == pytest.approx(1)
    monkeypatch.setattr("tallyroll.planning.shards.PLAN_STEPS_MAX", 0)
    for near, at in zip([unlucky_most(n, 8) for n in (8, 64, 200)], exact, strict=True):
        assert near == pytest.approx(at, rel=0.06, abs=1)


def test_no_shards_are_enough_for_too_few_partitions() -> None:
    load = PeakLoad(events_per_second=2_500, hottest_per_second=2_500, keys=1)
    writes = batch_writes(load, messages=980).per_event
    assert shards_at_start(writes, events_per_second=2_500, partitions=4) is None


@pytest.mark.parametrize(
    "load",
    [
        PeakLoad(events_per_second=10, hottest_per_second=5),
        PeakLoad(events_per_second=20_000, hottest_per_second=5_000, keys=100),
        PeakLoad(events_per_second=1_000_000, hottest_per_second=1_000_000, keys=1, packed=1_000),
    ],
    ids=["small", "large", "packed"],
)
def test_the_context_is_one_that_a_deployment_takes(load: PeakLoad) -> None:
    plan = planned(load)
    context = plan.context()
    settings = Options.from_context(context).settings()
    assert settings.warm_units == plan.warm_units
    assert settings.shards >= min(plan.chosen_shards, 16)
    assert settings.stripes_min == plan.stripes
    assert settings.gates == plan.gates
    assert json.loads(json.dumps(as_json(plan, dollars_of(plan))))["context"] == context


def test_every_line_has_its_formula_and_source() -> None:
    plan = planned(PeakLoad(events_per_second=20_000, hottest_per_second=5_000, keys=100))
    assert all(line.formula and line.source for line in lines_of(plan))
    assert all(cost.formula for cost in month_of(plan))


def test_the_costs_of_an_idle_pipeline_are_those_of_make_costs() -> None:
    plan = planned(PeakLoad(events_per_second=1, hottest_per_second=1, keys=1, mean_per_second=0))
    found = dollars_of(plan)
    idle = idle_month(Settings())
    assert {name: found[name] for name in idle} == pytest.approx(idle)
    assert found["in all"] == pytest.approx(sum(idle.values()))
    printed = {name: float(text) for name, text in of_a_month(Settings())[1:]}
    assert printed["in all"] == pytest.approx(sum(idle.values()), abs=0.01)


def test_what_a_month_costs() -> None:
    load = PeakLoad(events_per_second=980, hottest_per_second=980, keys=1, mean_per_second=100)
    plan = planned(load)
    found = dollars_of(plan)
    events = 100 * 730 * 3_600
    assert found["writes of events"] == pytest.approx(events * 2.0408 * 0.625e-6, rel=1e-3)
    assert found["SQS"] == pytest.approx(events * 0.3 * 0.40e-6)
    assert deleting_month(plan).dollars == pytest.approx(events * 0.625e-6)
    assert found["sealing"] == pytest.approx(730 * 4 * 0.625e-6)
    assert found["point-in-time recovery"] == pytest.approx(found["tables"] * 0.20 / 0.25)
    assert found["warm throughput"] == 0
    asked = dollars_of(planned(replace(load, reads_per_second=10)))
    assert asked["HTTP API"] > 0
    assert asked["counts read"] == pytest.approx(min(10, 1 / 1) * 730 * 3_600 * 2 * 128 * 0.125e-6)


def test_a_file_gives_its_busiest_second_and_names_its_hot_keys() -> None:
    events = [(Event("hot", f"{n}", START_MS + n // 2, 1, None), 70) for n in range(1_300)]
    events += [(Event(f"k{n}", f"{n}", START_MS + 20 * n, 1, None), 90) for n in range(100)]
    load = sampled(events).load(packed=1, reads_per_second=0, staleness_seconds=1)
    assert load.events_per_second == 1_350  # 1,300 of the hot key, and 50 others in that second
    assert load.hottest_per_second == 1_300
    assert load.hot["hot"] == 1_300
    assert load.keys == 101
    assert load.mean == 700
    assert load.event_bytes == 72
    plan = planned(load)
    assert set(plan.hot_shards(16)) == {"hot"}
    assert "tallyroll:hot_shards" not in plan.context()  # every key has more
    assert Options.from_context(plan.context()).shards == Options().shards > plan.chosen_shards


def test_fewer_shards_take_more_partitions() -> None:
    # Two shards, of which each takes almost what a partition does: both must not lie on one. From
    # 21 partitions on, that happens in less than 5 % of the placements.
    bare = KeyWrites(record=2, shared=0)
    assert partitions_at_start(bare, events_per_second=900, shards=2) == 21
    assert partitions_at_start(bare, events_per_second=500, shards=2) == 4  # a new table's
    assert partitions_at_start(bare, events_per_second=1_001, shards=2) is None
    # Other keys take half of each of 40 partitions: half of what a shard takes fits beside them.
    assert partitions_at_start(bare, events_per_second=500, shards=2, other_units=20_000) == 40


def test_a_plan_tells_what_its_shards_save() -> None:
    load = PeakLoad(events_per_second=5_000, hottest_per_second=5_000, keys=1)
    plan = planned(load, Settings(shards=256))
    assert plan.chosen_shards > 256
    found = {line.name: line.value for line in lines_of(plan)}
    more = found["warm throughput with 256 shards"]
    assert more == plan.warm_units_of(256)
    assert more > plan.warm_units
    enough = planned(load, Settings(shards=plan.chosen_shards))
    assert not [each for each in lines_of(enough) if "with" in each.name]


def test_a_named_key_gets_its_shards_beside_the_load_of_the_others() -> None:
    hot = {"hot": 900.0, "cool": 5.0}
    load = PeakLoad(events_per_second=1_500, hottest_per_second=900, hot=hot)
    plan = planned(load)
    assert plan.hot_shards(16) == {"hot": plan.start_shards}
    alone = planned(replace(load, events_per_second=905))
    assert alone.hot_shards(0)["hot"] < plan.hot_shards(16)["hot"]
    # No key needs more than the hottest, however full the table is.
    full = planned(
        PeakLoad(events_per_second=1_900, hottest_per_second=500, hot={"a": 500, "b": 499})
    )
    assert full.hot_shards(0)["b"] <= full.chosen_shards


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"events_per_second": 0}, "must be a number above 0"),
        ({"events_per_second": float("nan")}, "must be a number above 0"),
        ({"events_per_second": 2e9}, "at most 10"),
        ({"hottest_per_second": 11}, "one key cannot have more than all"),
        ({"hottest_per_second": 5, "keys": 1}, "the only key has all events"),
        ({"hottest_per_second": 1, "keys": 3}, "the hottest has at least 3.33"),
        ({"keys": 0}, "keys 0"),
        ({"event_bytes": 0}, "event_bytes 0"),
        ({"event_bytes": 500_000}, "an item of DynamoDB has 400 KB"),
        ({"packed": 1_001}, "packed 1001"),
        ({"packed": 1_000, "event_bytes": 1_000}, "room for 276 events"),
        ({"mean_per_second": 11}, "the mean cannot be above the peak"),
        ({"mean_per_second": -1}, "must be 0 or more"),
        ({"reads_per_second": -1}, "reads_per_second -1"),
        ({"staleness_seconds": float("inf")}, "staleness_seconds inf"),
    ],
)
def test_nonsense_is_refused_with_a_reason(wrong: dict[str, float], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        PeakLoad(**({"events_per_second": 10, "hottest_per_second": 5} | wrong))  # type: ignore[arg-type]


def test_a_load_beyond_any_pipeline_is_refused_with_a_reason() -> None:
    with pytest.raises(UsageError, match="one key takes at most 4,500,000 a second"):
        planned(PeakLoad(events_per_second=4.6e6, hottest_per_second=4.6e6, keys=1, packed=1))
    with pytest.raises(UsageError, match="an SQS trigger runs at most 1,000"):
        planned(PeakLoad(events_per_second=4e6, hottest_per_second=4_000, keys=10_000))
    with pytest.raises(UsageError, match=r"there would be 8,[0-9]+ tables at once"):
        planned(
            PeakLoad(events_per_second=1, hottest_per_second=1),
            Settings(retention_ms=350 * 86_400_000),
        )


def test_a_file_without_times_or_events_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to plan for"):
        sampled([]).load(packed=1, reads_per_second=0, staleness_seconds=1)
    undated = sampled([(Event("k", "1", None, 1, None), 50)])
    with pytest.raises(UsageError, match="1 of 1 events have no time"):
        undated.load(packed=1, reads_per_second=0, staleness_seconds=1)


def test_counts_that_must_be_fresh_are_read_for_each_request() -> None:
    load = PeakLoad(events_per_second=50, hottest_per_second=5, keys=10, reads_per_second=100)
    costs = [
        {cost.name: cost.formula for cost in month_of(planned(asked, Settings()))}["counts read"]
        for asked in (replace(load, staleness_seconds=0), load)
    ]
    month = 2_628_000
    assert [formula.partition(" reads")[0] for formula in costs] == [
        f"{100 * month:,}",
        f"{2 * 10 * month:,}",  # by two sandboxes
    ]


def test_an_event_without_ts_happened_at_the_time_in_its_id() -> None:
    event = Event("k", "019cac36-80a5-703e-b704-7aaf0664b2b5", None, 1, None)
    later = Event("k", "e", 0x019CAC3680A5 + 5_000, 1, None)
    load = sampled([(event, 50), (event, 50), (later, 50)]).load(
        packed=1, reads_per_second=0, staleness_seconds=1
    )
    assert (load.events_per_second, load.mean) == (2, 0.5)
