"""Converts the catalog's items to and from the core's values.

spec       pk 2026-11   sk {window}#spec        written once
state      pk 2026-11   sk {window}#state       replaced whole if `version` is unchanged
hot        pk 2026-11   sk {window}#hot         `keys` that may need more shards, those `throttled`
straggler  pk 2026-11   sk {window}#straggler   `at`, the latest recorded time in ms
calendar   pk ~catalog  sk calendar             lengths, which only grow; genesis;
                                                mappings, mapped_until, marked; secret
live       pk ~catalog  sk live                 since, opened, created, version
months     pk ~catalog  sk months               the set of all months that have windows

The same table holds the redrive ledger (`ledger`), `wishes`, `periods` and `writer_notes`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tallyroll.adapters.dynamodb.attributes import (
    ABSENT,
    Facts,
    attributes_of,
    expressed,
    facts_of,
    known_fields,
)
from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.model.foreign.mappings import Mappings
from tallyroll.model.specs import IdentityScope, LogRule, Spec
from tallyroll.model.states import Attempt, Calendar, LivePointer, Status, Window
from tallyroll.model.windows import Grid, Span, WindowId

CATALOG_PK = "~catalog"
"""The partition key of what there is once: calendar, live pointer, list of months."""
MONTHS_LIKE = "????-??"
"""The pattern of the partition keys of windows' items, as IAM writes patterns; see `month_key`."""
CALENDAR: Key = {"pk": {"S": CATALOG_PK}, "sk": {"S": "calendar"}}
LIVE: Key = {"pk": {"S": CATALOG_PK}, "sk": {"S": "live"}}
MONTHS: Key = {"pk": {"S": CATALOG_PK}, "sk": {"S": "months"}}
VERSION_UNCHANGED = "#version = :read"
_ATTEMPT_STORED = {"id": "attempt", "number": "attempts"}  # the other fields by their own names


def month_key(window: WindowId) -> str:
    """The partition key of a window's items: its month."""
    return f"{window[:4]}-{window[4:6]}"


def key_of(window: WindowId, kind: str) -> Key:
    """The primary key of one of a window's items: spec, state, hot or straggler."""
    return {"pk": {"S": month_key(window)}, "sk": {"S": f"{window}#{kind}"}}


def parse_calendar(item: Item) -> Calendar:
    """The calendar in its item."""
    facts = facts_of(item)
    mappings = Mappings(
        tuple((since, text) for since, text in facts.get("mappings", ())),
        facts.get("mapped_until", 0),
        facts.get("marked", False),
    )
    grid = Grid(tuple((since, ms) for since, ms in facts["lengths"]))
    return Calendar(grid, facts["genesis"], mappings, facts.get("secret", ""))


def calendar_facts(calendar: Calendar) -> Facts:
    """What a new calendar's item holds; without mappings or a secret nothing of these."""
    facts: Facts = {"lengths": calendar.grid.lengths, "genesis": calendar.genesis}
    mappings = calendar.mappings
    if mappings.entries:
        facts["mappings"], facts["marked"] = mappings.entries, mappings.marked
        facts["mapped_until"] = mappings.until
    if calendar.secret:
        facts["secret"] = calendar.secret
    return facts


def secret_change(secret: str) -> dict[str, Any]:
    """The update that gives a calendar without a secret this one."""
    without = "attribute_exists(pk) AND attribute_not_exists(#secret)"
    return {"Key": CALENDAR, **expressed("SET #secret = :secret", without, secret=secret)}


def mapping_change(read: Mappings, appended: Mappings) -> dict[str, Any]:
    """The update that replaces the mappings `read`, if they are unchanged."""
    values: Facts = {"appended": appended.entries}
    update = "SET #mappings = :appended"
    if read.entries:
        unchanged = "#mapped_until = :until AND size(#mappings) = :count"
        values |= {"until": read.until, "count": len(read.entries)}
    else:
        unchanged = "attribute_exists(pk) AND attribute_not_exists(#mappings)"
        update += ", #mapped_until = :until"
        values |= {"until": read.until}
    return {"Key": CALENDAR, **expressed(update, unchanged, **values)}


def settling_change(until: int) -> dict[str, Any]:
    """The update that raises the `until` of mappings, if there are any and it is lower."""
    return {
        "Key": CALENDAR,
        **expressed("SET #mapped_until = :until", "#mapped_until < :until", until=until),
    }


def pointer_change(read: LivePointer | None, wanted: LivePointer) -> dict[str, Any]:
    """The update that replaces the live pointer if it is unchanged (`read` None: absent)."""
    values: Facts = {
        "since": wanted.since,
        "opened": [(span.start, span.end) for span in wanted.opened],
        "next": wanted.version,
    }
    update = "SET #since = :since, #opened = :opened, #version = :next"
    if wanted.created is None:
        update += " REMOVE #created"
    else:
        update += ", #created = :created"
        values["created"] = wanted.created
    if read:
        values["read"] = read.version
    return {"Key": LIVE, **expressed(update, VERSION_UNCHANGED if read else ABSENT, **values)}


def parse_pointer(item: Item) -> LivePointer:
    """The live pointer in its item."""
    facts = known_fields(LivePointer, facts_of(item))
    return LivePointer(**facts | {"opened": tuple(Span(*one) for one in facts.get("opened", ()))})


def parse_spec(item: Item) -> Spec:
    """The spec in its item."""
    facts = known_fields(Spec, facts_of(item))
    identity = IdentityScope(facts.get("identity", IdentityScope.WINDOW))
    logs = {key: LogRule(*rule) for key, rule in facts.get("logs", {}).items()}
    return Spec(**facts | {"identity": identity, "logs": logs})


def spec_facts(spec: Spec) -> Facts:
    """What a spec's item holds beside its key."""
    return asdict(spec) | {"logs": spec.logs or None}


def window_item(window: Window) -> Item:
    """The item of a window's state. Counts of an attempt are stored even if they are 0."""
    facts = asdict(window)
    attempt = {
        _ATTEMPT_STORED.get(name, name): value
        for name, value in facts.pop("attempt").items()
        if value or name in ("number", "noted")
    }
    return key_of(facts.pop("id"), "state") | attributes_of(facts | attempt)


def parse_window(item: Item) -> Window:
    """The state in its item."""
    facts = facts_of(item)
    attempt = facts | {name: facts[at] for name, at in _ATTEMPT_STORED.items() if at in facts}
    facts["id"] = facts["sk"].partition("#")[0]
    facts["status"] = Status(facts["status"])
    facts["attempt"] = Attempt(**known_fields(Attempt, attempt))
    return Window(**known_fields(Window, facts))
