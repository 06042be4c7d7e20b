"""What every catalog promises of days and months: no window comes into one unseen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.errors import StateConflict
from tallyroll.model.periods import PeriodState
from tallyroll.model.states import Calendar, Window
from tallyroll.model.windows import Grid, table_name, window_id
from tests.contract.engines import HOUR, START, Engine

DAY, NEXT_DAY, MONTH = "day#20261120", "day#20261121", "month#202611"


def window(hours: int) -> Window:
    """The window that starts so many hours after 20 November 2026, 08:00 UTC."""
    start = START + hours * HOUR
    return Window(window_id(start), table_name("t", window_id(start)), start, start + HOUR)


def state(engine: Engine, name: str) -> PeriodState:
    [found] = engine.catalog.periods(name, name)
    return found


def test_every_window_that_is_created_begins_an_epoch_of_its_day_and_month(engine: Engine) -> None:
    assert engine.catalog.periods("day#", "day#~") == []
    assert engine.catalog.unrolled() == []
    for hours in (0, 1, 16, 24 * 15):
        assert engine.catalog.create(window(hours))
    assert not engine.catalog.create(window(1))

    assert engine.catalog.periods("day#", "day#~") == [
        PeriodState(DAY, 2),
        PeriodState("day#20261121", 1),
        PeriodState("day#20261205", 1),
    ]
    assert engine.catalog.periods("month#202611", "month#202611") == [PeriodState(MONTH, 3)]
    assert [each.name for each in engine.catalog.periods(NEXT_DAY, "day#20261204")] == [NEXT_DAY]
    both = [*(NEXT_DAY, "day#20261205"), MONTH]
    assert [each.name for each in engine.catalog.periods(NEXT_DAY, MONTH)] == both
    assert engine.catalog.unrolled() == [*(DAY, NEXT_DAY, "day#20261205"), *(MONTH, "month#202612")]


def test_a_creation_that_is_refused_begins_no_epoch(engine: Engine) -> None:
    calendar = engine.catalog.found(Calendar(Grid.of(3600), START))
    other = Calendar(Grid.of(7200), START)
    with pytest.raises(StateConflict):
        engine.catalog.create(window(0), other)
    assert engine.catalog.periods("day#", "day#~") == []
    assert engine.catalog.create(window(0), calendar)
    assert state(engine, DAY) == PeriodState(DAY, 1)


def test_a_settled_period_is_not_to_be_rolled_up_until_a_window_is_created(engine: Engine) -> None:
    engine.catalog.create(window(0))
    begun = replace(state(engine, DAY), windows=1, digest="d", progress='[3, "key"]')
    written = engine.catalog.advance_period(begun)
    assert written == state(engine, DAY) == replace(begun, version=1)
    assert not written.complete
    assert DAY in engine.catalog.unrolled()

    done = engine.catalog.advance_period(replace(written, rolled=1, progress=None), settled=True)
    assert done == state(engine, DAY) == PeriodState(DAY, 1, 2, 1, 1, "d")
    assert done.complete
    assert engine.catalog.unrolled() == [MONTH]

    engine.catalog.create(window(1))
    again = state(engine, DAY)
    assert again == replace(done, epoch=2)
    assert not again.complete
    assert engine.catalog.unrolled() == [DAY, MONTH]
    engine.catalog.advance_period(replace(state(engine, MONTH), rolled=None), settled=True)
    assert engine.catalog.unrolled() == [DAY]


def test_a_state_is_written_only_as_it_was_read(engine: Engine) -> None:
    engine.catalog.create(window(0))
    read = state(engine, DAY)
    written = engine.catalog.advance_period(replace(read, progress="[1]"))
    with pytest.raises(StateConflict):
        engine.catalog.advance_period(replace(read, progress="[2]"))
    engine.catalog.create(window(1))
    for settled in (False, True):
        with pytest.raises(StateConflict):
            engine.catalog.advance_period(replace(written, rolled=1), settled=settled)
    assert state(engine, DAY) == replace(written, epoch=2)
    assert DAY in engine.catalog.unrolled()


def test_periods_are_no_windows(engine: Engine) -> None:
    engine.catalog.create(window(0))
    engine.catalog.advance_period(replace(state(engine, DAY), progress="[1]"))
    assert [each.id for each in engine.catalog.windows(0, 10**14)] == [window_id(START)]
