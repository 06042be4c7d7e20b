"""The catalog in DynamoDB: the windows of a month lie together, a few pointers under `~catalog`.

spec       pk 2026-11   sk {window}#spec        written once
state      pk 2026-11   sk {window}#state       replaced whole while `version` is as it was read
straggler  pk 2026-11   sk {window}#straggler   `at`, the latest note in ms
calendar   pk ~catalog  sk calendar             lengths, which are only added to; genesis
live       pk ~catalog  sk live                 since, version
months     pk ~catalog  sk months               the set of all months that have windows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from tallyroll.aws import Caller, attempts
from tallyroll.dynamodb import (
    CONDITION_FAILED,
    CONFLICTS,
    REASON_CONDITION,
    TRANSACTION_TRIES,
    Action,
    batch_get,
    cancellation_reasons,
    passing,
    query,
    transact,
)
from tallyroll.errors import Refused, StateConflict, StoreError, Throttled, Unknown
from tallyroll.items import Key
from tallyroll.limits import TS_MS_MAX
from tallyroll.ports import Calendar, Effects, Item, LivePointer, Status, Window
from tallyroll.specs import Spec
from tallyroll.windows import Grid, WindowId, window_id

_PK = "~catalog"
_CALENDAR: Key = {"pk": {"S": _PK}, "sk": {"S": "calendar"}}
_LIVE: Key = {"pk": {"S": _PK}, "sk": {"S": "live"}}
_MONTHS: Key = {"pk": {"S": _PK}, "sk": {"S": "months"}}
_SPEC_NUMBERS = tuple(fact.name for fact in fields(Spec) if str(fact.type).startswith("int"))
_SPEC_TEXTS = tuple(fact.name for fact in fields(Spec) if fact.type in ("str", "WindowId"))
_STATE_NUMBERS = tuple(fact.name for fact in fields(Window) if str(fact.type).startswith("int"))
_STATE_TEXTS = tuple(fact.name for fact in fields(Window) if str(fact.type).startswith("str"))
_ABSENT = "attribute_not_exists(pk)"
_VERSION_STANDS = "#version = :read"
_LENGTHS_STAND = "#lengths = :lengths"


class DynamoCatalog:
    """The catalog port on one DynamoDB table."""

    def __init__(self, caller: Caller, effects: Effects, table: str) -> None:
        self._caller = caller
        self._effects = effects
        self._table = table

    def calendar(self) -> Calendar | None:
        """The calendar, or None before it was founded."""
        item = self._get(_CALENDAR)
        return None if item is None else _calendar(item)

    def found(self, calendar: Calendar) -> Calendar:
        """Put the calendar if there is none; give the one that stands."""
        item: Item = {
            **_CALENDAR,
            "lengths": _lengths(calendar),
            "genesis": {"N": str(calendar.genesis)},
        }
        return _calendar(self._put_once(_CALENDAR, item))

    def extend(self, read: Calendar, extended: Calendar, live: LivePointer) -> bool:
        """Replace the calendar, if neither it nor the live pointer has changed since it was read.

        Whoever holds the pointer as it was can move it no more: it has a new version.
        """
        calendar = {
            "Key": _CALENDAR,
            "UpdateExpression": "SET #lengths = :extended",
            "ConditionExpression": _LENGTHS_STAND,
            "ExpressionAttributeNames": {"#lengths": "lengths"},
            "ExpressionAttributeValues": {
                ":lengths": _lengths(read),
                ":extended": _lengths(extended),
            },
        }
        changes = (calendar, _pointer_change(live, live.since))
        actions = [{"Update": {"TableName": self._table, **change}} for change in changes]
        if transact(self._caller, self._effects, actions) is None:
            return True
        return self.calendar() == extended  # by an attempt of which the answer was lost

    def specs(self, windows: Sequence[WindowId]) -> dict[WindowId, Spec]:
        """The specs that exist, by one BatchGetItem per 100."""
        keys = [_key(window, "spec") for window in dict.fromkeys(windows)]
        found = batch_get(self._caller, self._effects, self._table, keys)
        specs = map(_spec, found)
        return {spec.window: spec for spec in specs}

    def put_spec(self, spec: Spec) -> Spec:
        """Put the spec if the window has none; give the one that stands."""
        return _spec(self._put_once(_key(spec.window, "spec"), _spec_item(spec)))

    def window(self, window: WindowId) -> Window | None:
        """A window's state."""
        item = self._get(_key(window, "state"))
        return None if item is None else _window(item)

    def windows(self, since: int, until: int) -> list[Window]:
        """The states of the windows that start in [since, until) ms, ascending.

        Only months that have windows are asked for.
        """
        since, until = max(since, 0), min(until, TS_MS_MAX + 1)
        item = self._get(_MONTHS)
        if item is None or since >= until:
            return []
        first, last = window_id(since), window_id(until - 1)
        found = []
        for month in sorted(item["months"]["SS"]):
            if _month(first) <= month <= _month(last):
                found += self._states(month, first, last)
        return [window for window in found if since <= window.start < until]

    def _states(self, month: str, first: WindowId, last: WindowId) -> list[Window]:
        pages = query(
            self._caller,
            self._table,
            "pk = :month AND sk BETWEEN :first AND :last",
            {
                ":month": {"S": month},
                ":first": {"S": first},
                ":last": {"S": f"{last}#~"},
            },
            # The month's specs and stragglers lie between; only states have a status.
            FilterExpression="attribute_exists(#status)",
            ExpressionAttributeNames={"#status": "status"},
        )
        return [_window(item) for page in pages for item in page]

    def create(self, window: Window, calendar: Calendar | None = None) -> bool:
        """Put a first state, with its month and the live pointer, if there is none; else False.

        The pointer's version grows even if it does not move: a run that listed the windows before
        this one was there must not move it past. All in one transaction.
        Raises StateConflict unless `calendar`, where given, still stands; Throttled or Unknown if
        it stays undecided, and Refused.
        """
        last: StoreError | None = None
        unknown = False
        for _ in attempts(self._effects, TRANSACTION_TRIES):
            try:
                actions = self._creation(window, self.live(), calendar)
                self._caller.call("TransactWriteItems", TransactItems=actions)
            except (Throttled, Unknown) as error:
                last, unknown = error, unknown or isinstance(error, Unknown)
            except Refused as error:
                reasons = cancellation_reasons(error)
                failed = [reason.get("Code") == REASON_CONDITION for reason in reasons]
                if failed and failed[0]:
                    return unknown and self.window(window.id) == window
                if calendar and failed and failed[-1]:
                    raise StateConflict("the calendar has changed since it was read") from error
                if not passing(error):
                    raise
                last = Throttled(str(error), error.code)
            else:
                return True
        raise last or Throttled(f"window {window.id} could not be created")

    def _creation(
        self, window: Window, live: LivePointer | None, calendar: Calendar | None
    ) -> list[Action]:
        month = _month(window.id)
        table = {"TableName": self._table}
        state = {**table, "Item": _window_item(window), "ConditionExpression": _ABSENT}
        months = {
            **table,
            "Key": _MONTHS,
            "UpdateExpression": "ADD months :month",
            "ExpressionAttributeValues": {":month": {"SS": [month]}},
        }
        since = window.start if live is None else min(live.since, window.start)
        pointer = {**table, **_pointer_change(live, since)}
        creation: list[Action] = [{"Put": state}, {"Update": months}, {"Update": pointer}]
        if calendar:
            creation.append({"ConditionCheck": {**table, **_calendar_stands(calendar)}})
        return creation

    def advance(self, window: Window) -> Window:
        """Replace a state whose version is still `window.version`; give it with the next one.

        Raises StateConflict if the version is another one, Throttled or Unknown if that stays
        undecided.
        """
        wanted = replace(window, version=window.version + 1)
        last: StoreError | None = None
        unknown = False
        for _ in attempts(self._effects, TRANSACTION_TRIES):
            try:
                self._caller.call(
                    "PutItem",
                    TableName=self._table,
                    Item=_window_item(wanted),
                    ConditionExpression=_VERSION_STANDS,
                    ExpressionAttributeNames={"#version": "version"},
                    ExpressionAttributeValues={":read": {"N": str(window.version)}},
                )
            except (Throttled, Unknown) as error:
                last, unknown = error, unknown or isinstance(error, Unknown)
            except Refused as error:
                if error.code == CONDITION_FAILED:
                    if unknown and self.window(window.id) == wanted:
                        return wanted
                    raise StateConflict(
                        f"window {window.id} is not at version {window.version} any more"
                    ) from error
                if error.code not in CONFLICTS:
                    raise
                last = Throttled(str(error), error.code)
            else:
                return wanted
        raise last or Throttled(f"window {window.id} could not be advanced")

    def live(self) -> LivePointer | None:
        """The pointer to the oldest window that is not dropped."""
        item = self._get(_LIVE)
        if item is None:
            return None
        return LivePointer(int(item["since"]["N"]), int(item["version"]["N"]))

    def move_live(self, read: LivePointer, since: int) -> None:
        """Move the pointer if its version is still the one that was read; else do nothing."""
        self._if_it_stands(_pointer_change(read, since))

    def note_straggler(self, window: WindowId, at: int) -> None:
        """Note `at` on the window, unless a later note stands."""
        self._if_it_stands(
            {
                "Key": _key(window, "straggler"),
                "UpdateExpression": "SET #at = :until",
                "ConditionExpression": "attribute_not_exists(#at) OR #at < :until",
                "ExpressionAttributeNames": {"#at": "at"},
                "ExpressionAttributeValues": {":until": {"N": str(at)}},
            }
        )

    def stragglers(self, windows: Sequence[WindowId]) -> dict[WindowId, int]:
        """The latest note, in ms, of each window that has one."""
        keys = [_key(window, "straggler") for window in dict.fromkeys(windows)]
        found = batch_get(self._caller, self._effects, self._table, keys)
        return {item["sk"]["S"].partition("#")[0]: int(item["at"]["N"]) for item in found}

    def _get(self, key: Key) -> Item | None:
        reply = self._caller.read("GetItem", TableName=self._table, Key=key, ConsistentRead=True)
        item: Item | None = reply.get("Item")
        return item

    def _put_once(self, key: Key, item: Item) -> Item:
        """Put the item if there is none under its key; the one that stands then."""
        try:
            self._caller.read(
                "PutItem", TableName=self._table, Item=item, ConditionExpression=_ABSENT
            )
        except Refused as error:
            if error.code != CONDITION_FAILED:
                raise
        stands = self._get(key)
        if stands is None:
            raise Unknown(f"{key} was put and is not there", "NotThere")
        return stands

    def _if_it_stands(self, change: Mapping[str, Any]) -> None:
        """A conditional update that may as well not happen; repeating it does no harm."""
        try:
            self._caller.read("UpdateItem", TableName=self._table, **change)
        except Refused as error:
            if error.code in CONFLICTS:
                raise Throttled(str(error), error.code) from error
            if error.code != CONDITION_FAILED:
                raise


