"""Counts of windows on single rows: what they take while a window is live, and nothing after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.adapters.memory import MemoryTotals
from tallyroll.adapters.rows.metering import METERING, reading_of
from tallyroll.model.tallies import ReadCost
from tallyroll.reads.counts import Count, counter_json
from tallyroll.reads.reader import PortReader
from tests.harness.pipeline import NOW, SMALL, TIME_LEFT, StillEffects
from tests.harness.row_stage import RowStage, opened_rows, row


@pytest.fixture
def stage() -> RowStage:
    made = opened_rows()
    made.catalog.put_spec(made.spec)
    made.commit(*(row(f"e{number}", n=2) for number in range(9)), row("other", "l"))
    return made


def counted(stage: RowStage) -> Count:
    settings = replace(SMALL, cache_live_ms=0)
    reader = PortReader(settings, stage.store, stage.catalog, MemoryTotals(), StillEffects(NOW))
    return reader.count("k", None, None, TIME_LEFT)


def test_a_live_count_says_what_it_read(stage: RowStage) -> None:
    count = counted(stage)
    cost = sum(METERING.record_cost(row(f"e{number}", n=2)) for number in range(9))
    assert (count.events, count.complete) == (18, True)
    assert count.reading == ReadCost(9, -(-cost // 4))
    assert counter_json(count)["reading"] == {"rows": 9, "read_units_max": 3}


def test_a_count_is_not_complete_while_its_window_is_being_closed(stage: RowStage) -> None:
    stage.shut()
    count = counted(stage)
    assert (count.events, count.complete, count.missing) == (0, False, (stage.spec.window,))
    answer = counter_json(count)
    assert answer["complete"] is False
    assert "reading" not in answer


def test_a_folded_window_has_tallies(stage: RowStage) -> None:
    stage.shut()
    stage.fold()
    count = counted(stage)
    assert (count.events, count.complete, count.reading) == (18, True, None)
    assert "reading" not in counter_json(count)


def test_read_units_of_a_page() -> None:
    """A page of nothing is a read, too."""
    assert reading_of(0, 0) == (0, 1)
    assert reading_of(4, 4) == (4, 1)
    assert reading_of(5, 5) == (5, 2)
