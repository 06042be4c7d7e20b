"""How bodies were read at first: simple, slow, and what is accepted and rejected to this day."""

from __future__ import annotations

import base64
import json
import re
import unicodedata
import zlib
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Self

from tallyroll import limits
from tallyroll.errors import Rejected
from tallyroll.limits import VALUE_BOUND, VALUE_DECIMALS_MAX, VALUE_DIGITS_MAX
from tallyroll.model.events import ENVELOPE_VERSION, Envelope, Event, Packet
from tallyroll.reasons import Reason

MICROS: int = 10**VALUE_DECIMALS_MAX
_EXACT = Context(prec=60, traps=[Inexact, InvalidOperation])
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)


class JsonFloat(float):
    """A float from JSON that remembers how it was written, since a value may carry 24 digits."""

    text: str

    def __new__(cls, text: str) -> Self:
        """The float that `text` says."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def parse_amount(value: object) -> int:
    """The amount, in millionths, of a JSON number (int, JsonFloat or Decimal).

    Raises Rejected (bad-value) for anything else, for |value| of 10^18 or more, and for more than 6
    decimals.
    """
    if isinstance(value, bool):
        raise Rejected(Reason.BAD_VALUE, f"value {str(value).lower()} is a boolean, not a number")
    if not isinstance(value, int | JsonFloat | Decimal):
        raise Rejected(Reason.BAD_VALUE, f"value {shown(value)} is not a number")
    if isinstance(value, int):
        if abs(value) >= VALUE_BOUND:
            raise Rejected(Reason.BAD_VALUE, f"value {shown(value)}: must be below 10^18 in size")
        return value * MICROS
    try:
        exact = Decimal(value.text if isinstance(value, JsonFloat) else value)
    except InvalidOperation:
        raise Rejected(
            Reason.BAD_VALUE, f"value {shown(value)} has too large an exponent"
        ) from None
    if not exact.is_finite():
        raise Rejected(Reason.BAD_VALUE, f"value {exact} is not finite")
    if exact and exact.adjusted() >= VALUE_DIGITS_MAX:
        raise Rejected(Reason.BAD_VALUE, f"value {shown(value)}: must be below 10^18 in size")
    try:
        return int(_EXACT.to_integral_exact(_EXACT.scaleb(exact, VALUE_DECIMALS_MAX)))
    except Inexact:
        raise Rejected(Reason.BAD_VALUE, f"value {shown(value)} has more than 6 decimals") from None


def in_words(value: object) -> str:
    """A text in single quotes, anything else as JSON."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if type(value) is list:
        return f"[{', '.join(map(_part, value))}]"
    if type(value) is dict:
        pairs = (f"{_part(name)}: {_part(held)}" for name, held in value.items())
        return "{" + ", ".join(pairs) + "}"
    return repr(value)


def _part(value: object) -> str:
    """What an array or an object holds: JSON, with an escape for each unprintable character."""
    if not isinstance(value, str):
        return in_words(value)
    parts = (json.dumps(char, ensure_ascii=not char.isprintable())[1:-1] for char in value)
    return f'"{"".join(parts)}"'


def shown(value: object, most: int = 60) -> str:
    """`value` as it may stand in a message: its repr (a float as it was written), cut to `most`
    characters.
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**most:
        return f"an integer of about {value.bit_length() * 3 // 10} digits"
    try:
        text = value.text if isinstance(value, JsonFloat) else in_words(value)
    except RecursionError:
        text = f"a {type(value).__name__} nested too deeply to show"
    return text if len(text) <= most else text[: most - 3] + "..."


def decode(body: str) -> Envelope:
    """The event or packet in a message's body. Raises Rejected with the reason."""
    if not body.strip():
        raise Rejected(Reason.EMPTY_BODY, "the message has no body")
    fields = load_json(body)
    if isinstance(fields, dict) and fields.keys() == {"v", "zlib"} and fields["v"] == 2:
        return _expanded(fields["zlib"])
    return parse(fields)


def _expanded(stream: Any) -> Envelope:
    """The packet in a zlib stream in base64."""
    if not isinstance(stream, str):
        raise Rejected(Reason.BAD_COMPRESSION, "zlib must be a text in base64")
    try:
        data = base64.b64decode(stream, validate=True)
    except ValueError:
        raise Rejected(Reason.BAD_COMPRESSION, "zlib is not base64") from None
    try:
        text = zlib.decompress(data)
    except zlib.error:
        text, problem = _as_far_as_it_goes(data)
        raise Rejected(Reason.BAD_COMPRESSION, problem) from None
    if len(text) > limits.EXPANDED_BYTES_MAX:
        raise Rejected(
            Reason.BAD_COMPRESSION, f"zlib expands to more than {limits.EXPANDED_BYTES_MAX} bytes"
        )
    whole = zlib.decompressobj()
    whole.decompress(data)
    if whole.unused_data:
        raise Rejected(Reason.BAD_COMPRESSION, "zlib is not one whole zlib stream")
    try:
        inner = text.decode()
    except UnicodeDecodeError:
        raise Rejected(Reason.BAD_COMPRESSION, "zlib holds no UTF-8") from None
    if not inner.strip():
        raise Rejected(Reason.BAD_COMPRESSION, "zlib holds nothing")
    found = parse(load_json(inner))
    if isinstance(found, Event):
        raise Rejected(Reason.BAD_COMPRESSION, "only packets can be compressed")
    return found


def _as_far_as_it_goes(data: bytes) -> tuple[bytes, str]:
    reader = zlib.decompressobj()
    try:
        return reader.decompress(data), "zlib is not one whole zlib stream"
    except zlib.error as error:
        return b"", f"zlib is no zlib stream: {error}"


