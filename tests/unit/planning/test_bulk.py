"""A bulk load in a given time: the guide's figures, and those of events here."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tallyroll.errors import UsageError
from tallyroll.model.events import Event
from tallyroll.planning.bulk import BulkLoad, bulk_costs, bulk_lines, bulk_of, bulk_plan
from tallyroll.planning.load import sampled
from tallyroll.settings import Settings
from tests.harness.pipeline import NOW

HOUR_MS = 3_600_000
GUIDES = BulkLoad(
    items=20_000_000, item_bytes=1_024, keys=1_000, hottest_share=0.001, windows=1, totals=1_000
)


@pytest.mark.parametrize(
    ("minutes", "units", "rounded", "partitions", "here"),
    [(30, 11_111, "11,000 11", 12, 59_005), (180, 1_852, "1,900 2", 2, 9_835)],
)
def test_the_guides_load(
    minutes: int, units: int, rounded: str, partitions: int, here: int
) -> None:
    made = bulk_plan(GUIDES, Settings(), seconds=minutes * 60)
    lines = {line.name: line for line in bulk_lines(GUIDES, made)}
    assert lines["write units a second, as plain items"].value == units
    assert lines["partitions, as plain items"].value == partitions
    assert lines["partitions, as plain items"].formula.endswith(f"; of {rounded}")
    # Here an item of 1,024 bytes has 16 bytes more, and is written in a transaction.
    assert lines["write units a second"].value == here


def test_a_files_windows_and_totals_are_counted() -> None:
    events = [
        (Event("a" if n % 4 else "b", f"e{n}", NOW + n * HOUR_MS // 2, 0, None), 100)
        for n in range(8)
    ]
    bulk = bulk_of(sampled(events), Settings())
    windows = {(NOW + n * HOUR_MS // 2) // HOUR_MS for n in range(8)}
    assert (bulk.items, bulk.windows, bulk.hottest_share) == (8, len(windows), 0.75)
    pairs = Counter((event.key, (event.ts or 0) // HOUR_MS) for event, _ in events)
    assert bulk.totals == len(pairs)
    assert bulk_of(sampled(events), replace(Settings(), window="year")).windows == 1


def test_each_windows_table_is_warmed_and_has_gates() -> None:
    many = replace(GUIDES, windows=10, totals=10_000)
    one, ten = (
        {
            line.name: line.dollars
            for line in bulk_costs(each, bulk_plan(each, Settings(), seconds=1_800))
        }
        for each in (GUIDES, many)
    )
    for name in ("gates of new tables", "sealing", "warm throughput"):
        assert one[name] > 0
        assert ten[name] == pytest.approx(10 * one[name])
    assert ten["writes of events"] == one["writes of events"] > 0
    slow = {
        line.name: line
        for line in bulk_costs(GUIDES, bulk_plan(GUIDES, Settings(), seconds=86_400))
    }
    assert slow["warm throughput"].dollars == 0


@pytest.mark.parametrize(
    ("items", "seconds", "said"),
    [(0, 60, "items 0: must be"), (9, 0.5, "within 0.5 s: must be"), (9, 3e6, "to 30 days")],
)
def test_a_load_that_cannot_be_is_refused(items: int, seconds: float, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        bulk_plan(replace(GUIDES, items=items), Settings(), seconds=seconds)
