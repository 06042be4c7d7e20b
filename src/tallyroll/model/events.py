"""What producers send: one event, or one packet of many events of one key and one window.

    {"id", "key", "ts", "value", "payload"}      only `key` is required
    {"v": 2, ..., "payload_ref": {"bucket", "key", "bytes", "sha256"}}
                                                 the same, with an uploaded payload; also without v
    {"v": 1, "id", "key", "t0", "events": [[dt, value, payload], ...]}
                                                 dt in ms after t0; value and payload optional
    {"v": 2, "zlib"}                             a packet, compressed (`formats.compression`)

Other fields are ignored. What can never count raises `Rejected`.

The reading path of docs/architecture.md begins here. Next: `model/acceptance.py`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import blake2b
from itertools import chain
from typing import Any

from tallyroll import limits
from tallyroll.errors import Rejected
from tallyroll.model.amounts import (
    MICROS,
    JsonFloat,
    format_amount,
    parse_amount,
    parse_decimal,
    shown,
)
from tallyroll.model.formats.compression import FIELD, expanded, is_compressed
from tallyroll.model.formats.fields import check_id, check_key, check_ts
from tallyroll.model.formats.json_texts import canonical, load_json
from tallyroll.model.formats.references import Reference, parse_reference
from tallyroll.reasons import Reason

DIGEST_VERSION = b"\x01"
ENVELOPE_VERSION = 1
# Of events with a reference: releases that know none refuse them, and do not lose the payload.
REFERRING_VERSION = 2
REFERENCE = "payload_ref"
ENTRY_FIELDS_MAX = 3
_FIELDS = frozenset({"v", "key", "id", "ts", "t0", "value", "events"})


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `amount` is in millionths of a unit.

    `ts` is in ms since 1970 or None, `payload` canonical JSON or None. An event that a mapping
    counts under several keys has the least one in `key`, and the others, ascending, in
    `other_keys`. An uploaded payload has a `reference` instead.
    """

    key: str
    id: str | None
    ts: int | None
    amount: int
    payload: str | None
    other_keys: tuple[str, ...] = ()
    reference: Reference | None = None

    @classmethod
    def of(
        cls,
        key: str,
        *,
        value: float | Decimal = 1,
        id: str | None = None,  # noqa: A002  (the field's name)
        ts: int | None = None,
        payload: Any = None,
    ) -> Event:
        """The event of these fields, whose `value` may be an int, a float or a Decimal and whose
        `payload` any JSON value. Raises Rejected for what can never count.
        """
        return _event({"key": key, "value": value, "id": id, "ts": ts, "payload": payload})


@dataclass(frozen=True, slots=True)
class Packet:
    """Many events of one key under one id; `entries`: (dt ms after t0, amount, payload) each.

    `expanded` is the size of its text, if that came compressed; else 0.
    """

    key: str
    id: str
    t0: int
    entries: tuple[tuple[int, int, str | None], ...]
    expanded: int = field(default=0, compare=False)


Envelope = Event | Packet


def decode(body: str) -> Envelope:
    """The event or packet in a message's body. Raises Rejected with the reason."""
    with no_collections():
        return parse_body(body, load_body(body))


def load_body(body: str) -> Any:
    """The JSON value in a message's body, with plain floats. Raises Rejected."""
    if not body.strip():
        raise Rejected(Reason.EMPTY_BODY, "the message has no body")
    return load_json(body, float)


def parse_body(body: str, fields: Any) -> Envelope:
    """The event or packet in a body, whose JSON value is `fields`. Raises Rejected."""
    if isinstance(fields, dict) and is_compressed(fields):
        return _expanded(fields[FIELD])
    return _parse(fields, load_json(body, str) if _floats_matter(fields) else None)


def _expanded(stream: object) -> Packet:
    text = expanded(stream)
    if not text.strip():
        raise Rejected(Reason.BAD_COMPRESSION, f"{FIELD} holds nothing")
    fields = load_json(text, float)
    packet = _parse(fields, load_json(text, str) if _floats_matter(fields) else None)
    if not isinstance(packet, Packet):
        raise Rejected(Reason.BAD_COMPRESSION, "only packets can be compressed")
    return replace(packet, expanded=len(text))