def load_json(text: str) -> Any:
    """The JSON value in `text`, floats as JsonFloat. Raises Rejected (not-json), also for NaN and
    Infinity.
    """
    if _nesting(text) > limits.NESTING_MAX:
        raise Rejected(Reason.NOT_JSON, f"nested more than {limits.NESTING_MAX} deep")
    try:
        return json.loads(text, parse_float=JsonFloat, parse_constant=_no_constant)
    except RecursionError:
        raise Rejected(Reason.NOT_JSON, "nested too deeply") from None
    except ValueError as error:
        raise Rejected(Reason.NOT_JSON, f"{error}: {shown(text)}") from None


def _nesting(text: str) -> int:
    """How deep a JSON text's brackets go, strings left out; exact if there are over 100."""
    opened = text.count("[") + text.count("{")
    if opened <= limits.NESTING_MAX:
        return opened
    depth = deepest = 0
    for bracket in _BRACKETS.finditer(text):
        if (mark := bracket[0]) in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in "]}":
            depth -= 1
    return deepest


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def parse(fields: Any) -> Envelope:
    """The event or packet in a decoded JSON value. Raises Rejected with the reason."""
    if not isinstance(fields, dict):
        raise Rejected(Reason.NOT_AN_OBJECT, f"{shown(fields)} is not a JSON object")
    version = fields.get("v", ENVELOPE_VERSION)
    if isinstance(version, bool) or version != ENVELOPE_VERSION:
        raise Rejected(
            Reason.UNKNOWN_VERSION, f"envelope version {shown(version)}: this writer knows 1"
        )
    key = check_key(fields.get("key"))
    if "events" in fields:
        return _packet(key, fields)
    given = fields.get("value")
    return Event(
        key=key,
        id=_id(fields.get("id")),
        ts=_ts(fields.get("ts"), "ts"),
        amount=parse_amount(1 if given is None else given),
        payload=_payload(fields.get("payload")),
    )


def canonical(value: Any) -> str:
    """The one JSON text of a value: keys sorted, no spaces, not escaped beyond need."""
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )


def check_key(key: Any) -> str:
    """`key` if it may be an event's key. Raises Rejected (bad-key)."""
    if not isinstance(key, str) or not key:
        if key is None:
            raise Rejected(Reason.BAD_KEY, "key is missing: give a text of 1 to 512 bytes")
        raise Rejected(Reason.BAD_KEY, f"key {shown(key)}: must be a text of 1 to 512 bytes")
    problem = _unfit(key, limits.KEY_BYTES_MAX)
    if key.startswith(limits.KEY_RESERVED_PREFIX):
        problem = "must not start with '~', which is reserved"
    if problem:
        raise Rejected(Reason.BAD_KEY, f"key {shown(key)}: {problem}")
    return key


def _id(record_id: Any) -> str | None:
    if record_id is None:
        return None
    if not isinstance(record_id, str) or not record_id:
        raise Rejected(
            Reason.BAD_ID, f"id {shown(record_id)}: must be a text of 1 to 512 bytes, or left out"
        )
    if problem := _unfit(record_id, limits.ID_BYTES_MAX):
        raise Rejected(Reason.BAD_ID, f"id {shown(record_id)}: {problem}")
    return record_id


def _unfit(text: str, bytes_max: int) -> str | None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "holds a lone surrogate, which is not text"
    if size > bytes_max:
        return f"has {size} bytes, over {bytes_max}"
    if any(unicodedata.category(char) == "Cc" for char in text):
        return "holds a control character"
    return None


def _ts(ts: Any, name: str) -> int | None:
    if ts is None:
        return None
    if isinstance(ts, bool) or not isinstance(ts, int):
        raise Rejected(
            Reason.BAD_TS, f"{name} {shown(ts)}: must be a whole number of ms since the epoch"
        )
    if ts < 0:
        raise Rejected(Reason.BAD_TS, f"{name} {shown(ts)}: must not be negative")
    if ts < limits.TS_MS_MIN:
        raise Rejected(
            Reason.TS_IN_SECONDS, f"{name} {ts} looks like seconds: give ms since the epoch"
        )
    if ts > limits.TS_MS_MAX:
        raise Rejected(Reason.BAD_TS, f"{name} {shown(ts)} lies after the year 9999")
    return ts


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
    except RecursionError:
        raise Rejected(Reason.BAD_PAYLOAD, "payload is nested too deeply") from None
    return text


def _packet(key: str, fields: dict[str, Any]) -> Packet:
    packet_id, t0, events = _id(fields.get("id")), _ts(fields.get("t0"), "t0"), fields["events"]
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
    return Packet(key, packet_id, t0, tuple(_entry(key, t0, entry) for entry in events))


def _entry(key: str, t0: int, entry: Any) -> tuple[int, int, str | None]:
    if isinstance(entry, dict):
        if entry.get("id") is not None:
            raise Rejected(
                Reason.PACKET_OWN_IDS, "events with ids of their own are sent one by one"
            )
        if entry.get("key", key) != key:
            raise Rejected(
                Reason.PACKET_MIXED_KEYS,
                f"event of key {shown(entry['key'])} in a packet of {key!r}",
            )
    if not isinstance(entry, list) or not 1 <= len(entry) <= 3:
        raise Rejected(
            Reason.BAD_PACKET, f"packed event {shown(entry)}: must be [dt, value, payload]"
        )
    dt, given, payload = (*entry, None, None)[:3]
    if isinstance(dt, bool) or not isinstance(dt, int):
        raise Rejected(Reason.BAD_PACKET, f"dt {shown(dt)}: must be a whole number of ms after t0")
    _ts(t0 + dt, "t0 + dt")
    return dt, parse_amount(1 if given is None else given), _payload(payload)
