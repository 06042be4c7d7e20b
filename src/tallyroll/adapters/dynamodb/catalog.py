"""The catalog in DynamoDB: one partition for the windows of a month, one for the pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tallyroll.adapters.aws.client import Caller, retried
from tallyroll.adapters.dynamodb.catalog_items import (
    ABSENT,
    CALENDAR,
    LIVE,
    MONTHS,
    VERSION_UNCHANGED,
    key_of,
    lengths_of,
    month_key,
    parse_calendar,
    parse_pointer,
    parse_spec,
    parse_window,
    pointer_change,
    spec_item,
    window_item,
)
from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.adapters.dynamodb.ledger import put_claim, read_claims
from tallyroll.adapters.dynamodb.periods import advanced, opened_again, read_periods, read_unrolled
from tallyroll.adapters.dynamodb.requests import (
    CONDITION_FAILED,
    CONFLICTS,
    REASON_CONDITION,
    TRANSACTION_TRIES,
    Action,
    batch_get,
    cancellation_reasons,
    ignoring,
    passing,
    query,
    throttled_if,
    transact,
)
from tallyroll.adapters.dynamodb.writer_notes import (
    beats,
    delete_reception,
    put_reception,
    read_heartbeat,
    read_receptions,
)
from tallyroll.errors import Refused, StateConflict, Unknown
from tallyroll.limits import HOT_NOTES_MAX, TS_MS_MAX
from tallyroll.model.ids import Identity
from tallyroll.model.periods import PeriodName, PeriodState
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Status, Window
from tallyroll.model.windows import WindowId, window_id
from tallyroll.ports.catalog import Claim
from tallyroll.ports.effects import Effects
from tallyroll.ports.writer_notes import Heartbeat, Reception

_LENGTHS_UNCHANGED = "#lengths = :lengths"


class DynamoCatalog:
    """The catalog port on one DynamoDB table."""

    def __init__(self, caller: Caller, effects: Effects, table: str) -> None:
        self._caller = caller
        self._effects = effects
        self._table = table

    def calendar(self) -> Calendar | None:
        item = self._get(CALENDAR)
        return None if item is None else parse_calendar(item)

    def found(self, calendar: Calendar) -> Calendar:
        item: Item = {
            **CALENDAR,
            "lengths": lengths_of(calendar),
            "genesis": {"N": str(calendar.genesis)},
        }
        return parse_calendar(self._put_once(CALENDAR, item))

    def extend(self, read: Calendar, extended: Calendar, live: LivePointer) -> bool:
        calendar = {
            "Key": CALENDAR,
            "UpdateExpression": "SET #lengths = :extended",
            "ConditionExpression": _LENGTHS_UNCHANGED,
            "ExpressionAttributeNames": {"#lengths": "lengths"},
            "ExpressionAttributeValues": {
                ":lengths": lengths_of(read),
                ":extended": lengths_of(extended),
            },
        }
        changes = (calendar, pointer_change(live, replace(live, version=live.version + 1)))
        actions = [{"Update": {"TableName": self._table, **change}} for change in changes]
        if transact(self._caller, self._effects, actions) is None:
            return True
        return self.calendar() == extended  # by an attempt whose reply was lost

    def specs(self, windows: Sequence[WindowId]) -> dict[WindowId, Spec]:
        keys = [key_of(window, "spec") for window in dict.fromkeys(windows)]
        found = batch_get(self._caller, self._effects, self._table, keys)
        specs = map(parse_spec, found)
        return {spec.window: spec for spec in specs}

    def put_spec(self, spec: Spec) -> Spec:
        return parse_spec(self._put_once(key_of(spec.window, "spec"), spec_item(spec)))

    def window(self, window: WindowId) -> Window | None:
        item = self._get(key_of(window, "state"))
        return None if item is None else parse_window(item)

    def windows(self, since: int, until: int) -> list[Window]:
        """Queries only months that have windows."""
        since, until = max(since, 0), min(until, TS_MS_MAX + 1)
        item = self._get(MONTHS)
        if item is None or since >= until:
            return []
        first, last = window_id(since), window_id(until - 1)
        found = []
        for month in sorted(item["months"]["SS"]):
            if month_key(first) <= month <= month_key(last):
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
            # Specs and notes lie between the states; only states have a status.
            FilterExpression="attribute_exists(#status)",
            ExpressionAttributeNames={"#status": "status"},
        )
        return [parse_window(item) for page in pages for item in page]

    def create(self, window: Window, calendar: Calendar | None = None) -> bool:
        """Put a window's first state, with its month and the live pointer; False if it has a state.

        One transaction, which also begins a new epoch of the window's day and month. It gives the
        live pointer a new version even if that already covered the window: a run that listed the
        windows before must not move it past this one. Raises StateConflict if `calendar` is given
        and has changed, Throttled or Unknown if it stays undecided, and Refused.
        """
        unknown = False

        def once() -> bool:
            nonlocal unknown
            actions = self._creation(window, self.live(), calendar)
            try:
                self._caller.call("TransactWriteItems", TransactItems=actions)
            except Unknown:
                unknown = True
                raise
            except Refused as error:
                reasons = cancellation_reasons(error)
                failed = [reason.get("Code") == REASON_CONDITION for reason in reasons]
                if failed and failed[0]:
                    return unknown and self.window(window.id) == window
                if calendar and failed and failed[-1]:
                    raise StateConflict("the calendar has changed since it was read") from error
                raise
            return True

        return retried(self._effects, TRANSACTION_TRIES, once, passing)

    def _creation(
        self, window: Window, live: LivePointer | None, calendar: Calendar | None
    ) -> list[Action]:
        month = month_key(window.id)
        table = {"TableName": self._table}
        state = {**table, "Item": window_item(window), "ConditionExpression": ABSENT}
        months = {
            **table,
            "Key": MONTHS,
            "UpdateExpression": "ADD months :month",
            "ExpressionAttributeValues": {":month": {"SS": [month]}},
        }
        covering = (live or LivePointer(window.start, 0)).with_created(window)
        pointer = {**table, **pointer_change(live, covering)}
        creation: list[Action] = [{"Put": state}, {"Update": months}, {"Update": pointer}]
        creation += opened_again(self._table, window.start)
        if calendar:
            creation.append({"ConditionCheck": {**table, **_calendar_unchanged(calendar)}})
        return creation

    def periods(self, first: PeriodName, last: PeriodName) -> list[PeriodState]:
        return read_periods(self._caller, self._table, first, last)

    def unrolled(self) -> list[PeriodName]:
        return read_unrolled(self._caller, self._table)

    def advance_period(self, state: PeriodState, *, settled: bool = False) -> PeriodState:
        return advanced(self._caller, self._effects, self._table, state, settled=settled)

    def advance(self, window: Window) -> Window:
        wanted = replace(window, version=window.version + 1)
        unknown = False

        def once() -> Window:
            nonlocal unknown
            try:
                self._caller.call(
                    "PutItem",
                    TableName=self._table,
                    Item=window_item(wanted),
                    ConditionExpression=VERSION_UNCHANGED,
                    ExpressionAttributeNames={"#version": "version"},
                    ExpressionAttributeValues={":read": {"N": str(window.version)}},
                )
            except Unknown:
                unknown = True
                raise
            except Refused as error:
                if error.code != CONDITION_FAILED:
                    raise
                if not (unknown and self.window(window.id) == wanted):
                    raise StateConflict(
                        f"window {window.id} is not at version {window.version} any more"
                    ) from error
            return wanted

        return retried(
            self._effects, TRANSACTION_TRIES, once, lambda error: error.code in CONFLICTS
        )

    def live(self) -> LivePointer | None:
        item = self._get(LIVE)
        return None if item is None else parse_pointer(item)

    def move_live(self, read: LivePointer, moved: LivePointer) -> None:
        self._update_if(pointer_change(read, replace(moved, version=read.version + 1)))

    def note_straggler(self, window: WindowId, at: int) -> None:
        self._update_if(
            {
                "Key": key_of(window, "straggler"),
                "UpdateExpression": "SET #at = :until",
                "ConditionExpression": "attribute_not_exists(#at) OR #at < :until",
                "ExpressionAttributeNames": {"#at": "at"},
                "ExpressionAttributeValues": {":until": {"N": str(at)}},
            }
        )

    def note_received(self, reception: Reception) -> None:
        put_reception(self._caller, self._table, reception)

    def clear_received(self, reception: Reception) -> None:
        delete_reception(self._caller, self._table, reception)

    def receptions(self, since: int, until: int, most: int) -> list[Reception]:
        return read_receptions(self._caller, self._table, since, until, most)

    def beat(self, at: int, *, finished: bool) -> None:
        for change in beats(at, finished=finished):
            self._update_if(change)

    def heartbeat(self) -> Heartbeat:
        return read_heartbeat(self._caller, self._effects, self._table)

    def note_hot(self, window: WindowId, keys: Sequence[str]) -> None:
        self._update_if(
            {
                "Key": key_of(window, "hot"),
                "UpdateExpression": "ADD #keys :keys",
                "ConditionExpression": "attribute_not_exists(#keys) OR size(#keys) < :most",
                "ExpressionAttributeNames": {"#keys": "keys"},
                "ExpressionAttributeValues": {
                    ":keys": {"SS": list(dict.fromkeys(keys))},
                    ":most": {"N": str(HOT_NOTES_MAX)},
                },
            }
        )

    def hot(self, window: WindowId) -> list[str]:
        item = self._get(key_of(window, "hot"))
        return sorted(item["keys"]["SS"]) if item else []

    def stragglers(self, windows: Sequence[WindowId]) -> dict[WindowId, int]:
        keys = [key_of(window, "straggler") for window in dict.fromkeys(windows)]
        found = batch_get(self._caller, self._effects, self._table, keys)
        return {item["sk"]["S"].partition("#")[0]: int(item["at"]["N"]) for item in found}

    def claims(self, identities: Sequence[Identity]) -> Mapping[Identity, Claim]:
        return read_claims(self._caller, self._effects, self._table, identities)

    def claim(self, identity: Identity, wanted: Claim) -> Claim:
        return put_claim(self._caller, self._effects, self._table, identity, None, wanted)

    def move(self, identity: Identity, read: Claim, wanted: Claim) -> Claim:
        return put_claim(self._caller, self._effects, self._table, identity, read, wanted)

    def _get(self, key: Key) -> Item | None:
        reply = self._caller.read("GetItem", TableName=self._table, Key=key, ConsistentRead=True)
        item: Item | None = reply.get("Item")
        return item

    def _put_once(self, key: Key, item: Item) -> Item:
        """Put the item if there is none under its key; return the stored one."""
        with ignoring(CONDITION_FAILED):
            self._caller.read(
                "PutItem", TableName=self._table, Item=item, ConditionExpression=ABSENT
            )
        stored = self._get(key)
        if stored is None:
            raise Unknown(f"{key} was put and is not there", "NotThere")
        return stored

    def _update_if(self, change: Mapping[str, Any]) -> None:
        """An update whose condition may fail, and which may be repeated."""
        with throttled_if(*CONFLICTS), ignoring(CONDITION_FAILED):
            self._caller.read("UpdateItem", TableName=self._table, **change)


def creating_check(table: str, window: WindowId) -> Action:
    """The action that lets a transaction succeed only while a window's state is `creating`."""
    return {
        "ConditionCheck": {
            "TableName": table,
            "Key": key_of(window, "state"),
            "ConditionExpression": "#status = :creating",
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": {":creating": {"S": Status.CREATING.value}},
        }
    }


def _calendar_unchanged(calendar: Calendar) -> dict[str, Any]:
    return {
        "Key": CALENDAR,
        "ConditionExpression": _LENGTHS_UNCHANGED,
        "ExpressionAttributeNames": {"#lengths": "lengths"},
        "ExpressionAttributeValues": {":lengths": lengths_of(calendar)},
    }
