"""Events of several keys on every engine: planned, committed and compared by the writer's code."""

from __future__ import annotations

from dataclasses import replace

from tallyroll.ingest.fates import Disposition, Fate
from tallyroll.ingest.transactions import plan, run
from tallyroll.limits import EVENT_KEYS_MAX
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.reasons import Reason
from tests.contract.engines import Engine, record

MINUTE_MS = 60_000


def group(spec: Spec, record_id: str, *keys: str, digest: bytes = b"d" * 16) -> Record:
    """The record of an event of these keys, with the others."""
    first, *others = (record(spec, key, record_id, digest=digest) for key in keys)
    return replace(first, others=tuple(others))


def written(engine: Engine, spec: Spec, *records: Record) -> list[Fate]:
    commits = plan(spec, records, engine.store.metering_of(spec.table))
    deadline = engine.effects.now() + MINUTE_MS
    done = run(engine.store, commits, engine.effects, deadline, 1)
    return [done.fates[spec.window, each.key, each.id] for each in records]


def tallied(engine: Engine, spec: Spec, keys: str) -> list[int]:
    found = engine.store.tallies(spec, [*keys])
    return [found[key].n for key in keys]


def test_an_event_counts_under_all_its_keys_once(engine: Engine) -> None:
    spec = engine.opened()
    events = [group(spec, "1", "a", "b"), group(spec, "2", "b", "c"), record(spec, "b", "3")]
    assert {fate.kind for fate in written(engine, spec, *events)} == {Disposition.COUNTED}
    more = group(spec, "4", "a", "c")
    kinds = [fate.kind for fate in written(engine, spec, *events, more)]
    assert kinds == [Disposition.DUPLICATE] * 3 + [Disposition.COUNTED]
    assert tallied(engine, spec, "abc") == [2, 3, 2]
    for key in "bc":
        stored = engine.store.record(spec, key, "2")
        assert stored
        assert (stored.key, stored.id, stored.digest) == (key, "2", b"d" * 16)


def test_another_content_of_one_key_counts_under_none(engine: Engine) -> None:
    spec = engine.opened()
    written(engine, spec, group(spec, "1", "b", "c"))
    other = group(spec, "1", "a", "c", digest=b"o" * 16)
    fates = written(engine, spec, other, group(spec, "2", "a", "c"))
    assert [fate.reason for fate in fates] == [Reason.ID_CONFLICT, None]
    assert tallied(engine, spec, "abc") == [1, 1, 2]
    assert engine.store.record(spec, "a", "1") is None


def test_two_of_the_largest_events_are_one_transaction(engine: Engine) -> None:
    spec = engine.opened()
    keys = [f"k{number:02}" for number in range(2 * EVENT_KEYS_MAX)]
    halves = keys[:EVENT_KEYS_MAX], keys[EVENT_KEYS_MAX:]
    events = [group(spec, f"{number}", *half) for number, half in enumerate(halves)]
    assert len(plan(spec, events, engine.store.metering_of(spec.table))) == 1
    assert {fate.kind for fate in written(engine, spec, *events)} == {Disposition.COUNTED}
    assert {tally.n for tally in engine.store.tallies(spec, keys).values()} == {1}
