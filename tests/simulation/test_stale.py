"""Reads that are old, transactions in part and writes that come late: what the lies look like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.memory import MemoryTotals
from tallyroll.errors import Unknown
from tallyroll.model.totals import Total
from tests.simulation import stale
from tests.simulation.holdings import WeighedItems
from tests.simulation.pipeline import System
from tests.simulation.stale import TOTALS_READS, TOTALS_STATE, PastLens, StoreLens
from tests.simulation.weather import CALM
from tests.simulation.wires import TARDY_MS_MAX, TotalsWire
from tests.simulation.world import Group, World

TOTAL = Total("hot", "20261130T235800Z", 3, 3_000_000)
READS = 60
GATE: Any = {"pk": {"S": "~g.1"}, "sk": {"S": "g"}, "open": {"BOOL": True}}


def run(world: World, body: Callable[[], object]) -> None:
    """Run a task of a world to its end."""
    world.spawn("test", body, Group("life", mortal=False))
    world.run()


def record(number: int) -> Any:
    """An item of the key hot."""
    return {"pk": {"S": "hot.1"}, "sk": {"S": f"#e{number}"}, "n": {"N": "1"}, "v": {"N": "1"}}


def place(item: Any) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


def test_an_eventual_read_shows_what_stood_a_while_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    world, totals = World(1, 0), MemoryTotals()
    world.weather = replace(CALM, stale_ms=10_000)
    lens = PastLens(world, TOTALS_STATE, TOTALS_READS)
    monkeypatch.setattr(stale, "EVENTUAL", stale.EVENTUAL | {"of_key"})
    soon: list[int] = []
    late: list[int] = []

    def body() -> None:
        lens.seen(totals, "put")
        totals.put([TOTAL])
        world.pause(100)
        for found, pause_ms in ((soon, 20_000), (late, 0)):
            for _ in range(READS):
                found.append(len(lens.seen(totals, "of_key").of_key("hot", "2", "3")))
            world.pause(pause_ms)

    run(world, body)
    assert 0 < sum(soon) < READS, "all are old, or none"
    assert late == [1] * READS
    assert len(totals.of_key("hot", "2", "3")) == 1


def test_a_read_that_asks_for_consistency_is_never_old() -> None:
    world, totals = World(1, 0), MemoryTotals()
    world.weather = replace(CALM, stale_ms=10_000)
    lens = PastLens(world, TOTALS_STATE, TOTALS_READS)
    assert lens.seen(totals, "of_key") is totals


def test_items_as_they_were() -> None:
    now = [0]
    items = WeighedItems(lambda: now[0])
    for at, item in ((10, record(1)), (20, record(2)), (30, {**record(1), "n": {"N": "2"}})):
        now[0] = at
        items[place(item)] = item
    assert items.as_of(9) == {}
    assert items.as_of(10) == {place(record(1)): record(1)}
    assert items.as_of(29) == {place(record(n)): record(n) for n in (1, 2)}
    assert items.as_of(30) == items


def table_of(world: World, lens: StoreLens, store: Any) -> tuple[Any, float]:
    """A table with a transaction of eight items, which queries see in part until a time."""
    store.make_table("t", {})
    world.pause(60_000)
    items = store.weighed("t")
    items[place(GATE)] = GATE
    first = len(items.changes)
    for number in range(8):
        items[place(record(number))] = record(number)
    return items, lens.take_apart("t", items, first)


def test_queries_see_a_transaction_in_part_until_it_is_answered_and_gets_see_it_whole() -> None:
    system = System(1)
    world, store = system.world, system.store
    world.weather = replace(CALM, parted=1.0)
    lens = StoreLens(world, 4_000)
    seen: list[int] = []

    def body() -> None:
        items, shown_at = table_of(world, lens, store)
        assert world.now < shown_at <= world.now + 4_000
        while world.now < shown_at:
            assert lens.seen(store, "record").items("t") is items
            seen.append(len(lens.seen(store, "stripes").items("t")))
            world.pause(10)
        assert lens.seen(store, "stripes").items("t") == items
        assert items.unbalanced, "what was put has no tallies: the test knows the items by now"

    run(world, body)
    assert seen == sorted(seen), "what was seen once is seen from then on"
    assert min(seen) < 9
    assert len({*seen}) > 3


def test_what_a_get_has_shown_is_seen_by_later_queries() -> None:
    system = System(1)
    world, store = system.world, system.store
    world.weather = replace(CALM, parted=1.0)
    lens = StoreLens(world, 4_000)

    def body() -> None:
        items, _ = table_of(world, lens, store)
        lens.reveal("t", ["ho", "hot.1.2"])
        assert len(lens.seen(store, "stripes").items("t")) < len(items)
        lens.reveal("t", ["hot"])
        assert lens.seen(store, "stripes").items("t") == items

    run(world, body)


def test_a_tardy_write_is_carried_out_after_it_was_given_up() -> None:
    world, totals = World(1, 0), MemoryTotals()
    world.weather = replace(CALM, tardy=1.0)
    wire = TotalsWire(world, totals)

    def body() -> None:
        with pytest.raises(Unknown, match="still under way"):
            wire.put([TOTAL])
        assert totals.listed() == []
        [late] = world.under_way
        assert not late.done

    run(world, body)
    assert totals.listed() == [TOTAL]
    assert 1_000 < world.now <= TARDY_MS_MAX + 1_000
    assert world.under_way[0].done
