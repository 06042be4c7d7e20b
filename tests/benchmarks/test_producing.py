"""Keys in turn spread what sorted keys pile up."""

from __future__ import annotations

from benchmarks.producing import (
    LOAD_EVENTS,
    LOAD_KEYS,
    chart,
    hottest_keys,
    load,
    turned,
    units_by_second,
)
from tallyroll.limits import PARTITION_WRITE_UNITS


def test_keys_in_turn_write_evenly() -> None:
    events = load()
    assert sorted(turned(events)) == sorted(events)
    assert max(hottest_keys(events)) == LOAD_EVENTS
    assert max(hottest_keys(turned(events))) < 4 * LOAD_EVENTS / LOAD_KEYS
    before = max(map(max, units_by_second(events)))
    after = max(map(max, units_by_second(turned(events))))
    assert after < PARTITION_WRITE_UNITS < before


def test_the_chart_has_a_line_for_each_partition_in_both_orders() -> None:
    lines = list(chart())
    assert len(lines) == 10
    assert {len(bars) for _, _, bars, _ in lines} == {len(units_by_second(load()))}