@contextmanager
def no_collections() -> Iterator[None]:
    """Pause garbage collection: JSON values hold no cycles, and the search for cycles in 100,000
    new lists takes as long as their creation.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _floats_matter(fields: Any) -> bool:
    """Whether a field that `parse` reads is a float: a value may have more digits than a float.

    If so, the body is read again for the floats' texts. This is faster than to keep all texts.
    """
    if not isinstance(fields, dict):
        return isinstance(fields, float)
    types = set(map(type, map(fields.get, _FIELDS)))
    events = fields.get("events")
    if isinstance(events, list):
        kinds = set(map(type, events))
        types.update(map(type, chain.from_iterable(events)) if kinds == {list} else [float])
    return float in types


def parse(fields: Any) -> Envelope:
    """The event or packet in a JSON object, as Python values. A value may be an int, a float or a
    Decimal (`parse_amount`).

    Raises Rejected with the reason.
    """
    return _parse(fields, None)


def _parse(fields: Any, written: Any) -> Envelope:
    """Like `parse`. If the floats in `fields` are plain, `written` is the same value with their
    texts in their places.
    """
    if not isinstance(fields, dict):
        fields = _as_written(fields, written)
        raise Rejected(Reason.NOT_AN_OBJECT, f"{shown(fields)} is not a JSON object")
    if written:
        exact = {name: _as_written(fields[name], written[name]) for name in _FIELDS & fields.keys()}
        fields = {**fields, **exact}
    version = fields.get("v", ENVELOPE_VERSION)
    if isinstance(version, bool) or version != ENVELOPE_VERSION:
        if version == REFERRING_VERSION and REFERENCE in fields:
            return _referring(fields)
        raise Rejected(
            Reason.UNKNOWN_VERSION, f"envelope version {shown(version)}: this writer knows 1"
        )
    if fields.get(REFERENCE) is not None:
        return _referring(fields)
    if "events" in fields:
        key = check_key(fields.get("key"))
        return _packet(key, fields, written["events"] if written else None)
    return _event(fields)


def _event(fields: dict[str, Any]) -> Event:
    given = fields.get("value")
    return Event(
        key=check_key(fields.get("key")),
        id=check_id(fields.get("id")),
        ts=check_ts(fields.get("ts"), "ts"),
        amount=parse_amount(1 if given is None else given),
        payload=_payload(fields.get("payload")),
    )


def _referring(fields: dict[str, Any]) -> Event:
    if fields.get("payload") is not None or "events" in fields:
        raise Rejected(
            Reason.BAD_REFERENCE, f"an event with a {REFERENCE} has neither a payload nor events"
        )
    return replace(_event(fields), reference=parse_reference(fields[REFERENCE]))


def digest(envelope: Envelope) -> bytes:
    """A versioned BLAKE2b-128 of what the producer supplied, defaults applied: 17 bytes.

    Deliveries and resends of one event have the same digest; other content under the same id has
    another one. All keys of an event are its content.
    """
    supplied: list[Any]
    if isinstance(envelope, Event):
        supplied = [
            envelope.id,
            [envelope.key, *envelope.other_keys] if envelope.other_keys else envelope.key,
            envelope.ts,
            format_amount(envelope.amount),
            envelope.reference.content if envelope.reference else envelope.payload,
        ]
    else:
        entries = [[dt, format_amount(amount), payload] for dt, amount, payload in envelope.entries]
        supplied = [envelope.id, envelope.key, envelope.t0, entries]
    return DIGEST_VERSION + blake2b(canonical(supplied).encode(), digest_size=16).digest()


def _payload(payload: Any) -> str | None:
    if payload is None:
        return None
    try:
        text = canonical(payload)
        text.encode()
    except UnicodeEncodeError:
        raise Rejected(
            Reason.BAD_PAYLOAD, "payload holds a lone surrogate, which is not text"
        ) from None
    except ValueError:
        raise Rejected(
            Reason.BAD_PAYLOAD, "payload holds a number too large for JSON's doubles"
        ) from None
    except TypeError as error:
        raise Rejected(Reason.BAD_PAYLOAD, f"payload is not JSON: {error}") from None
    except RecursionError:
        raise Rejected(Reason.BAD_PAYLOAD, "payload is nested too deeply") from None
    return text


def _as_written(value: Any, text: Any) -> Any:
    """A float as the JsonFloat of its text, if that is known; any other value unchanged."""
    return JsonFloat(text) if isinstance(value, float) and isinstance(text, str) else value


def _packet(key: str, fields: dict[str, Any], written: Any) -> Packet:
    packet_id, t0, events = (
        check_id(fields.get("id")),
        check_ts(fields.get("t0"), "t0"),
        fields["events"],
    )
    if packet_id is None:
        raise Rejected(
            Reason.BAD_PACKET, "a packet needs an id: a resend could not be told from a new one"
        )
    if t0 is None:
        raise Rejected(
            Reason.BAD_PACKET, "a packet needs t0, the ms since the epoch that its dt count from"
        )
    if not isinstance(events, list):
        raise Rejected(Reason.BAD_PACKET, f"events {shown(events)}: must be an array")
    if not events:
        raise Rejected(Reason.PACKET_EMPTY, "a packet needs at least one event")
    return Packet(key, packet_id, t0, tuple(_entries(key, t0, events, written or events)))


def _entries(
    key: str, t0: int, events: list[Any], written: list[Any]
) -> list[tuple[int, int, str | None]]:
    """The packed events. `written` is `events` with floats as texts or JsonFloats.

    A packet may have 100,000 entries, so the usual kinds are checked here without a call.
    """
    entries: list[tuple[int, int, str | None]] = []
    add = entries.append
    first, last, bound = limits.TS_MS_MIN - t0, limits.TS_MS_MAX - t0, limits.VALUE_BOUND
    for entry, texts in zip(events, written, strict=True):
        fields = len(entry) if isinstance(entry, list) else 0
        given = payload = None
        if fields == 1:
            (dt,) = entry
        elif fields == 2:
            dt, given = entry
        elif fields == ENTRY_FIELDS_MAX:
            dt, given, payload = entry
        else:
            raise _no_entry(key, entry, texts)
        if type(dt) is not int or not first <= dt <= last:
            _check_dt(t0, _as_written(dt, texts[0]))
        if given is None:
            amount = MICROS
        elif type(given) is float and texts is not entry:
            amount = parse_decimal(texts[1])
        elif type(given) is int and -bound < given < bound:
            amount = given * MICROS
        else:
            amount = parse_amount(given)
        add((dt, amount, None if payload is None else _payload(payload)))
    return entries


def _no_entry(key: str, entry: Any, texts: Any) -> Rejected:
    if isinstance(entry, dict):
        if entry.get("id") is not None:
            return Rejected(
                Reason.PACKET_OWN_IDS, "events with ids of their own are sent one by one"
            )
        if entry.get("key", key) != key:
            other = _as_written(entry["key"], texts["key"])
            return Rejected(
                Reason.PACKET_MIXED_KEYS, f"event of key {shown(other)} in a packet of {key!r}"
            )
    entry = _as_written(entry, texts)
    return Rejected(Reason.BAD_PACKET, f"packed event {shown(entry)}: must be [dt, value, payload]")


def _check_dt(t0: int, dt: Any) -> None:
    if isinstance(dt, bool) or not isinstance(dt, int):
        raise Rejected(Reason.BAD_PACKET, f"dt {shown(dt)}: must be a whole number of ms after t0")
    check_ts(t0 + dt, "t0 + dt")


def event_body(event: Event) -> str:
    """The JSON text of one event."""
    return _joined(
        id=event.id and canonical(event.id),
        key=canonical(event.key),
        ts=None if event.ts is None else str(event.ts),
        value=format_amount(event.amount),
        payload=event.payload,
        payload_ref=canonical(event.reference.fields) if event.reference else None,
    )


def message_body(event: Event) -> str:
    """The message body of one event, marked by its version as Tallyroll's own, so that no mapping
    applies to it.
    """
    version = REFERRING_VERSION if event.reference else ENVELOPE_VERSION
    return f'{{"v":{version},{event_body(event)[1:]}'


def _joined(**fields: str | None) -> str:
    return (
        "{"
        + ",".join(f'"{name}":{text}' for name, text in fields.items() if text is not None)
        + "}"
    )