def _pointer_change(read: LivePointer | None, since: int) -> dict[str, Any]:
    """The update that moves the live pointer if it is as it was read (None: not there)."""
    values = {
        ":since": {"N": str(since)},
        ":next": {"N": str(read.version + 1 if read else 1)},
    }
    names = {"#since": "since", "#version": "version"}
    return {
        "Key": _LIVE,
        "UpdateExpression": "SET #since = :since, #version = :next",
        "ConditionExpression": _VERSION_STANDS if read else _ABSENT,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {**values, ":read": {"N": str(read.version)}}
        if read
        else values,
    }


def _month(window: WindowId) -> str:
    return f"{window[:4]}-{window[4:6]}"


def _key(window: WindowId, kind: str) -> Key:
    return {"pk": {"S": _month(window)}, "sk": {"S": f"{window}#{kind}"}}


def creating_check(table: str, window: WindowId) -> Action:
    """The action that lets a transaction pass only while a window's state is `creating`."""
    return {
        "ConditionCheck": {
            "TableName": table,
            "Key": _key(window, "state"),
            "ConditionExpression": "#status = :creating",
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": {":creating": {"S": Status.CREATING.value}},
        }
    }


def _calendar_stands(calendar: Calendar) -> dict[str, Any]:
    return {
        "Key": _CALENDAR,
        "ConditionExpression": _LENGTHS_STAND,
        "ExpressionAttributeNames": {"#lengths": "lengths"},
        "ExpressionAttributeValues": {":lengths": _lengths(calendar)},
    }


