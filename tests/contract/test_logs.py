"""Logs on every engine with transactions: leaves are put once, found, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from tallyroll.ingest.appending import Appended, Appender
from tallyroll.ingest.batch_messages import Placed
from tallyroll.ingest.fates import Disposition
from tallyroll.ingest.transactions import run
from tallyroll.logs.entries import entry_of, slot_of
from tallyroll.logs.reading import read_on, stored_in_logs
from tallyroll.logs.slots import Slot
from tallyroll.model.events import Event
from tallyroll.model.messages import Message
from tallyroll.model.records import record_of
from tallyroll.model.specs import Spec, log_rule
from tests.contract.engines import START, Engine

MINUTE_MS = 60_000
KEY = "é.1"


def opened(engine: Engine) -> Spec:
    spec = engine.spec()
    return engine.opened(replace(spec, suffix="calculated+log2", logs={KEY: log_rule(1_000)}))


def placed(spec: Spec, number: int) -> Placed:
    message_id = str(UUID(int=number, version=4))
    message = Message(message_id, "", START + 100 * number, 1, "")
    event = Event(KEY, None, None, 10**6 * number, '{"page":"é"}')
    record = record_of(event, message, spec)
    identity = (spec.window, record.key, record.id)
    return Placed(message, spec, identity, record, entry_of(event, message, spec))


def append(engine: Engine, spec: Spec, numbers: Iterable[int]) -> Appended:
    appender = Appender(engine.store, engine.effects, 2)
    some = [placed(spec, number) for number in numbers]
    return appender.append(some, run, engine.effects.now() + MINUTE_MS)


def kinds(done: Appended) -> Counter[Disposition]:
    return Counter(fate.kind for fate in done.fates.values())


def test_each_entry_counts_once(engine: Engine) -> None:
    spec = opened(engine)
    assert kinds(append(engine, spec, range(60))) == {Disposition.COUNTED: 60}
    again = append(engine, spec, range(30, 90))
    assert kinds(again) == {Disposition.DUPLICATE: 30, Disposition.COUNTED: 30}
    tally = engine.store.tallies(spec, [KEY])[KEY]
    assert (tally.n, tally.amount) == (90, 10**6 * sum(range(90)))
    some = [placed(spec, number) for number in (77, 90, 5)]
    sought = [(each.record, each.entry) for each in some if each.entry]
    sought.append((some[0].record, sought[0][1]._replace(amount=1)))
    found = stored_in_logs(engine.store, spec, sought, engine.effects, 2)
    assert found == [some[0].record, None, some[2].record, replace(some[0].record, digest=b"")]


def test_a_slot_is_read_without_what_follows_its_group(engine: Engine) -> None:
    spec = opened(engine)
    append(engine, spec, range(200))
    names = {slot_of(spec, KEY, START + 100 * number) for number in range(200)}
    for name in names:
        slot = read_on(engine.store, spec, {name: Slot()}, engine.effects, 1)[name]
        assert isinstance(slot, Slot)
        assert {slot_of(spec, KEY, each.sent) for each in slot.entries.values()} == {name}
    known = dict.fromkeys(names, Slot())
    everything = read_on(engine.store, spec, known, engine.effects, 1).values()
    assert sum(len(slot.entries) for slot in everything if isinstance(slot, Slot)) == 200


def test_behind_a_shut_gate_nothing_is_put(engine: Engine) -> None:
    spec = opened(engine)
    engine.store.shut_gates(spec)
    assert kinds(append(engine, spec, range(3))) == {Disposition.SHUT_OUT: 3}
    assert engine.store.tallies(spec, [KEY])[KEY].n == 0
