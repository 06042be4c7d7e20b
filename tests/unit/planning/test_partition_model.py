"""The model of partitions: the table's rules, the aggregate beside the writer's transactions,
the loads, the report.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.errors import UsageError
from tallyroll.operations.rehearsal import Rehearsal
from tallyroll.planning.load import PeakLoad
from tallyroll.planning.partition_model.flow import flowed
from tallyroll.planning.partition_model.loads import (
    fixed,
    flat,
    hotspot,
    one_key,
    recorded,
    spike,
    step,
    zipf,
)
from tallyroll.planning.partition_model.report import POINTS_MAX, line_chart, page
from tallyroll.planning.partition_model.study import fewest_shards, strategies, world_of
from tallyroll.planning.partition_model.table import TableModel, TableRules
from tallyroll.planning.partition_model.transactions import played
from tallyroll.planning.partition_model.world import PRODUCT, World, shard_shares
from tallyroll.planning.shards import KeyWrites
from tests.harness.pipeline import spec_of

WRITES = KeyWrites(2.0, 0.0444)
ONE = one_key()


def table(rules: TableRules, places: list[float], weights: list[float]) -> TableModel:
    return TableModel(rules, np.array(places), np.array(weights), np.zeros(len(places)))


def one_hot_key(rate: float, world: World, seconds: float, seed: int = 1) -> float:
    """Events a second that are counted in the last minute."""
    course = flowed(fixed("flat", flat(rate), ONE), world, seconds=seconds, seed=seed)
    return sum(course.counted[-60:]) / 60


# --- the table


def test_a_partition_grants_what_it_has() -> None:
    made = table(TableRules(burst_seconds=0), [0.1, 0.9], [0.5, 0.5])
    assert made.partitions == 4
    made.pass_by(1)
    assert made.serve(np.array([1_500.0, 0, 0, 300]), 1).tolist() == [1_000, 0, 0, 300]


def test_unused_capacity_is_kept_for_300_s() -> None:
    made = table(TableRules(), [0.1], [1.0])
    made.pass_by(1_000)
    assert made.tokens[0] == 300_000
    made = table(TableRules(burst_seconds=0), [0.1], [1.0])
    made.pass_by(1_000)
    assert made.tokens[0] == 1_000


def test_a_table_grants_no_more_than_its_own_limit() -> None:
    made = table(TableRules(provisioned_units=1_500, burst_seconds=0), [0.1, 0.9], [0.5, 0.5])
    assert made.partitions == 2
    made.pass_by(1)
    assert made.serve(np.array([1_000.0, 1_000]), 1).sum() == pytest.approx(1_500)


def test_without_adaptive_capacity_a_partition_has_its_even_share() -> None:
    rules = TableRules(provisioned_units=1_500, burst_seconds=0, adaptive=False)
    made = table(rules, [0.1, 0.9], [0.5, 0.5])
    made.pass_by(1)
    assert made.serve(np.array([1_000.0, 0]), 1).tolist() == [750, 0]


def test_a_table_on_demand_doubles_its_peak_in_half_an_hour() -> None:
    made = table(TableRules(), [0.1, 0.3, 0.6, 0.9], [0.25] * 4)
    for _ in range(1_801):
        made.pass_by(1)
        made.serve(np.full(made.partitions, 4_000 / made.partitions), 1)
    assert made.units == pytest.approx(8_000)
    assert made.partitions == 8


def heated(
    rules: TableRules, places: list[float], weights: list[float], seconds: int
) -> TableModel:
    made = table(rules, places, weights)
    for _ in range(seconds):
        made.pass_by(1)
        made.serve(made.shares * 4_000, 1)
        made.split_hot()
    return made


def test_a_hot_partition_is_split_between_its_collections() -> None:
    made = heated(TableRules(), [0.01, 0.02, 0.9], [0.4, 0.4, 0.2], 130)
    assert made.splits == 1
    assert made.shares.tolist() == pytest.approx([0.4, 0.4, 0, 0, 0.2])


def test_a_single_collection_is_divided_only_if_its_sort_keys_do_not_ascend() -> None:
    assert heated(TableRules(), [0.01], [1.0], 400).splits == 0
    divided = heated(TableRules(ascending_sort_keys=False), [0.01], [1.0], 400)
    assert divided.splits >= 3
    assert divided.shares.max() <= 0.5
    indexed = TableRules(ascending_sort_keys=False, local_indexes=True)
    assert heated(indexed, [0.01], [1.0], 400).splits == 0


def test_a_full_partition_is_split() -> None:
    made = table(TableRules(), [0.1, 0.2], [0.5, 0.5])
    made.store(np.array([10.5e9, 0, 0, 0]))
    assert made.partitions == 5
    assert made.shares.tolist() == [0.5, 0.5, 0, 0, 0]
    assert made.stored.sum() == pytest.approx(10.5e9)


# --- the course


def test_a_load_within_the_limits_is_counted_at_once() -> None:
    course = flowed(
        fixed("flat", flat(900), ONE), World(shards=64, writes=WRITES), seconds=300, seed=3
    )
    assert sum(course.came) == pytest.approx(sum(course.counted), rel=1e-9)
    assert (course.refused_share, course.delay_max) == (0, 0)
    assert course.first_second_in_order() == 0


def test_one_shard_takes_a_partition_and_no_more() -> None:
    assert one_hot_key(2_000, World(shards=1, writes=WRITES), 600) == pytest.approx(498, abs=6)


def test_splits_do_not_help_too_few_shards_and_help_enough() -> None:
    rules = TableRules(warm_units=20_000)
    assert one_hot_key(4_000, World(shards=6, writes=WRITES, rules=rules), 900) < 3_100
    enough = World(shards=9, writes=WRITES, rules=rules)
    assert one_hot_key(4_000, enough, 900) == pytest.approx(4_000, rel=0.02)


def test_a_new_window_begins_cold() -> None:
    world = World(shards=16, writes=WRITES, window_seconds=600, rules=TableRules(burst_seconds=0))
    course = flowed(fixed("flat", flat(1_500), ONE), world, seconds=1_200, seed=2)
    refused = np.array(course.refused)
    assert refused[:60].max() > 0 == refused[550:600].max()
    assert refused[600:660].max() > 0


def test_no_more_is_in_flight_than_the_queue_allows() -> None:
    world = World(shards=10_000, writes=WRITES, writers=1_000, rules=TableRules(warm_units=3e6))
    assert world.held_max == 120_000
    rate = one_hot_key(1e6, world, 120)
    assert 0.8 * world.messages_per_second < rate <= world.messages_per_second


def test_a_course_follows_from_its_seed() -> None:
    shape, world = fixed("flat", flat(1_500), ONE), World(shards=16, writes=WRITES)
    first, again, other = (
        flowed(shape, world, seconds=60, seed=seed).counted for seed in (1, 1, 2)
    )
    assert first == again != other


# --- the aggregate beside the writer's own transactions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "keys", "shards"),
    [
        pytest.param(700, 1, 16, id="within"),
        pytest.param(1_500, 1, 1, id="one-shard"),
        pytest.param(2_500, 1, 16, id="throttled"),
        pytest.param(1_200, 40, 8, id="zipf"),
    ],
)
def test_the_flow_agrees_with_the_writers_transactions(rate: int, keys: int, shards: int) -> None:
    shape = fixed("flat", flat(rate), ONE if keys == 1 else zipf(keys))
    shares = shape.mix(0)
    load = PeakLoad(
        events_per_second=rate, hottest_per_second=rate * float(shares.max()), keys=keys
    )
    world = world_of(load, World(shards=shards, writes=WRITES, rules=TableRules(burst_seconds=0)))
    spec = replace(spec_of(), shards=shards)
    rehearsal = Rehearsal(spec, METERING, Random(1), 144)
    one_by_one = played(shape, world, rehearsal, seconds=100, seed=1)
    flow = flowed(shape, world, seconds=100, seed=1)
    assert sum(flow.counted) == pytest.approx(sum(one_by_one.counted), rel=0.05)
    assert sum(flow.units) == pytest.approx(sum(one_by_one.units), rel=0.05)


def test_what_is_played_tells_attempts_and_ages() -> None:
    shape = fixed("flat", flat(100), ONE)
    rehearsal = Rehearsal(replace(spec_of(), shards=4), METERING, Random(1), 144)
    fine = played(shape, World(shards=4, writes=WRITES), rehearsal, seconds=5)
    assert fine.refused_attempts == 0
    assert sum(fine.tried) > 0
    # A batch waits for a second, and then its messages take 0.2 ms each and a transaction 20 ms.
    assert 1 <= max(fine.ages) <= 1.3
    # No partition ever has so many units: every attempt fails, and the first message waits on.
    never = World(shards=4, writes=KeyWrites(record=2_000, shared=0))
    full = played(shape, never, rehearsal, seconds=5)
    assert (full.refused_attempts, sum(full.counted)) == (1, 0)
    assert full.ages[:-1] == [0] * 4
    assert full.ages[-1] == pytest.approx(5, abs=0.2)


# --- loads


def test_zipf_is_that_of_ycsb() -> None:
    _, shares = zipf(1_000)
    assert shares.sum() == pytest.approx(1)
    assert shares[0] / shares[1] == pytest.approx(2**0.99)
    assert shares[0] == pytest.approx(0.1294, abs=1e-3)  # 1 / zeta(1000, 0.99)


def test_a_hotspot_gives_x_of_the_keys_y_of_the_load() -> None:
    _, shares = hotspot(100, 0.2, 0.8)
    assert shares[:20].sum() == pytest.approx(0.8)
    assert shares.sum() == pytest.approx(1)
    for wrong in ((100, 0.0, 0.5), (1, 0.5, 0.5)):
        with pytest.raises(UsageError, match="hotspot"):
            hotspot(*wrong)


def test_a_step_and_a_spike() -> None:
    stepped, spiked = step(10, 100, 60), spike(10, 100, 60)
    assert [stepped(second) for second in (0, 59, 60, 500)] == [10, 10, 100, 100]
    assert [spiked(second) for second in (0, 45, 60)] == [10, 55, 100]
    assert spiked(660) == pytest.approx(10 + 90 / np.e)


def test_recorded_events_keep_their_times_and_keys() -> None:
    events = [("a", 1_000_000), ("b", 1_000_400), ("a", 1_002_000), ("c", 1_090_000)]
    shape, seconds = recorded(events)
    assert seconds == 91
    assert [shape.rate(second) for second in (0, 1, 2, 90)] == [2, 0, 1, 1]
    assert shape.keys[0] == "a"
    first = dict(zip(shape.keys, shape.mix(0), strict=True))
    assert first == pytest.approx({"a": 2 / 3, "b": 1 / 3, "c": 0})
    with pytest.raises(UsageError, match="no events"):
        recorded([])


# --- questions


def test_the_product_of_uuids_lands_on_one_of_200_shards() -> None:
    assert shard_shares(World(shards=200, writes=WRITES, suffix=PRODUCT)).max() == 1
    assert shard_shares(World(shards=200, writes=WRITES)).max() == 1 / 200


def test_strategies_side_by_side() -> None:
    load = PeakLoad(events_per_second=1_500, hottest_per_second=1_500, keys=1)
    world = world_of(load, World(shards=200, writes=WRITES, rules=TableRules(warm_units=8_000)))
    shape = fixed("flat", flat(1_500), ONE)
    found = {each.name: each for each in strategies(shape, load, world, seconds=200)}
    waits = {name: each.course.delay_max for name, each in found.items()}
    assert waits["unsharded"] > 100
    assert waits["product"] > 100
    assert waits["calculated"] == waits["calculated, packed"] == 0
    assert "twice" in found["random"].redelivered
    assert found["calculated, packed"].events_each == 1_000


def test_the_fewest_shards_keep_the_delay_and_one_less_does_not() -> None:
    shape = fixed("flat", flat(2_000), ONE)
    world = World(shards=1, writes=WRITES, rules=TableRules(warm_units=10_000))
    fewest = fewest_shards(shape, world, seconds=600, delay_seconds=60)
    assert fewest is not None
    assert 4 <= fewest < 64

    def waits(shards: int) -> float:
        return flowed(shape, world.with_shards(shards), seconds=600).delay_max

    assert waits(fewest) <= 60 < waits(fewest - 1)


def test_no_number_of_shards_helps_too_few_writers() -> None:
    shape = fixed("flat", flat(30_000), ONE)
    world = World(shards=1, writes=WRITES, rules=TableRules(warm_units=100_000))
    assert fewest_shards(shape, world, seconds=120, delay_seconds=5) is None


# --- the report


def test_the_report_is_a_page_with_charts_in_light_and_dark() -> None:
    shape, world = fixed("flat", flat(2_500), ONE), World(shards=16, writes=WRITES)
    course = flowed(shape, world, seconds=400)
    text = page("Night & day", [("", "count"), ("<load>", "1")], course)
    assert "prefers-color-scheme: dark" in text
    assert "Night &amp; day" in text
    assert "&lt;load&gt;" in text
    assert "<script" not in text
    assert "http" not in text
    charts = [
        ET.fromstring("<svg" + part.split("</svg>")[0] + "</svg>")
        for part in text.split("<svg")[1:]
    ]
    assert len(charts) == 5
    classes = {rect.get("class") for rect in charts[0].iter("rect")}
    assert {"h0", "h5"} <= classes
    assert all(chart.get("aria-label") for chart in charts)


def test_a_line_chart_ends_at_its_maximum() -> None:
    chart = ET.fromstring(line_chart(np.array([0.0, 3.0, 1.0]), 3, "s"))
    (line,) = chart.iter("polyline")
    heights = [float(point.split(",")[1]) for point in str(line.get("points")).split()]
    assert min(heights) == heights[1]
    assert [text.text for text in chart.iter("text")][:5] == ["0", "1", "2", "3", "4"]
    assert ET.fromstring(line_chart(np.array([0.0]), 1, "s")).tag == "svg"


# --- what a world, a load and a chart may be


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"suffix": "odd"}, "suffix 'odd': one of "), ({"shards": 0}, "shards 0: at least 1")],
)
def test_a_world_that_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        World(**{"shards": 4, "writes": WRITES, **wrong})


def test_shares_are_given_in_the_order_of_the_places() -> None:
    made = table(TableRules(), [0.9, 0.1], [0.8, 0.2])
    assert made.shares.tolist() == pytest.approx([0.2, 0, 0, 0.8])
    made.weigh(np.array([0.3, 0.7]))
    assert made.shares.tolist() == pytest.approx([0.7, 0, 0, 0.3])


def test_a_split_collection_keeps_its_share_when_the_shares_change() -> None:
    made = heated(TableRules(ascending_sort_keys=False), [0.01, 0.9], [1.0, 0.0], 400)
    assert made.splits >= 2
    made.weigh(np.array([0.5, 0.5]))
    assert made.shares.sum() == pytest.approx(1)
    assert made.shares[-1] == pytest.approx(0.5)


def test_a_recorded_load_moves_from_key_to_key() -> None:
    """A minute of one key, and a minute of a hundred: only the first one is too much."""
    second = range(60)
    events = [("hot", 1_000 * at) for at in second for _ in range(1_500)]
    events += [(f"key-{n % 100}", 1_000 * (60 + at)) for at in second for n in range(1_500)]
    shape, seconds = recorded(events)
    course = flowed(shape, World(shards=1, writes=WRITES), seconds=seconds)
    assert sum(course.refused[30:60]) > 0
    assert sum(course.counted[60:]) > sum(course.came[60:]) + 1_000
    assert course.queued[-1] + course.refused[-1] < course.queued[59] + course.refused[59]


def test_what_waits_for_old_windows_is_counted_in_later_ones() -> None:
    """Writers that take nothing let windows pass; then no event is forgotten."""
    world = World(shards=1, writes=WRITES, window_seconds=10, writers=1, message_ms=100_000)
    shape = fixed("flat", flat(50), ONE)
    course = flowed(shape, world, seconds=60)
    left = course.queued[-1] + course.refused[-1]
    assert sum(course.counted) + left == pytest.approx(sum(course.came))


def test_a_long_course_is_drawn_by_its_peaks() -> None:
    values = np.zeros(10 * POINTS_MAX)
    values[1_234] = 7
    drawn = line_chart(values, 100, "events")
    assert "at most 7.0" in drawn
    points = drawn.partition('class="course" points="')[2].partition('"')[0].split()
    assert len(points) == POINTS_MAX
    assert len({point.partition(",")[2] for point in points}) == 2
