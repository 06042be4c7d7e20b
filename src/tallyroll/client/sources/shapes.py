"""Makes events of records: by the names of their columns, by a mapping, or as they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

from tallyroll.client.jsonlines import LINE_TOO_LONG, check_size, envelope_of
from tallyroll.client.sources.records import BadRecord, SourceRecord, plain, utc
from tallyroll.errors import Rejected, UsageError
from tallyroll.model.amounts import JsonFloat, rounded, shown
from tallyroll.model.events import Envelope, Event, decode, parse
from tallyroll.model.foreign.envelopes import Unwrapped, unwrap
from tallyroll.model.foreign.mapping import Mapper
from tallyroll.model.formats.json_texts import canonical, load_json
from tallyroll.model.ids import uuid7_time
from tallyroll.reasons import Reason

UNITS_US = {"s": Decimal(1_000_000), "ms": Decimal(1_000), "us": Decimal(1), "ns": Decimal("0.001")}
FIELDS = ("key", "id", "ts", "value")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d([.,]\d+)?)?)?", re.ASCII)
_FRACTION = re.compile(r"([.,]\d{1,6})\d*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
FITTED = (Reason.BAD_TS, Reason.TS_IN_SECONDS, Reason.BAD_VALUE)  # for which a second look helps


class RecordShape(Protocol):
    """Makes an event of a record.

    What it refuses, `second` may read, if there is one: as the first release did not read it. Such
    events are packed apart. So a file's other packets hold the same events as ever, and count once.
    """

    second: RecordShape | None

    @property
    def notes(self) -> Counter[str]:
        """What was assumed of how many records, in words."""

    def check(self, name: str, columns: Sequence[str] | None) -> None:
        """Raise UsageError if a source has not the columns that are needed."""

    def envelope(self, record: SourceRecord) -> tuple[Envelope, str]:
        """The event, or the packet and its text. Raises BadRecord and Rejected."""


@dataclass
class Fitting:
    """What is done to times and values so that they count: `unit` is that of times that are
    numbers, `ts` (ms) the time of all events, and `decimals` are those to which values are rounded.
    """

    unit: str = "ms"
    ts: int | None = None
    decimals: int | None = None
    notes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._scale = UNITS_US[self.unit] / 1000

    def value(self, given: Any) -> Any:
        """A value, rounded if that is asked for."""
        return given if self.decimals is None else rounded(given, self.decimals)

    def time(self, given: Any) -> Any:
        """A time in ms; what is no number and no text is left to the check of all events. Raises
        Rejected (bad-ts).
        """
        if self.ts is not None:
            return self.ts
        if given is None or isinstance(given, bool):
            return given
        if isinstance(given, datetime | date):
            return self._instant(given)
        if isinstance(given, str) and not _NUMBER.fullmatch(given):
            return self._instant(_read_time(given))
        text = given.text if isinstance(given, JsonFloat) else str(given)
        try:
            return int((Decimal(text) * self._scale).to_integral_value("ROUND_FLOOR"))
        except (ArithmeticError, ValueError):  # Decimal's errors are ArithmeticErrors
            raise Rejected(Reason.BAD_TS, f"ts {shown(given)}: no time") from None

    def _instant(self, given: datetime | date) -> int:
        instant = given if isinstance(given, datetime) else datetime(*given.timetuple()[:3])  # noqa: DTZ001
        if instant.tzinfo is None:
            self.notes["had a time without a zone, which was read as UTC"] += 1
        try:
            return (utc(instant) - _EPOCH) // _MS
        except OverflowError:
            raise Rejected(Reason.BAD_TS, f"ts {given}: must lie from 1973 to 9999") from None


@dataclass
class OwnForm:
    """Records that are events of Tallyroll's own form. If it `fits`, their times may also be ISO
    8601 texts, and values are rounded if that is asked for.

    Packets are taken as they are: nothing in them is fitted.
    """

    fitting: Fitting = field(default_factory=Fitting)
    fits: bool = False
    second: RecordShape | None = None

    @property
    def notes(self) -> Counter[str]:
        """What was assumed."""
        return self.fitting.notes

    def check(self, name: str, columns: Sequence[str] | None) -> None:
        """JSON has no columns."""

    def envelope(self, record: SourceRecord) -> tuple[Envelope, str]:
        """The event or packet of a line of JSON."""
        envelope, text = envelope_of(record.raw, self._fitted if self.fits else decode)
        if isinstance(envelope, Event) and self.fitting.ts is not None:
            envelope = replace(envelope, ts=self.fitting.ts)
        return envelope, text

    def _fitted(self, text: str) -> Envelope:
        """The envelope of a text, fitted. Raises Rejected."""
        fields = load_json(text)
        if not isinstance(fields, dict) or "events" in fields:
            return decode(text)
        ts = fields.get("ts")
        if isinstance(ts, str) or self.fitting.ts is not None:
            ts = self.fitting.time(ts)
        return parse({**fields, "ts": ts, "value": self.fitting.value(fields.get("value"))})


NO_TIME = 0


@dataclass
class ByMapping:
    """Events by the JMESPath expressions of a mapping."""

    mapper: Mapper
    fitting: Fitting = field(default_factory=Fitting)
    second: RecordShape | None = None

    def __post_init__(self) -> None:
        self.mapper = replace(self.mapper, fitted=self.fitting.value)

    @property
    def notes(self) -> Counter[str]:
        """What was assumed."""
        return self.fitting.notes

    def check(self, name: str, columns: Sequence[str] | None) -> None:
        """What an expression finds is seen in each record."""

    def envelope(self, record: SourceRecord) -> tuple[Envelope, str]:
        """The event that the mapping finds."""
        if record.fields is None:
            body = _text(record)
            fields = unwrap(_object(load_json(body, float)), float)
        else:
            found = plain(_fields(record))
            body, fields = canonical(found), Unwrapped(found, found)
        event = self.mapper.event(fields, body, NO_TIME)  # only several keys would read it
        if isinstance(event, Event):
            check_size(event)
        return event, ""


@dataclass
class ByColumns:
    """Events by the names of columns. What is not named is taken from the column of its own name,
    if there is one.

    `payload` are the columns that are kept with an event. An empty cell is none.
    """

    named: Mapping[str, str]
    payload: Sequence[str] | None = None
    fitting: Fitting = field(default_factory=Fitting)
    second: RecordShape | None = None

    def __post_init__(self) -> None:
        self._columns = {name: self.named.get(name, name) for name in FIELDS}

    @property
    def notes(self) -> Counter[str]:
        """What was assumed."""
        return self.fitting.notes

    def check(self, name: str, columns: Sequence[str] | None) -> None:
        """Raise UsageError for a named column that is not there, or if none is the key."""
        if columns is None:
            return
        there = ", ".join(columns)
        for wanted in (*self.named.values(), *(self.payload or ())):
            if wanted not in columns:
                raise UsageError(f"{name} has no column {wanted!r}: its columns are {there}")
        if self._columns["key"] not in columns:
            raise UsageError(f"{name} has no column 'key': give --key COLUMN, one of {there}")

    def envelope(self, record: SourceRecord) -> tuple[Envelope, str]:
        """The event in the record's columns."""
        cells = _object(load_json(_text(record))) if record.fields is None else _fields(record)
        found = {name: _cell(cells, column) for name, column in self._columns.items()}
        fields = {
            "key": _named(found["key"]),
            "id": _named(found["id"]),
            "ts": self.fitting.time(found["ts"]),
            "value": self.fitting.value(_number(found["value"])),
            "payload": self._payload(cells),
        }
        event = parse(fields)
        assert isinstance(event, Event)
        check_size(event)
        return event, ""

    def _payload(self, cells: dict[str, Any]) -> Any:
        if self.payload is None:
            given = _cell(cells, "payload")
            if isinstance(given, str):
                try:
                    return load_json(given)
                except Rejected as rejected:
                    raise Rejected(Reason.BAD_PAYLOAD, rejected.detail) from None
            return plain(given)
        kept = {name: _cell(cells, name) for name in self.payload}
        return {name: plain(each) for name, each in kept.items() if each is not None} or None


