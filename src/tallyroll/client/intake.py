"""Puts events into a producer's outbox: packed, or alone."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from tallyroll.client.jsonlines import check_size, fits
from tallyroll.client.outbox import Outbox
from tallyroll.client.packing import entry_text, queueable
from tallyroll.client.receipts import Receipt
from tallyroll.client.rules import ProducerRules
from tallyroll.errors import Rejected
from tallyroll.limits import NESTING_MAX
from tallyroll.model.events import Event, message_body
from tallyroll.model.formats.json_texts import nesting
from tallyroll.model.formats.references import Reference, object_key
from tallyroll.model.ids import uuid7_time
from tallyroll.model.retractions import Retraction
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.effects import Effects
from tallyroll.reasons import Reason

BODY_NESTING = 3  # brackets around a payload in a packet
BYTES_OF_CHARACTER_MAX = 6  # of one that is escaped
_NEW_ID, _NOW_MS = "0" * 36, 10**12  # as long as those that an event without them gets
STAMPS_KEPT = 10_000  # times given to the newest events with ids and no time


class Uploads:
    """Uploads the payloads that are too large for a message, under the prefix of a pipeline."""

    def __init__(self, bucket: Bucket, pipeline: str, effects: Effects) -> None:
        self._bucket = bucket
        self.pipeline = pipeline
        self._effects = effects

    def takes(self, event: Event) -> bool:
        """Whether no message holds the event, with the id and the time that it may get yet."""
        if event.payload is None:
            return False
        return not fits(replace(event, id=event.id or _NEW_ID, ts=event.ts or _NOW_MS))

    def referred(self, event: Event) -> Event:
        """The event with a reference to its payload, which is uploaded; unchanged if its message is
        small enough. Raises StoreError.
        """
        if not self.takes(event):
            return event
        assert event.payload is not None
        body = event.payload.encode()
        sha256 = hashlib.sha256(body).hexdigest()
        random = f"{self._effects.chance.getrandbits(64):016x}"
        key = object_key(self.pipeline, self._effects.now(), sha256, random)
        self._bucket.put(key, body)
        reference = Reference(self._bucket.name, key, len(body), sha256)
        return replace(event, payload=None, reference=reference)


class Intake:
    """Makes entries and bodies of events. What would be rejected with others is refused alone."""

    def __init__(self, outbox: Outbox, rules: ProducerRules, new_id: Callable[[], str]) -> None:
        self._outbox = outbox
        self._rules = rules
        self._new_id = new_id
        self._stamps: OrderedDict[tuple[str, str], int] = OrderedDict()

    def add(self, event: Event | Retraction, now: int, tick: float) -> Receipt:
        """Take an event; one without a time happened `now` (ms). Raises Rejected and OSError."""
        if isinstance(event, Retraction):
            return self._outbox.add(self._new_id(), event.key, queueable(event.body), tick)
        if event.payload and nesting(event.payload) > NESTING_MAX - BODY_NESTING:
            raise Rejected(Reason.BAD_PAYLOAD, "payload is nested too deeply")
        record_id = event.id
        if record_id is not None:
            if event.ts is None and uuid7_time(record_id) is None:
                event = replace(event, ts=self._stamp(event.key, record_id, now))
            return self._add_single(event, record_id, tick)
        if event.reference:
            record_id, ts = self._new_id(), now if event.ts is None else event.ts
            return self._add_single(replace(event, id=record_id, ts=ts), record_id, tick)
        ts = now if event.ts is None else event.ts
        dt = ts % self._rules.span_ms
        entry = entry_text(dt, event)
        if not entry.isascii():
            entry = queueable(entry)
        if len(entry) * BYTES_OF_CHARACTER_MAX >= self._rules.packet_bytes:
            check_size(event)
            if len(entry.encode()) >= self._rules.packet_bytes:
                record_id = self._new_id()
                return self._add_single(replace(event, id=record_id, ts=ts), record_id, tick)
        return self._outbox.pack(event.key, ts - dt, entry, tick)

    def _add_single(self, event: Event, record_id: str, tick: float) -> Receipt:
        check_size(event)
        return self._outbox.add(record_id, event.key, queueable(message_body(event)), tick)

    def _stamp(self, key: str, record_id: str, now: int) -> int:
        """The time of an event without one: now, or that of the same event when it was sent before.

        All tries of the event then have one window and one content.
        """
        ts = self._stamps.pop((key, record_id), now)
        self._stamps[key, record_id] = ts
        if len(self._stamps) > STAMPS_KEPT:
            self._stamps.popitem(last=False)
        return ts
