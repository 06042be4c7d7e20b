"""Tallies of a width of their own: they say which shards a list has to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb import store as dynamodb
from tallyroll.adapters.memory import store as memory
from tallyroll.model.records import Increment, Record, increments_of
from tallyroll.model.specs import Spec
from tallyroll.ports.store import Verdict
from tallyroll.reads import hints
from tallyroll.reads.hints import shards_to_list
from tallyroll.reads.lookups import Lookups
from tests.contract.engines import Engine, counted, record
from tests.contract.test_retractions import retracted, stored, tombstone_of
from tests.harness.item_sizes import item_bytes

OWN, OF_SHARDS = "calculated+s1", "calculated"
PLENTY = 60_000


def opened(engine: Engine, shards: int = 256, suffix: str = OWN) -> Spec:
    spec = engine.opened(replace(engine.spec(shards=shards), suffix=suffix))
    engine.catalog.put_spec(spec)
    return spec


def asked(engine: Engine, patch: pytest.MonkeyPatch) -> list[int]:
    """The shards of the Queries that are made from now on."""
    shards: list[int] = []
    records = engine.store.records

    def noted(spec: Spec, key: str, shard: int, after: str, limit: int) -> Any:
        shards.append(shard)
        return records(spec, key, shard, after, limit)

    patch.setattr(engine.store, "records", noted)
    return shards


def lookups(engine: Engine) -> Lookups:
    return Lookups(engine.store, engine.catalog, engine.totals, engine.effects)


def listed(engine: Engine, spec: Spec, limit: int = 100) -> list[str]:
    ids: list[str] = []
    cursor = None
    while not ids or cursor:
        page = lookups(engine).events("k", spec.window, PLENTY, limit=limit, cursor=cursor)
        assert page.complete
        ids += [one.id for one in page.found]
        cursor = page.cursor
        if not page.found:
            break
    return ids


def uncovered(engine: Engine, spec: Spec, *records: Record) -> None:
    """Store records without blocks."""
    with pytest.MonkeyPatch.context() as patch:
        for adapter in (dynamodb, memory):
            patch.setattr(adapter, "blocks_of", lambda *_: {})
        counted(engine.store, spec, *records)


@pytest.mark.parametrize(("shards", "most"), [(256, 16), (1_024, 48), (64, 3), (16, 16)])
def test_a_list_of_three_events_reads_few_shards(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, shards: int, most: int
) -> None:
    spec = opened(engine, shards)
    for number in range(3):
        counted(engine.store, spec, record(spec, "k", f"e{number}"))
    read = asked(engine, monkeypatch)
    assert listed(engine, spec) == ["e0", "e1", "e2"]
    assert 3 <= len(read) <= most


def test_every_record_lies_in_a_block_of_its_tally(engine: Engine) -> None:
    spec = opened(engine, 100)
    ids = [f"e{number}" for number in range(120)]
    for first in range(0, len(ids), 30):
        counted(engine.store, spec, *(record(spec, "k", name) for name in ids[first : first + 30]))
        tally = engine.store.tallies(spec, ["k"])["k"]
        wanted = {spec.block("k", spec.shard("k", name)) for name in ids[: first + 30]}
        assert (set(tally.blocks), tally.covered) == (wanted, first + 30)
    assert listed(engine, spec, limit=50) == sorted(ids)


def test_a_page_reads_the_tallies_anew(engine: Engine) -> None:
    """What comes between two pages, on a shard that held nothing, is listed."""
    spec = opened(engine)
    counted(engine.store, spec, *(record(spec, "k", name) for name in "ac"))
    page = lookups(engine).events("k", spec.window, PLENTY, limit=1)
    assert [one.id for one in page.found] == ["a"]
    counted(engine.store, spec, *(record(spec, "k", name) for name in "bdefgh"))
    rest = lookups(engine).events("k", spec.window, PLENTY, cursor=page.cursor)
    assert [one.id for one in rest.found] == list("bcdefgh")


def test_a_key_without_events_reads_no_shard(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = opened(engine)
    read = asked(engine, monkeypatch)
    assert not listed(engine, spec)
    assert not read


def test_all_shards_are_read_unless_every_event_is_covered(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retraction takes from the count, not from what is covered: so it is added again."""
    spec = opened(engine)
    counted(engine.store, spec, *(record(spec, "k", f"e{number}") for number in range(3)))
    retracted(engine, spec, tombstone_of(stored(engine, spec, "k", "e1")))
    assert len(shards_to_list(engine.store, spec, "k")) <= 12
    assert sorted(listed(engine, spec)) == ["e0", "e1", "e2"]

    few = set(shards_to_list(engine.store, spec, "k"))
    names = (f"old{number}" for number in range(100))
    beyond = next(name for name in names if spec.shard("k", name) not in few)
    uncovered(engine, spec, record(spec, "k", beyond))
    assert len(shards_to_list(engine.store, spec, "k")) == 256
    assert listed(engine, spec) == ["e0", "e1", "e2", beyond]

    # With `>=`, as many retractions as uncovered events hide the latter.
    monkeypatch.setattr(hints, "covers_all", lambda tally: tally.covered >= tally.n)
    assert listed(engine, spec) == ["e0", "e1", "e2"]


def test_windows_of_the_release_before_name_no_blocks(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = opened(engine, suffix=OF_SHARDS)
    counted(engine.store, spec, *(record(spec, "k", f"e{number}") for number in range(3)))
    tally = engine.store.tallies(spec, ["k"])["k"]
    assert (tally.blocks, tally.covered) == (frozenset(), 0)
    read = asked(engine, monkeypatch)
    assert listed(engine, spec) == ["e0", "e1", "e2"]
    assert sorted(read) == list(range(1, 257))


def test_a_tally_with_all_blocks_stays_below_a_kilobyte(engine: Engine) -> None:
    spec = replace(opened(engine), stripes_min=1)
    long = "k" * 64
    of_block: dict[int, Record] = {}
    for number in range(1_000):
        found = record(spec, long, f"e{number}")
        of_block.setdefault(spec.block(long, found.shard), found)
    for some in (list(of_block.values())[:32], list(of_block.values())[32:]):
        counted(engine.store, spec, *some)
    tally = engine.store.tallies(spec, [long])[long]
    assert (set(tally.blocks), tally.covered) == (set(range(64)), 64)
    items = [item for page in engine.store.scan(spec.table, 0, 1) for item in page]
    (size,) = [item_bytes(item.attributes) for item in items if item.pk.startswith("~t.")]
    assert 200 < size < 400


def test_an_increment_of_many_keys_names_each_ones_blocks(engine: Engine) -> None:
    spec = opened(engine)
    records = [record(spec, key, f"{key}{number}") for key in "abc" for number in range(3)]
    added: Sequence[Increment] = increments_of(records)
    assert engine.store.commit(spec, records, added).verdict is Verdict.COMMITTED
    for key, tally in engine.store.tallies(spec, ["a", "b", "c"]).items():
        mine = {spec.block(key, each.shard) for each in records if each.key == key}
        assert (set(tally.blocks), tally.covered) == (mine, 3)
