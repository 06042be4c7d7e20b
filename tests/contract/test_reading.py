"""What every store promises of a shard's records: in order, each once, from a position on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.errors import Absent, Missing
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.reads.lookups import Lookups
from tests.contract.engines import Engine, counted, record, with_data

pytestmark = pytest.mark.common
IDS = ["a", "a.1", "aa", "b", "ü", "z", "é", "中", "\U0001f600", "\ufffd", "A", "#", "e#x", "~"]


def paged(engine: Engine, spec: Spec, key: str, shard: int, limit: int) -> list[str]:
    """The ids of all records of a shard, read `limit` at a time."""
    ids: list[str] = []
    for _ in range(100):
        page = engine.store.records(spec, key, shard, ids[-1] if ids else "", limit)
        assert len(page.records) <= limit
        ids += [found.id for found in page.records]
        if not page.more:
            return ids
        assert page.records
    raise AssertionError("no end")


def single(engine: Engine) -> Spec:
    """A window with one shard."""
    return engine.opened(engine.spec(shards=1))


def test_records_come_in_code_point_order(engine: Engine) -> None:
    """By UTF-8 bytes, which Python's order of texts equals; beyond the BMP UTF-16's does not."""
    spec = single(engine)
    counted(engine.store, spec, *(record(spec, "k", record_id) for record_id in IDS))
    page = engine.store.records(spec, "k", 1, "", 100)
    assert [found.id for found in page.records] == sorted(IDS)
    assert not page.more


@pytest.mark.parametrize("limit", [1, 3, 14, 15])
def test_pages_of_any_size_give_each_record_once(engine: Engine, limit: int) -> None:
    spec = single(engine)
    counted(engine.store, spec, *(record(spec, "k", record_id) for record_id in IDS))
    assert paged(engine, spec, "k", 1, limit) == sorted(IDS)


def test_the_shards_hold_all_records_of_a_key_and_no_others(engine: Engine) -> None:
    spec = engine.opened()
    ids = [f"id-{number}" for number in range(40)]
    others = [("k.1", "x"), ("k.1.1", "y"), ("l", "z")]
    counted(engine.store, spec, *(record(spec, "k", record_id) for record_id in ids))
    counted(engine.store, spec, *(record(spec, key, record_id) for key, record_id in others))
    found = {shard: paged(engine, spec, "k", shard, 7) for shard in range(1, spec.shards + 1)}
    assert sorted(record_id for there in found.values() for record_id in there) == sorted(ids)
    for shard, there in found.items():
        assert all(spec.shard("k", record_id) == shard for record_id in there)


def test_a_position_need_not_be_a_record(engine: Engine) -> None:
    spec = single(engine)
    counted(engine.store, spec, *(record(spec, "k", record_id) for record_id in "bdf"))

    def after(position: str) -> str:
        page = engine.store.records(spec, "k", 1, position, 10)
        return "".join(found.id for found in page.records)

    assert [after(position) for position in ("a", "b", "b\0", "c", "f", "g")] == [
        "bdf",
        "df",
        "df",
        "df",
        "",
        "",
    ]
    assert after("\U0010ffff" * 128) == ""


def test_what_is_written_behind_the_position_is_read_and_what_before_is_not(engine: Engine) -> None:
    spec = single(engine)
    counted(engine.store, spec, *(record(spec, "k", record_id) for record_id in "bd"))
    page = engine.store.records(spec, "k", 1, "", 1)
    assert ([found.id for found in page.records], page.more) == (["b"], True)
    counted(engine.store, spec, record(spec, "k", "a"), record(spec, "k", "c"))
    page = engine.store.records(spec, "k", 1, "b", 10)
    assert [found.id for found in page.records] == ["c", "d"]


def test_records_come_whole(engine: Engine) -> None:
    spec = single(engine)
    plain = record(spec, "k", "plain", amount=-(10**24) + 1, digest=bytes(range(16)))
    packet = replace(record(spec, "k", "packet"), n=3, data=b"\x00{}\xff", format="packet1+zlib")
    counted(engine.store, spec, plain, packet)
    page = engine.store.records(spec, "k", 1, "", 10)
    assert page.records == tuple(replace(stored, series=()) for stored in (packet, plain))


def test_pages_go_on_after_a_megabyte(engine: Engine) -> None:
    spec = single(engine)
    large: list[Record] = []
    for number in range(5):
        large.append(with_data(record(spec, "k", str(number)), bytes([number]) * 390 * 1024))
        counted(engine.store, spec, large[-1])
    assert paged(engine, spec, "k", 1, 1_000) == list("01234")


def test_a_key_without_records(engine: Engine) -> None:
    spec = engine.opened()
    page = engine.store.records(spec, "nobody", 1, "", 10)
    assert (page.records, page.more) == ((), False)


def test_without_a_table_records_are_missing(engine: Engine) -> None:
    with pytest.raises(Missing):
        engine.store.records(engine.spec(), "k", 1, "", 10)


def test_the_aggregator_reads_a_window_of_any_store(engine: Engine) -> None:
    """One event, all events page by page, the largest keys: over many shards, side by side."""
    spec = engine.opened(engine.spec(shards=100))
    engine.catalog.put_spec(spec)
    ids = [f"id-{number:03}" for number in range(180)]
    for first in range(0, len(ids), 90):
        some = (record(spec, "k", record_id) for record_id in ids[first : first + 90])
        counted(engine.store, spec, *some)
    counted(engine.store, spec, record(spec, "l", "x", amount=10**12))
    lookups = Lookups(engine.store, engine.catalog, engine.totals, engine.effects)

    found: list[str] = []
    cursor = None
    while not found or cursor:
        page = lookups.events("k", spec.window, 60_000, limit=70, cursor=cursor)
        assert page.complete
        found += [one.id for one in page.found]
        cursor = page.cursor
    assert found == ids

    assert lookups.event("k", "id-007", spec.window, None).what.id == "id-007"
    with pytest.raises(Absent):
        lookups.event("k", "id-7", spec.window, None)
    engine.closed(spec)
    state = engine.catalog.window(spec.window)
    assert state
    engine.catalog.advance(replace(state, status=Status.SEALED))
    top = lookups.top(spec.window, 1, 60_000)
    assert [(key.key, key.n) for key in top.largest] == [("k", 180)]
    assert (top.keys, top.events, top.missing) == (2, 181, 0)
    (largest,) = lookups.top(spec.window, 1, 60_000, by_amount=True).largest
    assert (largest.key, largest.amount) == ("l", 10**12)
