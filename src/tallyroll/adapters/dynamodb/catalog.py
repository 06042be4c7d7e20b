"""The catalog in DynamoDB: windows of a month lie together, pointers apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.catalog_items import (
    ABSENT,
    CALENDAR,
    LIVE,
    MONTHS,
    VERSION_STANDS,
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
    passing,
    query,
    transact,
)
from tallyroll.adapters.dynamodb.writer_notes import (
    beats,
    delete_reception,
    put_reception,
    read_heartbeat,
    read_receptions,
)
from tallyroll.errors import Refused, StateConflict, StoreError, Throttled, Unknown
from tallyroll.limits import HOT_NOTES_MAX, TS_MS_MAX
from tallyroll.model.ids import Identity
from tallyroll.model.items import Item, Key
from tallyroll.model.periods import PeriodName, PeriodState
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Status, Window
from tallyroll.model.windows import WindowId, window_id
from tallyroll.ports.catalog import Claim
from tallyroll.ports.effects import Effects, attempts
from tallyroll.ports.writer_notes import Heartbeat, Reception

_LENGTHS_STAND = "#lengths = :lengths"


class DynamoCatalog:
    """The catalog port on one DynamoDB table."""

    def __init__(self, caller: Caller, effects: Effects, table: str) -> None:
        self._caller = caller
        self._effects = effects
        self._table = table

    def calendar(self) -> Calendar | None:
        """The calendar, or None before it was founded."""
        item = self._get(CALENDAR)
        return None if item is None else parse_calendar(item)

    def found(self, calendar: Calendar) -> Calendar:
        """Put the calendar if there is none; give the one that stands."""
        item: Item = {
            **CALENDAR,
            "lengths": lengths_of(calendar),
            "genesis": {"N": str(calendar.genesis)},
        }
        return parse_calendar(self._put_once(CALENDAR, item))

    def extend(self, read: Calendar, extended: Calendar, live: LivePointer) -> bool:
        """Replace the calendar, if neither it nor the live pointer has changed since it was read.

        Whoever holds the pointer as it was can move it no more: it has a new version.
        """
        calendar = {
            "Key": CALENDAR,
            "UpdateExpression": "SET #lengths = :extended",
            "ConditionExpression": _LENGTHS_STAND,
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
        return self.calendar() == extended  # by an attempt of which the answer was lost

    def specs(self, windows: Sequence[WindowId]) -> dict[WindowId, Spec]:
        """The specs that exist, by one BatchGetItem per 100."""
        keys = [key_of(window, "spec") for window in dict.fromkeys(windows)]
        found = batch_get(self._caller, self._effects, self._table, keys)
        specs = map(parse_spec, found)
        return {spec.window: spec for spec in specs}

    def put_spec(self, spec: Spec) -> Spec:
        """Put the spec if the window has none; give the one that stands."""
        return parse_spec(self._put_once(key_of(spec.window, "spec"), spec_item(spec)))

    def window(self, window: WindowId) -> Window | None:
        """A window's state."""
        item = self._get(key_of(window, "state"))
        return None if item is None else parse_window(item)

    def windows(self, since: int, until: int) -> list[Window]:
        """The states of the windows that start in [since, until) ms, ascending.

        Only months that have windows are asked for.
        """
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
            # The month's specs and stragglers lie between; only states have a status.
            FilterExpression="attribute_exists(#status)",
            ExpressionAttributeNames={"#status": "status"},
        )
        return [parse_window(item) for page in pages for item in page]

    def create(self, window: Window, calendar: Calendar | None = None) -> bool:
        """Put a first state, with its month and the live pointer, if there is none; else False.

        The pointer's version grows even if it covered it before: a run that listed the windows
        before this one was there must not move it past. All in one transaction, by which the sums
        of its day and month stand no more, either. Raises StateConflict unless `calendar`, where
        given, still stands; Throttled or Unknown if it stays undecided, and Refused.
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
            creation.append({"ConditionCheck": {**table, **_calendar_stands(calendar)}})
        return creation

    def periods(self, first: PeriodName, last: PeriodName) -> list[PeriodState]:
        """What is known of the days or months from `first` to `last`, by a consistent Query."""
        return read_periods(self._caller, self._table, first, last)

    def unrolled(self) -> list[PeriodName]:
        """The days and months that were not settled since a window was created in them."""
        return read_unrolled(self._caller, self._table)

    def advance_period(self, state: PeriodState, *, settled: bool = False) -> PeriodState:
        """Replace a period's state whose epoch and version are as they were read.

        Raises StateConflict if they are not, Throttled or Unknown if that stays undecided.
        """
        return advanced(self._caller, self._effects, self._table, state, settled=settled)

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
                    Item=window_item(wanted),
                    ConditionExpression=VERSION_STANDS,
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
        """The pointer to the windows that are not dropped."""
        item = self._get(LIVE)
        return None if item is None else parse_pointer(item)

    def move_live(self, read: LivePointer, moved: LivePointer) -> None:
        """Move the pointer if its version is still the one that was read; else do nothing."""
        self._if_it_stands(pointer_change(read, replace(moved, version=read.version + 1)))

    def note_straggler(self, window: WindowId, at: int) -> None:
        """Note `at` on the window, unless a later note stands."""
        self._if_it_stands(
            {
                "Key": key_of(window, "straggler"),
                "UpdateExpression": "SET #at = :until",
                "ConditionExpression": "attribute_not_exists(#at) OR #at < :until",
                "ExpressionAttributeNames": {"#at": "at"},
                "ExpressionAttributeValues": {":until": {"N": str(at)}},
            }
        )

    def note_received(self, reception: Reception) -> None:
        """Put a note, in the place of one with its id."""
        put_reception(self._caller, self._table, reception)

    def clear_received(self, reception: Reception) -> None:
        """Take a note back."""
        delete_reception(self._caller, self._table, reception)

    def receptions(self, since: int, until: int, most: int) -> list[Reception]:
        """The notes put at [since, until) ms that were not taken back, ascending: the newest."""
        return read_receptions(self._caller, self._table, since, until, most)

    def beat(self, at: int, *, finished: bool) -> None:
        """Note a heartbeat; later times stand."""
        for change in beats(at, finished=finished):
            self._if_it_stands(change)

    def heartbeat(self) -> Heartbeat:
        """The last heartbeat of all writers."""
        return read_heartbeat(self._caller, self._effects, self._table)

    def note_hot(self, window: WindowId, keys: Sequence[str]) -> None:
        """Note keys that may need more shards, while fewer than 500 are noted."""
        self._if_it_stands(
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
        """The keys that were noted in a window, ascending."""
        item = self._get(key_of(window, "hot"))
        return sorted(item["keys"]["SS"]) if item else []

    def stragglers(self, windows: Sequence[WindowId]) -> dict[WindowId, int]:
        """The latest note, in ms, of each window that has one."""
        keys = [key_of(window, "straggler") for window in dict.fromkeys(windows)]
        found = batch_get(self._caller, self._effects, self._table, keys)
        return {item["sk"]["S"].partition("#")[0]: int(item["at"]["N"]) for item in found}

    def claims(self, identities: Sequence[Identity]) -> Mapping[Identity, Claim]:
        """The claims of these distinct identities that stand."""
        return read_claims(self._caller, self._effects, self._table, identities)

    def claim(self, identity: Identity, wanted: Claim) -> Claim:
        """Put a claim if the identity has none; give the one that stands."""
        return put_claim(self._caller, self._effects, self._table, identity, None, wanted)

    def move(self, identity: Identity, read: Claim, wanted: Claim) -> Claim:
        """Put a claim in the place of `read`, if that still stands; give the one that stands."""
        return put_claim(self._caller, self._effects, self._table, identity, read, wanted)

    def _get(self, key: Key) -> Item | None:
        reply = self._caller.read("GetItem", TableName=self._table, Key=key, ConsistentRead=True)
        item: Item | None = reply.get("Item")
        return item

    def _put_once(self, key: Key, item: Item) -> Item:
        """Put the item if there is none under its key; the one that stands then."""
        try:
            self._caller.read(
                "PutItem", TableName=self._table, Item=item, ConditionExpression=ABSENT
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


def creating_check(table: str, window: WindowId) -> Action:
    """The action that lets a transaction pass only while a window's state is `creating`."""
    return {
        "ConditionCheck": {
            "TableName": table,
            "Key": key_of(window, "state"),
            "ConditionExpression": "#status = :creating",
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": {":creating": {"S": Status.CREATING.value}},
        }
    }


def _calendar_stands(calendar: Calendar) -> dict[str, Any]:
    return {
        "Key": CALENDAR,
        "ConditionExpression": _LENGTHS_STAND,
        "ExpressionAttributeNames": {"#lengths": "lengths"},
        "ExpressionAttributeValues": {":lengths": lengths_of(calendar)},
    }
