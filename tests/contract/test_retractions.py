"""What a store with transactions promises of retractions: tombstone and tally, exactly once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.errors import Missing
from tallyroll.model.amounts import MICROS
from tallyroll.model.items import tombstone_bytes
from tallyroll.model.records import Record
from tallyroll.model.retractions import RetractionNote, Tombstone
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.tallies import Tally
from tallyroll.model.totals import Correction, Total
from tallyroll.ports.store import Answer, Verdict
from tallyroll.reads.lookups import Lookups
from tests.contract.engines import Engine, cost, counted, record


def tombstone_of(found: Record, index: int | None = None, amount: int | None = None) -> Tombstone:
    """The tombstone of a stored record, or of one event of its packet."""
    assert found.stripe
    return Tombstone(
        found.key,
        found.id,
        found.shard,
        found.ts,
        n=1 if index is not None else found.n,
        amount=found.amount if amount is None else amount,
        digest=found.digest,
        stripe=found.stripe,
        slot=5 if found.slot is None else found.slot,
        by="ann",
        why="a test",
        index=index,
    )


def stored(engine: Engine, spec: Spec, key: str, record_id: str) -> Record:
    found = engine.store.record(spec, key, record_id)
    assert found
    return found


def retracted(engine: Engine, spec: Spec, *tombstones: Tombstone) -> None:
    outcome = engine.store.retract(spec, tombstones)
    assert outcome.verdict is Verdict.COMMITTED, outcome


def test_a_retraction_takes_an_event_from_its_stripe_once(engine: Engine) -> None:
    spec = engine.opened()
    records = [record(spec, "a", str(number), amount=3 * MICROS) for number in range(4)]
    for each in records:
        counted(engine.store, spec, each)
    gone = tombstone_of(stored(engine, spec, "a", "2"))
    before = stripes(engine, spec)

    retracted(engine, spec, gone)
    for _ in range(3):
        again = engine.store.retract(spec, [replace(gone, by="bob", stripe=gone.stripe % 8 + 1)])
        assert again.verdict is Verdict.CANCELLED
        assert [each.answer for each in again.records] == [Answer.DUPLICATE]
        assert again.records[0].digest == gone.digest

    units = cost(engine.store, *records) + engine.store.metering_of("").tombstone_cost(gone)
    net = Tally("a", 3, 9 * MICROS, ((5, 3),), units, retracted=(1, 3 * MICROS))
    assert engine.store.tallies(spec, ["a"]) == {"a": net}
    assert net.stored == 4
    place = f"a.{gone.stripe}"
    after = stripes(engine, spec)
    assert after[place].n == before[place].n - 1
    assert {name: of for name, of in after.items() if name != place} == {
        name: of for name, of in before.items() if name != place
    }
    assert engine.store.tombstones(spec, [gone.name]) == {gone.name: gone}
    assert stored(engine, spec, "a", "2").n == 1  # it stays, and so its id is taken
    page = engine.store.records(spec, "a", gone.shard, "", 10)
    assert "2" in [each.id for each in page.records]


def stripes(engine: Engine, spec: Spec) -> dict[str, Tally]:
    return {
        stripe.place: stripe.tally
        for number in range(1, spec.buckets + 1)
        for page in engine.store.stripes(spec, number, "", 100)
        for stripe in page
    }


def test_an_event_of_several_keys_is_retracted_under_all_at_once(engine: Engine) -> None:
    spec = engine.opened()
    counted(engine.store, spec, record(spec, "a", "x"), record(spec, "b", "x"))
    both = [tombstone_of(stored(engine, spec, key, "x")) for key in ("a", "b")]
    retracted(engine, spec, *both)
    found = engine.store.tallies(spec, ["a", "b"])
    assert [(each.n, each.retracted) for each in found.values()] == [(0, (1, MICROS))] * 2
    assert engine.store.tombstones(spec, [each.name for each in both]).keys() == {
        each.name for each in both
    }


def test_a_group_of_which_one_is_retracted_stays_whole(engine: Engine) -> None:
    spec = engine.opened()
    counted(engine.store, spec, record(spec, "a", "x"), record(spec, "b", "x"))
    both = [tombstone_of(stored(engine, spec, key, "x")) for key in ("a", "b")]
    retracted(engine, spec, both[1])
    outcome = engine.store.retract(spec, both)
    answers = [each.answer for each in outcome.records]
    assert answers == [Answer.FINE, Answer.DUPLICATE]
    assert [each.answer for each in outcome.increments] == [Answer.FINE] * 2
    assert engine.store.tallies(spec, ["a"])["a"].retracted == (0, 0)


def test_events_of_a_packet_are_retracted_by_their_indexes(engine: Engine) -> None:
    spec = engine.opened()
    packet = replace(
        record(spec, "a", "p"), n=3, amount=6 * MICROS, series=((4, 1), (5, 2)), format="packet"
    )
    counted(engine.store, spec, packet)
    found = stored(engine, spec, "a", "p")
    first = replace(tombstone_of(found, 0, 1 * MICROS), slot=4)
    last = tombstone_of(found, 2, 3 * MICROS)
    retracted(engine, spec, first, last)  # of one stripe, which is changed once
    tally = engine.store.tallies(spec, ["a"])["a"]
    assert (tally.n, tally.amount, tally.retracted) == (1, 2 * MICROS, (2, 4 * MICROS))
    assert {slot: events for slot, events in tally.series if events} == {5: 1}
    names = [("a", "p", index) for index in (0, 1, 2, None)]
    kept = engine.store.tombstones(spec, names)
    assert kept == {first.name: first, last.name: last}


def test_ids_like_those_of_packed_events_have_tombstones_of_their_own(engine: Engine) -> None:
    spec = engine.opened()
    for name in ("p", "p#1", "p:1"):
        counted(engine.store, spec, record(spec, "a", name))
    packed = tombstone_of(stored(engine, spec, "a", "p"), 1)
    literal = tombstone_of(stored(engine, spec, "a", "p#1"))
    retracted(engine, spec, packed)
    retracted(engine, spec, literal)
    found = engine.store.tombstones(spec, [packed.name, literal.name, ("a", "p:1", None)])
    assert found == {packed.name: packed, literal.name: literal}


def test_a_shut_gate_refuses_a_retraction(engine: Engine) -> None:
    spec = engine.opened()
    counted(engine.store, spec, record(spec, "a", "x"))
    gone = tombstone_of(stored(engine, spec, "a", "x"))
    engine.closed(spec)
    for _ in range(10):  # whichever gate is drawn
        assert engine.store.retract(spec, [gone]).verdict is Verdict.GATE_SHUT
    assert engine.store.tallies(spec, ["a"])["a"].n == 1
    assert engine.store.tombstones(spec, [gone.name]) == {}


def test_without_gates_or_a_table_the_gate_is_missing(engine: Engine) -> None:
    spec = engine.spec()
    engine.catalog.create(Window(spec.window, spec.table, spec.start, spec.end))
    gone = tombstone_of(replace(record(spec, "a", "x"), stripe=1))
    assert engine.store.retract(spec, [gone]).verdict is Verdict.GATE_MISSING
    with pytest.raises(Missing):
        engine.store.tombstones(spec, [gone.name])
    engine.store.make_table(spec.table, {"tallyroll": engine.prefix})
    assert engine.store.retract(spec, [gone]).verdict is Verdict.GATE_MISSING
    assert engine.store.tombstones(spec, [gone.name]) == {}


@pytest.mark.parametrize("index", [None, 7])
def test_a_tombstone_is_an_item_of_the_window_that_is_read_back(
    engine: Engine, index: int | None
) -> None:
    spec = engine.opened()
    counted(engine.store, spec, record(spec, "é.1", "x#1", amount=-5))
    gone = tombstone_of(stored(engine, spec, "é.1", "x#1"), index)
    retracted(engine, spec, gone)
    found = [
        each
        for page in engine.store.scan(spec.table, 0, 1)
        for each in map(engine.store.codec.parse, page)
        if isinstance(each, Tombstone)
    ]
    assert found == [gone]
    assert tombstone_bytes(gone) < 200


@pytest.mark.parametrize("events", [3, 40])  # fewer and more than the tally has stripes
def test_lists_mark_what_was_retracted_before_and_after_the_seal(
    engine: Engine, events: int
) -> None:
    spec = engine.opened()
    engine.catalog.put_spec(spec)
    counted(engine.store, spec, *(record(spec, "a", f"e{n}") for n in range(events)))
    state = engine.catalog.window(spec.window)
    assert state
    lookups = Lookups(engine.store, engine.catalog, engine.totals, engine.effects)

    def marked() -> dict[str, RetractionNote]:
        found = lookups.events("a", spec.window, 60_000).found
        assert len(found) == events
        return {one.id: one.retracted for one in found if one.retracted}  # type: ignore[union-attr]

    assert marked() == {}
    gone = tombstone_of(stored(engine, spec, "a", "e1"))
    retracted(engine, spec, gone)
    assert marked() == {"e1": RetractionNote("ann", "a test")}
    engine.totals.put([Total("a", spec.window, events - 1, 0)])
    engine.totals.put_retracted(spec.window, {"a": (1, gone.amount)})
    engine.catalog.advance(replace(state, status=Status.SEALED))
    made = Correction(spec.window, "e2", ("a",), 1, 0, gone.digest, spec.start, "bob", "late")
    engine.totals.correct([made])
    assert marked() == {
        "e1": RetractionNote("ann", "a test"),
        "e2": RetractionNote("bob", "late", spec.start),
    }
