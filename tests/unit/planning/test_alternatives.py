"""Cheaper plans with what they lose, and the explanations of expensive ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.planning.alternatives import cheaper, explained, packed_by_minute
from tallyroll.planning.costs import WARM_THROUGHPUT, dollars_of
from tallyroll.planning.load import PeakLoad
from tallyroll.planning.plan import Plan, planned
from tallyroll.settings import Settings

# A peak of 14,749 write units a second, and 19,000 of warm throughput.
PEAK = PeakLoad(events_per_second=5_000, hottest_per_second=2_000, mean_per_second=300)
SMALL = PeakLoad(events_per_second=10, hottest_per_second=10, keys=1, mean_per_second=0)
WARM = 730 * 15_000 * 0.00065


def named(plan: Plan) -> dict[str, tuple[float, str]]:
    return {each.name: (each.dollars, each.loses) for each in cheaper(plan)}


def test_every_cheaper_way_has_its_dollars_and_its_loss() -> None:
    plan = planned(PEAK)
    in_all = dollars_of(plan)["in all"]
    found = named(plan)
    log = "a log of the hottest key"
    assert list(found) == ["packets of 17", "no warm throughput", "windows of a day", log]
    assert [dollars for dollars, _ in found.values()] == sorted(each[0] for each in found.values())
    dollars, loses = found["no warm throughput"]
    assert dollars == pytest.approx(in_all - WARM)
    assert (
        "A table takes the peak of 14,749 after 60 minutes of load. Here none gets so far: each"
        " table is written to for one window, 60 minutes. The mean of 885 fits." in loses
    )
    dollars, loses = found["windows of a day"]
    days = dollars_of(planned(PEAK, Settings(window_seconds=86_400)))
    assert dollars == pytest.approx(days["in all"])
    assert days[WARM_THROUGHPUT] == pytest.approx(WARM / 24)
    assert "24 times as large" in loses
    dollars, loses = found["packets of 17"]
    assert dollars == pytest.approx(dollars_of(planned(replace(PEAK, packed=17)))["in all"])
    assert "counts twice" in loses


def test_what_is_done_already_or_saves_nothing_is_not_proposed() -> None:
    assert named(planned(SMALL)).keys() == {"windows of a day"}  # its fewer gates
    days = Settings(window_seconds=86_400)
    assert named(planned(SMALL, days)) == {}
    assert named(planned(replace(PEAK, packed=17))).keys() == {"windows of a day"}
    found = named(planned(PEAK, days))
    assert found.keys() == {"packets of 17", "no warm throughput", "a log of the hottest key"}
    assert "after 60 minutes of load. The mean" in found["no warm throughput"][1]


def test_a_mean_that_a_cold_table_does_not_take_is_told() -> None:
    always = planned(replace(PEAK, mean_per_second=None))
    assert "The mean of 14,749 is above that too" in named(always)["no warm throughput"][1]


@pytest.mark.parametrize(
    ("load", "packed"),
    [
        # 18,000 events a minute of 1,000 keys: as many packets, and 18 that are full before.
        (PEAK, 17),
        # 58,800 events of one key: 58.8 that are full, and one that is not.
        (PeakLoad(events_per_second=980, hottest_per_second=980, keys=1), 983),
        # Of 1,060 bytes, of which a packet holds 260: 58,800 / (1 + 226.2).
        (PeakLoad(events_per_second=980, hottest_per_second=980, keys=1, event_bytes=1_060), 258),
        (PeakLoad(events_per_second=10, hottest_per_second=1, keys=10**6), 1),
        (SMALL, 1),
        (PeakLoad(events_per_second=10, hottest_per_second=10, keys=1, event_bytes=300_000), 1),
    ],
)
def test_how_many_events_a_minute_packs(load: PeakLoad, packed: int) -> None:
    assert packed_by_minute(load) == packed


def test_what_dominates_is_explained() -> None:
    (warm,) = explained(planned(PEAK))
    assert warm.startswith(
        f"Warm throughput is $7,118 of ${dollars_of(planned(PEAK))['in all']:,.0f}."
    )
    assert "15,000 units above the 4,000 of a new table x $0.00065 = $9.75" in warm
    assert "730 times a month" in warm
    assert explained(planned(SMALL)) == []
    (reads,) = explained(planned(replace(SMALL, reads_per_second=20_000)))
    assert "most of it for the requests of the HTTP API ($52,560)" in reads
    assert "400 sandboxes" in reads
    fresh = replace(SMALL, reads_per_second=20_000, staleness_seconds=0)
    assert "most of it for the read units of counts" in explained(planned(fresh))[0]


def test_the_largest_part_comes_first_and_packets_help_where_it_is_writes() -> None:
    plan = planned(PeakLoad(events_per_second=20_000, hottest_per_second=20_000, keys=1))
    writes, warm = explained(plan)
    found = dollars_of(plan)
    assert found["writes of events"] > found[WARM_THROUGHPUT]
    assert writes.startswith(f"Writes of events are ${found['writes of events']:,.0f} of")
    assert warm.startswith("Warm throughput is")
    packed = dollars_of(planned(replace(plan.load, packed=999)))["writes of events"]
    assert f"With 999 events in each, writes are ${packed:,.0f} (--packed 999)" in writes
    many = PeakLoad(events_per_second=100, hottest_per_second=1, keys=10**6)
    assert "a key has less than two a minute here" in explained(planned(many))[0]
    full = explained(planned(replace(many, events_per_second=10_000, packed=2)))
    assert "More events in a packet (--packed)" in full[0]
