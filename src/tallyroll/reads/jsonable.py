"""Results of reads of one window as JSON values; `tallyroll.reads.counts` has those of counts."""

from __future__ import annotations

import json
from typing import Any

from tallyroll.model.amounts import format_amount
from tallyroll.model.retractions import RetractionNote
from tallyroll.model.stored import StoredEvent, StoredPacket
from tallyroll.model.windows import iso
from tallyroll.reads.counts import sums_json
from tallyroll.reads.found import Events, FoundEvent
from tallyroll.reads.top import Top


def stored_json(one: StoredEvent | StoredPacket) -> dict[str, Any]:
    """An event or packet as JSON.

    An event's value is a string, since it may have more digits than a double holds, and `ts` is in
    ms. A packet has its events under `events`. One that was retracted says so under `retracted`.
    """
    if isinstance(one, StoredPacket):
        return {"id": one.id, "events": [_packed_json(event) for event in one.events]}
    packed = {} if one.packet is None else {"packet": one.packet, "index": one.index}
    return {"id": one.id, **_packed_json(one), **packed}


def retracted_json(note: RetractionNote) -> dict[str, Any]:
    """By whom an event was retracted and why, and when, if that is known."""
    at = {} if note.at is None else {"at": iso(note.at)}
    return {"by": note.by, "why": note.why, **at}


def events_json(events: Events) -> dict[str, Any]:
    """Events of a key as JSON; `cursor` is absent after the last."""
    answer: dict[str, Any] = {
        "key": events.key,
        "window": events.window,
        "state": events.status,
        "events": [stored_json(one) for one in events.found],
        "as_of": iso(events.as_of),
        "complete": events.complete,
    }
    if events.cursor:
        answer["cursor"] = events.cursor
    return answer


def found_json(found: FoundEvent) -> dict[str, Any]:
    """One event or packet, with its key, window and the window's state."""
    where = {"key": found.key, "window": found.window, "state": found.status}
    return where | stored_json(found.what)


def top_json(top: Top) -> dict[str, Any]:
    """The largest keys as JSON, with the sums over all keys."""
    answer: dict[str, Any] = {
        "window": top.window,
        "state": top.status,
        "keys": top.keys,
        **sums_json(top),
        "top": [{"key": key.key, **sums_json(key)} for key in top.largest],
        "as_of": iso(top.as_of),
        "complete": top.complete,
    }
    if top.missing:
        answer["missing_buckets"] = top.missing
    return answer


def _packed_json(event: StoredEvent) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    if event.reference:
        payload = {"payload_ref": event.reference.fields}
    elif event.payload is not None:
        payload = {"payload": json.loads(event.payload)}
    retracted = {"retracted": retracted_json(event.retracted)} if event.retracted else {}
    message = {"message": event.message} if event.message else {}
    return {"ts": event.ts, "value": format_amount(event.amount), **message, **payload, **retracted}
