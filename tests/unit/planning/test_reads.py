"""Reads of counts: sandboxes, reads of tables past their caches, and what a month of them costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.errors import SettingsError, UsageError
from tallyroll.limits import TABLE_UNITS_QUOTA
from tallyroll.planning.costs import AGGREGATOR, COUNTS_READ, HTTP_API, dollars_of
from tallyroll.planning.lines import PlanLine, lines_of
from tallyroll.planning.load import STALENESS_MAX_SECONDS, PeakLoad
from tallyroll.planning.plan import planned
from tallyroll.planning.reads import (
    API_READS_DEFAULT,
    API_READS_QUOTA,
    CACHE_SECONDS_DEFAULT,
    reading_of,
)
from tallyroll.settings import Settings
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError

VOTE = PeakLoad(events_per_second=980, hottest_per_second=980, keys=1, reads_per_second=20_000)
MANY = PeakLoad(events_per_second=50, hottest_per_second=5, keys=10, reads_per_second=100)


def test_every_sandbox_reads_for_itself() -> None:
    """20,000 reads of 20 ms: 400 at once, each of which reads the key once a second.

    400/s x 2,628,000 s x 128 stripes x 2 windows x $0.125 a million = $33,638.40.
    """
    reading = reading_of(VOTE)
    assert (reading.sandboxes, reading.from_tables) == (400, 400)
    found = dollars_of(planned(VOTE))
    assert found[COUNTS_READ] == pytest.approx(33_638.40)
    assert found[HTTP_API] == pytest.approx(52_560)
    assert found[AGGREGATOR] == pytest.approx(10_512 + 24_213.31, abs=0.01)


@pytest.mark.parametrize(
    ("load", "from_tables"),
    [
        (replace(VOTE, staleness_seconds=10), 40),
        (replace(VOTE, staleness_seconds=0), 20_000),
        (replace(VOTE, reads_per_second=10), 1),
        (replace(VOTE, reads_per_second=0.5), 0.5),
        (MANY, 20),  # 2 sandboxes x 10 keys
        (replace(MANY, keys_asked=3), 6),
        (replace(MANY, reads_per_second=15), 10),
        (replace(MANY, reads_per_second=8), 8),  # never more than is asked for
        (replace(MANY, reads_per_second=0), 0),
    ],
)
def test_how_many_counts_are_read_from_tables(load: PeakLoad, from_tables: float) -> None:
    assert reading_of(load).from_tables == pytest.approx(from_tables)


def test_reads_beyond_the_quotas_are_warned_of() -> None:
    def warned(reads: float) -> set[str]:
        lines = lines_of(planned(replace(VOTE, reads_per_second=reads)))
        return {
            line.name for line in lines if line.warning and "counts" in line.formula + line.name
        }

    assert warned(10_000) == set()
    assert warned(10_001) == {"counts asked for, a second"}
    lines = lines_of(planned(replace(VOTE, reads_per_second=50_001)))
    (sandboxes,) = (line for line in lines if line.name == "sandboxes of the aggregator")
    assert sandboxes.value == 1_001
    assert "quota of 1,000 functions" in sandboxes.warning
    assert not [
        line
        for line in lines_of(planned(replace(VOTE, reads_per_second=0)))
        if "counts" in line.name
    ]


def test_the_context_lets_the_reads_through_the_api() -> None:
    def allowed(reads: float) -> int:
        return Options.from_context(
            planned(replace(VOTE, reads_per_second=reads)).context()
        ).reads_per_second

    assert allowed(0) == allowed(99.5) == Options().reads_per_second == API_READS_DEFAULT
    assert allowed(100.5) == 101
    assert allowed(20_000) == API_READS_QUOTA
    with pytest.raises(OptionsError, match="reads_per_second"):
        Options(reads_per_second=API_READS_QUOTA + 1)


def test_the_context_keeps_counts_as_long_as_they_may_be_old() -> None:
    def kept(staleness_seconds: float, load: PeakLoad = VOTE) -> int:
        context = planned(replace(load, staleness_seconds=staleness_seconds)).context()
        return Options.from_context(context).settings().cache_live_ms

    assert kept(1) == Settings().cache_live_ms == CACHE_SECONDS_DEFAULT * 1_000
    assert kept(30) == 30_000
    assert kept(0.5) == kept(0) == 0
    assert kept(30, replace(VOTE, reads_per_second=0)) == 1_000


def test_counts_over_what_a_table_gives_are_warned_of() -> None:
    """A count reads each stripe: 3,000 units a partition, and 40,000 a table by default."""

    def line(reads: float, load: PeakLoad = VOTE) -> PlanLine:
        plan = planned(replace(load, reads_per_second=reads, staleness_seconds=0))
        assert plan.items_of_count == max(plan.stripes, *plan.hot_shards().values(), 0)
        (found,) = (each for each in lines_of(plan) if each.name.startswith("read units"))
        assert found.value == round(reads * plan.items_of_count)
        assert f"{plan.partitions} partitions have {3_000 * plan.partitions:,}" in found.formula
        return found

    plan = planned(VOTE)
    most = min(3_000 * plan.partitions, TABLE_UNITS_QUOTA) // plan.items_of_count
    assert not line(most).warning
    assert "tallyroll:cache_live_seconds" in line(most + 1).warning


def test_no_count_is_staler_than_a_cache_may_keep_it() -> None:
    most = STALENESS_MAX_SECONDS * 1_000
    assert Settings(cache_live_ms=most).cache_live_ms == most
    with pytest.raises(SettingsError, match="CACHE_LIVE_MS"):
        Settings(cache_live_ms=most + 1)
    with pytest.raises(
        UsageError, match="staleness_seconds 61: a count is cached for at most 60 s"
    ):
        replace(VOTE, staleness_seconds=STALENESS_MAX_SECONDS + 1)


@pytest.mark.parametrize("asked", [0, 11])
def test_only_keys_that_there_are_can_be_asked_for(asked: int) -> None:
    with pytest.raises(UsageError, match=f"keys_asked {asked}: must be from 1 to 10, all keys"):
        replace(MANY, keys_asked=asked)
