"""Retractions that share transactions, on every store that has them."""

from __future__ import annotations

from collections import Counter

from tallyroll.ingest.fates import Disposition
from tallyroll.ingest.tombstone_runs import Found, batches_of, run
from tallyroll.model.amounts import MICROS
from tallyroll.ports.store import Verdict
from tests.contract.engines import Engine, counted, record
from tests.contract.test_retractions import stored, tombstone_of

KEYS = ("a", "b", "c")
EVENTS = 120
DEADLINE_MS = 600_000


def test_all_of_a_batch_are_retracted_once_whichever_were_before(engine: Engine) -> None:
    spec = engine.opened()
    records = [record(spec, KEYS[n % 3], f"e{n}", amount=n * MICROS) for n in range(EVENTS)]
    for at in range(0, EVENTS, 40):
        counted(engine.store, spec, *records[at : at + 40])
    events = [
        Found(spec, (tombstone_of(stored(engine, spec, each.key, each.id)),)) for each in records
    ]
    for each in events[::5]:
        assert engine.store.retract(spec, each.tombstones).verdict is Verdict.COMMITTED

    deadline = engine.effects.now() + DEADLINE_MS
    done = run(engine.store, events, engine.effects, deadline, at_once=4)

    kinds = Counter(fate.kind for fate in done.fates.values())
    assert kinds == {Disposition.RETRACTED: EVENTS - 24, Disposition.DUPLICATE: 24}
    before = {each.place for each in events[::5]}
    again = {place for place, fate in done.fates.items() if fate.kind is Disposition.DUPLICATE}
    assert again == before
    metering = engine.store.metering_of(spec.table)
    planned = sum(batch.cost(metering) for batch in batches_of(events, metering))
    assert done.cost.total >= planned
    for key, tally in engine.store.tallies(spec, KEYS).items():
        of_key = [each for each in records if each.key == key]
        assert (tally.n, tally.amount) == (0, 0)
        assert tally.retracted == (len(of_key), sum(each.amount for each in of_key))
        assert not any(events for _, events in tally.series)
    names = [each.tombstones[0].name for each in events]
    assert engine.store.tombstones(spec, names).keys() == set(names)


def test_a_shut_gate_shuts_all_of_a_batch_out(engine: Engine) -> None:
    spec = engine.opened()
    counted(engine.store, spec, record(spec, "a", "e1"), record(spec, "a", "e2"))
    events = [
        Found(spec, (tombstone_of(stored(engine, spec, "a", name)),)) for name in ("e1", "e2")
    ]
    engine.store.shut_gates(spec)
    deadline = engine.effects.now() + DEADLINE_MS
    done = run(engine.store, events, engine.effects, deadline, at_once=1)
    assert {fate.kind for fate in done.fates.values()} == {Disposition.SHUT_OUT}
    assert engine.store.tallies(spec, ["a"])["a"].n == 2