def _read_time(text: str) -> datetime:
    try:
        if not _TIME.match(text):
            raise ValueError(text)
        return datetime.fromisoformat(_FRACTION.sub(r"\1", text.upper().replace(",", ".")))
    except ValueError:
        raise Rejected(
            Reason.BAD_TS, f"ts {shown(text)}: must be a number or a time as ISO 8601 has it"
        ) from None


@dataclass(frozen=True, slots=True)
class ShapedRecord:
    """What a record holds: an event, or a packet with its text. `apart`: only the second look could
    read it.
    """

    envelope: Envelope
    text: str = ""
    apart: bool = False


def read(record: SourceRecord, shape: RecordShape) -> ShapedRecord:
    """What a record holds. Raises BadRecord and Rejected."""
    apart, noted = False, dict(shape.notes)
    try:
        envelope, text = shape.envelope(record)
    except Rejected as rejected:
        if shape.second is None or rejected.reason not in FITTED:
            raise
        shape.notes.clear()
        shape.notes.update(noted)  # else the second look, which has the same notes, adds again
        envelope, text = shape.second.envelope(record)
        apart = True
    return ShapedRecord(dated(envelope) if isinstance(envelope, Event) else envelope, text, apart)


def dated(event: Event) -> Event:
    """The event, if it says when it happened. Raises Rejected: loaded twice, one that does not
    would count twice.
    """
    if event.ts is None and (event.id is None or uuid7_time(event.id) is None):
        raise Rejected(
            Reason.TS_REQUIRED, "an event that is loaded needs a time: a ts, or a UUIDv7 as its id"
        )
    return event


def _text(record: SourceRecord) -> str:
    if record.raw is None:
        raise Rejected(Reason.ITEM_TOO_LARGE, LINE_TOO_LONG)
    try:
        return record.raw.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise Rejected(Reason.NOT_JSON, f"not UTF-8 at byte {error.start}") from None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Rejected(Reason.NOT_AN_OBJECT, f"{shown(value)} is not a JSON object")
    return value


def _fields(record: SourceRecord) -> dict[str, Any]:
    assert record.fields is not None
    if isinstance(record.fields, BadRecord):
        raise record.fields
    return record.fields


def _cell(cells: Mapping[str, Any], column: str) -> Any:
    value = cells.get(column)
    return None if value == "" else value


def _named(value: Any) -> Any:
    """A key or an id: numbers and UUIDs as texts."""
    if value is None or isinstance(value, bool | float | str | dict | list | bytes):
        return value
    return str(value)


def _number(value: Any) -> Any:
    """A value: a text is read as a number."""
    if not isinstance(value, str):
        return value
    if not _NUMBER.fullmatch(value.strip()):
        raise Rejected(Reason.BAD_VALUE, f"value {shown(value)} is not a number")
    return JsonFloat(value.strip())