def _lengths(calendar: Calendar) -> dict[str, Any]:
    pairs = calendar.grid.lengths
    return {"L": [{"L": [{"N": str(since)}, {"N": str(length)}]} for since, length in pairs]}


def _calendar(item: Item) -> Calendar:
    lengths = tuple(
        (int(entry["L"][0]["N"]), int(entry["L"][1]["N"])) for entry in item["lengths"]["L"]
    )
    return Calendar(Grid(lengths), int(item["genesis"]["N"]))


def _spec_item(spec: Spec) -> Item:
    return {
        **_key(spec.window, "spec"),
        **_facts_item(spec, _SPEC_NUMBERS, _SPEC_TEXTS),
        "require_ts": {"BOOL": spec.require_ts},
        "hot": _numbers(spec.hot),
    }


def _spec(item: Item) -> Spec:
    return Spec(
        require_ts=item.get("require_ts", {"BOOL": False})["BOOL"],
        hot=_read_numbers(item["hot"]),
        **_read_facts(item, _SPEC_NUMBERS, _SPEC_TEXTS),
    )


def _window_item(window: Window) -> Item:
    return {
        **_key(window.id, "state"),
        **_facts_item(window, _STATE_NUMBERS, _STATE_TEXTS),
        "status": {"S": window.status.value},
        "times": _numbers(window.times),
    }


def _window(item: Item) -> Window:
    return Window(
        id=item["sk"]["S"].partition("#")[0],
        status=Status(item["status"]["S"]),
        times=_read_numbers(item["times"]),
        **_read_facts(item, _STATE_NUMBERS, _STATE_TEXTS),
    )


def _facts_item(facts: Spec | Window, numbers: Sequence[str], texts: Sequence[str]) -> Item:
    """The attributes of those facts that are not None."""
    kinds = [*((name, "N") for name in numbers), *((name, "S") for name in texts)]
    known = ((name, kind, getattr(facts, name)) for name, kind in kinds)
    return {name: {kind: str(value)} for name, kind, value in known if value is not None}


def _read_facts(item: Item, numbers: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    facts: dict[str, Any] = {name: int(item[name]["N"]) for name in numbers if name in item}
    return facts | {name: item[name]["S"] for name in texts if name in item}


def _numbers(values: Mapping[str, int]) -> dict[str, Any]:
    return {"M": {name: {"N": str(value)} for name, value in values.items()}}


def _read_numbers(attribute: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(value["N"]) for name, value in attribute["M"].items()}
