"""Converts the catalog's items to and from the core's values.

spec       pk 2026-11   sk {window}#spec        written once
state      pk 2026-11   sk {window}#state       replaced whole if `version` is unchanged
hot        pk 2026-11   sk {window}#hot         `keys` that may need more shards
straggler  pk 2026-11   sk {window}#straggler   `at`, the latest recorded time in ms
calendar   pk ~catalog  sk calendar             lengths, which only grow; genesis
live       pk ~catalog  sk live                 since, opened, created, version
months     pk ~catalog  sk months               the set of all months that have windows

The same table holds the redrive ledger (`ledger`), periods (`periods`) and `writer_notes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_type_hints

from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.model.specs import Spec
from tallyroll.model.states import Attempt, Calendar, LivePointer, Status, Window
from tallyroll.model.windows import Grid, Span, WindowId

_PK = "~catalog"
CALENDAR: Key = {"pk": {"S": _PK}, "sk": {"S": "calendar"}}
LIVE: Key = {"pk": {"S": _PK}, "sk": {"S": "live"}}
MONTHS: Key = {"pk": {"S": _PK}, "sk": {"S": "months"}}
ABSENT = "attribute_not_exists(pk)"
VERSION_UNCHANGED = "#version = :read"


def _fields(values: type, kind: type, *without: str) -> tuple[str, ...]:
    """The names of a dataclass's fields of a type, or of that type and None."""
    hints = get_type_hints(values).items()
    return tuple(
        name for name, hint in hints if hint in (kind, kind | None) and name not in without
    )


_SPEC_NUMBERS, _SPEC_TEXTS = _fields(Spec, int), _fields(Spec, str)
_STATE_NUMBERS, _STATE_TEXTS = _fields(Window, int), _fields(Window, str, "id")
_ATTEMPT = get_type_hints(Attempt)
_ATTEMPT_STORED = {"id": "attempt", "number": "attempts"}  # the other fields by their own names


def month_key(window: WindowId) -> str:
    """The partition key of a window's items: its month."""
    return f"{window[:4]}-{window[4:6]}"


def key_of(window: WindowId, kind: str) -> Key:
    """The primary key of one of a window's items: spec, state, hot or straggler."""
    return {"pk": {"S": month_key(window)}, "sk": {"S": f"{window}#{kind}"}}


def lengths_of(calendar: Calendar) -> dict[str, Any]:
    """The attribute that holds the grid."""
    pairs = calendar.grid.lengths
    return {"L": [{"L": [{"N": str(since)}, {"N": str(length)}]} for since, length in pairs]}


def parse_calendar(item: Item) -> Calendar:
    """The calendar in its item."""
    lengths = tuple(
        (int(entry["L"][0]["N"]), int(entry["L"][1]["N"])) for entry in item["lengths"]["L"]
    )
    return Calendar(Grid(lengths), int(item["genesis"]["N"]))


def pointer_change(read: LivePointer | None, wanted: LivePointer) -> dict[str, Any]:
    """The update that replaces the live pointer if it is unchanged (`read` None: absent)."""
    values: dict[str, Any] = {
        ":since": {"N": str(wanted.since)},
        ":opened": {
            "L": [{"L": [{"N": str(span.start)}, {"N": str(span.end)}]} for span in wanted.opened]
        },
        ":next": {"N": str(wanted.version)},
    }
    update = "SET #since = :since, #opened = :opened, #version = :next"
    if wanted.created is None:
        update += " REMOVE #created"
    else:
        update += ", #created = :created"
        values[":created"] = {"S": wanted.created}
    if read:
        values[":read"] = {"N": str(read.version)}
    names = ("since", "opened", "created", "version")
    return {
        "Key": LIVE,
        "UpdateExpression": update,
        "ConditionExpression": VERSION_UNCHANGED if read else ABSENT,
        "ExpressionAttributeNames": {f"#{name}": name for name in names},
        "ExpressionAttributeValues": values,
    }


def parse_pointer(item: Item) -> LivePointer:
    """The live pointer in its item."""
    spans = (entry["L"] for entry in item.get("opened", {"L": []})["L"])
    return LivePointer(
        since=int(item["since"]["N"]),
        version=int(item["version"]["N"]),
        opened=tuple(Span(int(start["N"]), int(end["N"])) for start, end in spans),
        created=item["created"]["S"] if "created" in item else None,
    )


def spec_item(spec: Spec) -> Item:
    """The item of a spec."""
    return {
        **key_of(spec.window, "spec"),
        **_facts_item(spec, _SPEC_NUMBERS, _SPEC_TEXTS),
        "require_ts": {"BOOL": spec.require_ts},
        "hot": _numbers(spec.hot),
    }


def parse_spec(item: Item) -> Spec:
    """The spec in its item."""
    return Spec(
        require_ts=item.get("require_ts", {"BOOL": False})["BOOL"],
        hot=_read_numbers(item["hot"]),
        **_read_facts(item, _SPEC_NUMBERS, _SPEC_TEXTS),
    )


def window_item(window: Window) -> Item:
    """The item of a window's state."""
    return {
        **key_of(window.id, "state"),
        **_facts_item(window, _STATE_NUMBERS, _STATE_TEXTS),
        **_attempt_item(window.attempt),
        "status": {"S": window.status.value},
        "times": _numbers(window.times),
    }


def parse_window(item: Item) -> Window:
    """The state in its item."""
    return Window(
        id=item["sk"]["S"].partition("#")[0],
        status=Status(item["status"]["S"]),
        times=_read_numbers(item["times"]),
        attempt=_read_attempt(item),
        **_read_facts(item, _STATE_NUMBERS, _STATE_TEXTS),
    )


def _facts_item(facts: Spec | Window, numbers: Sequence[str], texts: Sequence[str]) -> Item:
    """The attributes of the fields that are not None."""
    kinds = [*((name, "N") for name in numbers), *((name, "S") for name in texts)]
    known = ((name, kind, getattr(facts, name)) for name, kind in kinds)
    return {name: {kind: str(value)} for name, kind, value in known if value is not None}


def _read_facts(item: Item, numbers: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    facts: dict[str, Any] = {name: int(item[name]["N"]) for name in numbers if name in item}
    return facts | {name: item[name]["S"] for name in texts if name in item}


def _attempt_item(attempt: Attempt) -> Item:
    """The attributes of what is known of an attempt; counts are stored even if they are 0."""
    return {
        _ATTEMPT_STORED.get(name, name): {"N" if isinstance(value, int) else "S": str(value)}
        for name, value in asdict(attempt).items()
        if value or name in ("number", "noted")
    }


def _read_attempt(item: Item) -> Attempt:
    facts = {
        name: kind(item[stored]["N" if kind is int else "S"])
        for name, kind in _ATTEMPT.items()
        if (stored := _ATTEMPT_STORED.get(name, name)) in item
    }
    return Attempt(**facts)


def _numbers(values: Mapping[str, int]) -> dict[str, Any]:
    return {"M": {name: {"N": str(value)} for name, value in values.items()}}


def _read_numbers(attribute: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(value["N"]) for name, value in attribute["M"].items()}
