"""Tombstones of stored events: what is retracted is read from the records, never from a message."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tallyroll.errors import Refused, Rejected
from tallyroll.model.events import Event, digest
from tallyroll.model.records import Record
from tallyroll.model.retractions import Retraction, Tombstone
from tallyroll.model.sharding import random_suffix
from tallyroll.model.specs import Spec
from tallyroll.model.stored import StoredEvent, StoredPacket, stored, whole
from tallyroll.model.windows import Span
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.reasons import Reason


class BeyondPacket(Rejected):
    """That a stored packet has no event of this index, so that it never will."""


@dataclass(frozen=True, eq=False)
class TombstoneMaker:
    """Makes tombstones from what a store has of events, read strongly consistently."""

    store: Store
    effects: Effects

    def of(self, spec: Spec, retraction: Retraction, home: Span) -> tuple[Tombstone, ...]:
        """The tombstones of the event that happened in the window `home` and counts in that of
        `spec`, one for each of its keys, ascending; empty if it is not stored there.

        Raises Rejected for what cannot be retracted, and Missing without a table.
        """
        record = self.store.record(spec, retraction.key, retraction.id)
        return self.of_record(spec, record, retraction, home)

    def of_record(
        self, spec: Spec, record: Record | None, retraction: Retraction, home: Span
    ) -> tuple[Tombstone, ...]:
        """The same, of the record that is stored under the retraction's key and id."""
        if record is None or record.ts not in home:
            return ()
        index = retraction.index
        if record.packed and index is not None:
            _check_named(record, (record.key,), retraction)
            return (self._packed(spec, record, retraction, index),)
        if record.packed:
            raise Rejected(
                Reason.BAD_RETRACTION,
                f"{record.id!r} is a packet of {record.n} events: give the index of one of them",
            )
        if index is not None:
            raise nothing(f"event {record.id!r} is no packet, so it has no index")
        group = self._group(spec, record, retraction)
        return tuple(self._tombstone(spec, each, retraction) for each in group)

    def _packed(self, spec: Spec, record: Record, retraction: Retraction, index: int) -> Tombstone:
        packet = stored(self._whole(spec, record))
        assert isinstance(packet, StoredPacket)
        if index >= len(packet.events):
            raise BeyondPacket(
                Reason.NOTHING_TO_RETRACT,
                f"packet {record.id!r} has {len(packet.events)} events, counted from 0",
            )
        event = packet.events[index]
        entry = replace(record, ts=event.ts, n=1, amount=event.amount)
        return replace(self._tombstone(spec, entry, retraction), index=index)

    def _group(self, spec: Spec, record: Record, retraction: Retraction) -> list[Record]:
        """All records of the event that this one is of, ascending by key. Only the one of the least
        key names them all.
        """
        keys = record.keys or (record.key,)
        if record.slot is None:
            keys = retraction.keys
            self._check_keys(spec, record, keys)
        elif keys[0] != record.key:
            least = self.store.record(spec, keys[0], record.id)
            keys = least.keys if least else keys
        _check_named(record, keys, retraction)
        if keys == (record.key,):
            return [record]
        found = self.store.lookup(spec, [(key, record.id) for key in keys])
        group = [each for key in keys if (each := found.get((key, record.id)))]
        if record not in group or any(each.digest != record.digest for each in group):
            raise Refused(f"event {record.id!r} is not stored as that of {keys}", "Damaged")
        if len(group) < len(keys):
            raise Refused(f"event {record.id!r} lacks records of some of {keys}", "Damaged")
        return group

    def _check_keys(self, spec: Spec, record: Record, keys: tuple[str, ...]) -> None:
        """Raise Rejected unless an event that an earlier release stored has just these keys, which
        only its digest tells. Whether its id and its time were given is not stored, either.
        """
        event = stored(self._whole(spec, record))
        assert isinstance(event, StoredEvent)
        sent = Event(
            keys[0], record.id, record.ts, record.amount, event.payload, keys[1:], event.reference
        )
        given = (
            replace(sent, id=name, ts=ts) for name in (record.id, None) for ts in (record.ts, None)
        )
        if record.digest not in map(digest, given):
            raise Rejected(
                Reason.BAD_RETRACTION,
                f"the keys of event {record.id!r} are not just {list(keys)}: give all of them",
            )

    def _whole(self, spec: Spec, record: Record) -> Record:
        return whole(record, partial(self.store.chunks, spec))

    def _tombstone(self, spec: Spec, record: Record, retraction: Retraction) -> Tombstone:
        """The tombstone of a record: on the stripe that counts it, so that no read sees it without
        its event. If an earlier release stored the record, on any stripe.
        """
        stripe = record.stripe
        if stripe is None:
            stripe = random_suffix(spec.stripes_of(record.key), self.effects.chance)
        slot = record.slot
        if slot is None:
            slot = spec.slot(min(max(record.ts, spec.start), spec.end - 1))
        return Tombstone(
            key=record.key,
            id=record.id,
            shard=record.shard,
            ts=record.ts,
            n=record.n,
            amount=record.amount,
            digest=record.digest,
            stripe=stripe,
            slot=slot,
            by=retraction.by,
            why=retraction.why,
        )


def _check_named(record: Record, keys: tuple[str, ...], retraction: Retraction) -> None:
    """Raise Rejected if a retraction names keys that its event does not have: it may mean another
    event of the same id.
    """
    if others := sorted({*retraction.keys} - {*keys}):
        raise Rejected(
            Reason.BAD_RETRACTION,
            f"event {record.id!r} has the keys {list(keys)}, and none of {others}",
        )


def nothing(what: str) -> Rejected:
    """That there is no such event to retract."""
    return Rejected(Reason.NOTHING_TO_RETRACT, what)
