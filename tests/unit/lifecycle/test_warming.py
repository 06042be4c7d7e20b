"""What limits a table's writes, and when the roller warms it by itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.errors import Throttled
from tallyroll.lifecycle.roller import Roller
from tallyroll.lifecycle.runner import Rolled
from tallyroll.lifecycle.warming import PAUSE_MS, Bottleneck, bottleneck, next_units
from tallyroll.model.states import Moment, Status
from tallyroll.model.windows import KEYSPACES, table_name
from tallyroll.ports.table_listing import TableFacts, TableLoad, TableStatus
from tests.harness.pipeline import MINUTE, NOW, SMALL, TIME_LEFT, WINDOW, Pipeline, opened

TABLE = f"tallyroll-{WINDOW}"
BUSY = TableLoad(units=3_900, throttled=40)  # of 4,000: all partitions are at their limit
HOT = TableLoad(units=1_900, throttled=40)  # one of several is
FACTS = TableFacts(TableStatus.ACTIVE, protected=True, warm=4_000)


@pytest.mark.parametrize(
    ("load", "warm", "limit"),
    [
        (TableLoad(), 4_000, Bottleneck.NONE),
        (TableLoad(units=3_999), 4_000, Bottleneck.NONE),
        (TableLoad(3_900, 40, given=21), 4_000, Bottleneck.GIVEN),
        (TableLoad(3_900, 40, given=20), 4_000, Bottleneck.TABLE),
        (TableLoad(3_000, 1), 4_000, Bottleneck.TABLE),
        (TableLoad(2_999, 1), 4_000, Bottleneck.KEY),
        (TableLoad(3_000, 1), 8_000, Bottleneck.KEY),
        (TableLoad(3_000, 1), None, Bottleneck.UNKNOWN),
        (TableLoad(0, 1), 4_000, Bottleneck.UNKNOWN),  # its metric is late
    ],
)
def test_what_limits_a_table(load: TableLoad, warm: int | None, limit: Bottleneck) -> None:
    assert bottleneck(load, warm) is limit


@pytest.mark.parametrize(
    ("load", "facts", "most", "units"),
    [
        (BUSY, FACTS, 20_000, 8_000),
        (BUSY, FACTS, 6_000, 6_000),
        (BUSY, FACTS, 4_000, 0),
        (BUSY, FACTS, 0, 0),
        (HOT, FACTS, 20_000, 0),
        (TableLoad(), FACTS, 20_000, 0),
        (replace(BUSY, given=40), FACTS, 20_000, 0),
        (BUSY, None, 20_000, 0),
        (BUSY, replace(FACTS, warm=None), 20_000, 0),
        (BUSY, replace(FACTS, provisioned=True), 20_000, 0),
        (BUSY, replace(FACTS, warming=True), 20_000, 0),
        (BUSY, replace(FACTS, status=TableStatus.UPDATING), 20_000, 0),
    ],
)
def test_a_table_is_warmed_twice_as_much_up_to_the_bound(
    load: TableLoad, facts: TableFacts | None, most: int, units: int
) -> None:
    assert next_units(load, facts, most, NOW, None) == units
    assert next_units(load, facts, most, NOW, NOW - PAUSE_MS) == units
    assert next_units(load, facts, most, NOW, NOW - PAUSE_MS + 1) == 0


@given(
    st.builds(TableLoad, st.floats(0, 1e6), st.integers(0, 1_000), given=st.integers(0, 1_000)),
    st.integers(0, 100_000),
    st.integers(0, 100_000),
)
def test_a_table_is_never_cooled_nor_warmed_beyond_the_bound(
    load: TableLoad, warm: int, most: int
) -> None:
    units = next_units(load, replace(FACTS, warm=warm), most, NOW, None)
    assert units == 0 or warm < units <= most


@dataclass
class Loads:
    """Loads that a test has put there, by table; and which tables were asked for."""

    of: dict[str, TableLoad] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def table_load(self, table: str, since: int) -> TableLoad:
        self.asked.append(table)
        return self.of.get(table, TableLoad())


def run(pipeline: Pipeline, loads: Loads, most: int = 20_000) -> Rolled:
    settings = replace(SMALL, warm_units_max=most)
    ports = pipeline.store, pipeline.catalog, pipeline.totals, pipeline.queue, pipeline.effects
    return Roller(settings, *ports, loads).run(TIME_LEFT)


def test_the_roller_warms_a_throttled_window_once_in_ten_minutes() -> None:
    pipeline, loads = opened(), Loads({TABLE: BUSY})
    rolled = run(pipeline, loads)
    assert (rolled.steps["warm"], rolled.problems) == (1, [])
    assert pipeline.store.table(TABLE).warm == 8_000
    assert pipeline.state().times[Moment.WARMED] == pipeline.effects.now()
    others = [table for table in pipeline.store.tables() if table != TABLE]
    assert {pipeline.store.table(table).warm for table in others} == {4_000}

    loads.of[TABLE] = replace(BUSY, units=7_900)
    pipeline.effects.pass_by(PAUSE_MS - MINUTE)
    assert run(pipeline, loads).steps["warm"] == 0
    pipeline.effects.pass_by(MINUTE)
    assert run(pipeline, loads).steps["warm"] == 1
    assert pipeline.store.table(TABLE).warm == 16_000


def test_only_open_windows_are_looked_at_and_none_without_the_option() -> None:
    pipeline, loads = opened(), Loads({TABLE: BUSY})
    run(pipeline, loads, most=0)
    assert (loads.asked, pipeline.store.table(TABLE).warm) == ([], 4_000)
    pipeline.move(Status.SEALED)
    run(pipeline, loads)
    assert TABLE not in loads.asked
    assert all(pipeline.state(table[-16:]).status is Status.OPEN for table in loads.asked)


def test_a_window_in_keyspaces_is_left() -> None:
    pipeline, loads = opened(), Loads()
    there = table_name("tallyroll", WINDOW, KEYSPACES)
    pipeline.catalog.advance(replace(pipeline.state(), table=there))
    loads.of[there] = BUSY
    run(pipeline, loads)
    assert there not in loads.asked


def test_of_two_rollers_only_one_warms() -> None:
    """The other has read the state before, and its note is refused."""
    pipeline, loads = opened(), Loads({TABLE: BUSY})

    class Overtaken(Loads):
        def table_load(self, table: str, since: int) -> TableLoad:
            run(pipeline, loads)
            return super().table_load(table, since)

    rolled = run(pipeline, Overtaken({TABLE: BUSY}))
    assert rolled.steps["warm"] == 0
    assert pipeline.store.table(TABLE).warm == 8_000


def test_a_warming_that_fails_is_told_and_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, loads = opened(), Loads({TABLE: BUSY})

    def changing(table: str, units: int) -> None:
        raise Throttled("UpdateTable: ResourceInUseException")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.store, "warm_table", changing)
        rolled = run(pipeline, loads)
    (problem,) = rolled.problems
    assert problem == f"window {WINDOW} (not warmed): UpdateTable: ResourceInUseException"
    assert run(pipeline, loads).problems == []
    pipeline.effects.pass_by(PAUSE_MS)
    run(pipeline, loads)
    assert pipeline.store.table(TABLE).warm == 8_000
