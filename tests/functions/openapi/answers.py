"""The JSON schemas of the HTTP API's answers, by their names in the OpenAPI document.

`OF_ROUTES` says which answers a route has. Clients must ignore members that they do not know.
`test_answers.py` compares real answers with these, member by member.
"""

from __future__ import annotations

from typing import Any

from tallyroll.model.states import Status
from tallyroll.reads.described.problems import ARCHIVED, ProblemType
from tallyroll.reads.described.routes import DOCUMENT
from tallyroll.reads.steps import MINUTE, STEPS

Schema = dict[str, Any]

_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]{1,6})?$"


def record(text: str, required: Schema, **optional: Schema) -> Schema:
    """An object with these members, some of them optional."""
    return {
        "type": "object",
        "description": text,
        "properties": {**required, **optional},
        "required": list(required),
    }


def of(name: str) -> Schema:
    """A reference to a schema of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def listed(items: Schema) -> Schema:
    """An array."""
    return {"type": "array", "items": items}


NUMBER: Schema = {"type": "integer", "minimum": 0}
DECIMAL: Schema = of("Decimal")
INSTANT: Schema = {"type": "string", "format": "date-time"}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
WINDOW: Schema = {"type": "string", "pattern": "^[0-9]{8}T[0-9]{6}Z$"}
STATE: Schema = {"enum": [str(status) for status in Status]}
PERIOD: Schema = {
    "type": "string",
    "pattern": "^[0-9]{4}-[0-9]{2}(-[0-9]{2})?$",
    "description": "A day or a month of UTC",
}

SUMS: Schema = {"events": NUMBER, "sum": DECIMAL}
COMPLETE: Schema = {"complete": FLAG | {"description": "If false, numbers are lower bounds"}}
TIMED: Schema = {"as_of": INSTANT | {"description": "The time of the read"}, **COMPLETE}
AS_OF: Schema = INSTANT | {
    "description": "The time of the read; absent if all is of sealed windows, and complete"
}
READS: Schema = {
    "const": "eventual",
    "description": "There if it was read eventually: it may lack what was counted a moment ago",
}
NET: Schema = {"retracted": of("Sums")}  # in whatever has sums
MISSING: Schema = listed(WINDOW) | {"description": "Windows that could not be read in time"}
READING: Schema = record(
    "What it took to read the rows of live windows in Keyspaces",
    {"rows": NUMBER, "read_units_max": {"type": "number", "minimum": 0}},
)
EVENT: Schema = {"ts": {"type": "integer", "description": "ms since the epoch"}, "value": DECIMAL}
PAYLOAD: Schema = {
    "payload": {"description": "Any JSON value"},
    "payload_ref": of("PayloadRef"),
    "retracted": of("Retraction"),
}
PACKET_OF: Schema = {
    "packet": TEXT | {"description": "The id of the packet that the event came in"},
    "index": NUMBER | {"description": "Its place in the packet"},
}
ARCHIVES: Schema = of("Archives")


def stored(text: str, where: Schema, **optional: Schema) -> Schema:
    """An event, or a packet with its events."""
    return {
        "anyOf": [
            record(text, {**where, "id": TEXT, **EVENT}, **PAYLOAD, **PACKET_OF, **optional),
            record(text, {**where, "id": TEXT, "events": listed(of("PackedEvent"))}, **optional),
        ]
    }


_WHERE: Schema = {"key": TEXT, "window": WINDOW, "state": STATE}
_RANGE: Schema = {"since": INSTANT, "until": INSTANT}
_LARGEST = of("Largest")

SCHEMAS: dict[str, Schema] = {
    "Decimal": {
        "type": "string",
        "pattern": _DECIMAL,
        "description": "A decimal number, which may have more digits than a double holds",
    },
    "Sums": record("Events and the sum of their values", SUMS),
    "PayloadRef": record(
        "An uploaded payload", {"bucket": TEXT, "key": TEXT, "bytes": NUMBER, "sha256": TEXT}
    ),
    "Retraction": record(
        "By whom the event was retracted; it is in no count", {"by": TEXT, "why": TEXT}, at=INSTANT
    ),
    "PackedEvent": record("An event of a packet", EVENT, **PAYLOAD),
    "Archives": listed(record("A dropped window", {"window": WINDOW, "archive": TEXT})),
    "Largest": listed(record("A key", {"key": TEXT, **SUMS}, **NET)),
    "Count": record(
        "The count of one key. `windows` has the live windows, and the sealed ones with events of"
        " the key, but for those in `rolled_up`",
        {
            "key": TEXT,
            **SUMS,
            "windows": listed(
                record("A window", {"window": WINDOW, **SUMS, "state": STATE}, **NET)
            ),
            **COMPLETE,
        },
        **NET,
        as_of=AS_OF,
        reads=READS,
        rolled_up=listed(
            record(
                "A day or month of sealed windows",
                {"period": PERIOD, "windows": NUMBER, **SUMS},
                **NET,
            )
        ),
        reading=READING,
        missing=MISSING,
    ),
    "Counts": record(
        "The counts of several keys, in the keys' order",
        {
            "counters": listed(
                record(
                    "A key",
                    {"key": TEXT, **SUMS, **COMPLETE},
                    **NET,
                    as_of=AS_OF,
                    reads=READS,
                    reading=READING,
                    missing=MISSING,
                )
            ),
            **COMPLETE,
        },
        as_of=AS_OF,
    ),
    "Found": stored(
        "One event, or a packet. Asked by a date or a range, the earliest",
        _WHERE,
        also=listed(
            {
                "anyOf": [
                    stored("The same id in a later window", _WHERE),
                    record("The window alone, if the answer is long", {"window": WINDOW}),
                ]
            }
        ),
        archived=ARCHIVES | {"description": "Windows where other events with the id may be"},
    ),
    "EventsOfWindow": record(
        "Events of a key in a window, by their ids",
        {**_WHERE, "events": listed(stored("An event", {})), **TIMED},
        cursor=TEXT | {"description": "Where the next answer begins; absent after the last"},
    ),
    "EventsOfRange": record(
        "Events of a key in a range of windows",
        {"key": TEXT, **_RANGE, "events": listed(stored("An event", {"window": WINDOW})), **TIMED},
        cursor=TEXT | {"description": "Where the next answer begins; absent after the last"},
    ),
    "Keys": record(
        "All keys of a range, by their code points, page by page",
        {**_RANGE, "keys": _LARGEST, **TIMED},
        prefix=TEXT,
        cursor=TEXT | {"description": "Where the next answer begins; absent after the last"},
        missing=listed(TEXT) | {"description": "Windows and days before which the page ends"},
    ),
    "Series": record(
        "A key's counts by steps",
        {
            "key": TEXT,
            "step": {"enum": list(STEPS)},
            "tz": TEXT,
            "until": INSTANT,
            **SUMS,
            "points": listed(
                record(
                    "A step, which ends where the next begins",
                    {"start": INSTANT, **SUMS},
                    **NET,
                    complete={"const": False},
                )
            ),
            **COMPLETE,
        },
        **NET,
        as_of=AS_OF,
        missing=MISSING,
    ),
    "Minutes": record(
        "A key's events by the minute, which have no sums",
        {
            "key": TEXT,
            "step": {"const": MINUTE},
            "tz": TEXT,
            "until": INSTANT,
            "events": NUMBER,
            "points": listed(
                record("A minute", {"start": INSTANT, "events": NUMBER}, complete={"const": False})
            ),
            **TIMED,
        },
        missing=MISSING,
    ),
    "TopOfWindow": record(
        "The largest keys of a window, and the sums over all its keys",
        {"window": WINDOW, "state": STATE, "keys": NUMBER, **SUMS, "top": _LARGEST, **TIMED},
        **NET,
        missing_buckets=NUMBER | {"description": "Parts that could not be read in time"},
    ),
    "TopOfRange": record(
        "The largest keys of a range, and the sums over all its keys",
        {**_RANGE, **SUMS, "keys": NUMBER, "top": _LARGEST, **TIMED},
        **NET,
        missing=listed(TEXT) | {"description": "Windows and days that could not be read in time"},
    ),
    "Total": record(
        "The total over all keys of a range",
        {**_RANGE, **SUMS, **TIMED},
        **NET,
        missing=listed(TEXT) | {"description": "Windows and days that could not be read in time"},
    ),
    "OpenApi": record(
        "An OpenAPI document",
        {"openapi": TEXT, "info": {"type": "object"}, "paths": {"type": "object"}},
        **{name: {} for name in ("servers", "security", "components")},
    ),
    "Refused": record("An answer of API Gateway itself", {"message": TEXT}),
}
"""What is answered, and parts of it."""

OF_ROUTES: dict[str, tuple[str, ...]] = {
    "/v1/counters": ("Count", "Counts"),
    "/v1/event": ("Found",),
    "/v1/events": ("EventsOfWindow", "EventsOfRange"),
    "/v1/keys": ("Keys",),
    DOCUMENT: ("OpenApi",),
    "/v1/series": ("Series", "Minutes"),
    "/v1/top": ("TopOfWindow", "TopOfRange"),
    "/v1/total": ("Total",),
}
"""The answers of each route, as status 200."""


def problem(kinds: list[ProblemType]) -> Schema:
    """A problem of one of these types, which have one status."""
    (status, title), *others = {(kind.status, kind.title) for kind in kinds}
    assert not others
    named: Schema = {
        "type": {"enum": [kind.uri for kind in kinds]},
        "title": {"const": title},
        "status": {"const": status},
        "detail": TEXT | {"description": "What is wrong, for people"},
    }
    if kinds != [ARCHIVED]:
        return record("A problem (RFC 9457)", named)
    archive = TEXT | {"description": "The archive's prefix in the bucket"}
    return record(
        "A problem (RFC 9457)", {**named, "archive": archive}, archives=ARCHIVES, since=INSTANT
    )
