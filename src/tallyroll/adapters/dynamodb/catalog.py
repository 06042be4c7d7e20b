"""The catalog in DynamoDB: one partition for the windows of a month, one for the pointers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tallyroll.adapters.aws.client import Caller, retried
from tallyroll.adapters.dynamodb.attributes import ABSENT, Facts, attributes_of, expressed
from tallyroll.adapters.dynamodb.catalog_items import (
    CALENDAR,
    LIVE,
    MONTHS,
    VERSION_UNCHANGED,
    calendar_facts,
    key_of,
    mapping_change,
    month_key,
    parse_calendar,
    parse_pointer,
    parse_spec,
    parse_window,
    pointer_change,
    secret_change,
    settling_change,
    spec_facts,
    window_item,
)
from tallyroll.adapters.dynamodb.items import Item, Key, mark_key
from tallyroll.adapters.dynamodb.ledger import DynamoLedger
from tallyroll.adapters.dynamodb.periods import DynamoPeriods, opened_again
from tallyroll.adapters.dynamodb.requests import (
    CONDITION_FAILED,
    CONFLICTS,
    REASON_CONDITION,
    Action,
    DynamoTable,
    cancellation_reasons,
    ignoring,
    passing,
)
from tallyroll.adapters.dynamodb.wishes import DynamoWishes, unchanged_check
from tallyroll.adapters.dynamodb.writer_notes import DynamoWriterNotes
from tallyroll.errors import Refused, StateConflict, Unknown
from tallyroll.limits import HOT_NOTES_MAX, TS_MS_MAX
from tallyroll.model.foreign.mappings import Mappings
from tallyroll.model.periods import month_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Status, Window
from tallyroll.model.windows import WindowId, window_id
from tallyroll.ports.backoff import TRANSACTION
from tallyroll.ports.effects import Effects

if TYPE_CHECKING:
    from tallyroll.ports.rate import Turn

MONTHS_GUESSED_MAX = 12
_LENGTHS_UNCHANGED = "#lengths = :lengths"


class DynamoCatalog(DynamoLedger, DynamoWishes, DynamoPeriods, DynamoWriterNotes):
    """The catalog port on one DynamoDB table."""

    def __init__(self, caller: Caller, effects: Effects, table: str) -> None:
        self._table = DynamoTable(caller, effects, table)

    @property
    def own_table(self) -> DynamoTable:
        """The catalog's table."""
        return self._table

    def calendar(self) -> Calendar | None:
        item = self._table.get(CALENDAR)
        return None if item is None else parse_calendar(item)

    def found(self, calendar: Calendar) -> Calendar:
        return parse_calendar(self._put_once(CALENDAR, calendar_facts(calendar)))

    def put_secret(self, secret: str) -> None:
        self._table.update_if(secret_change(secret))

    def append_mapping(self, read: Mappings, text: str) -> None:
        self._table.update_if(mapping_change(read, read.with_latest(text)))

    def settle_mappings(self, until: int) -> Calendar | None:
        self._table.update_if(settling_change(until))
        return self.calendar()

    def extend(self, read: Calendar, extended: Calendar, live: LivePointer) -> bool:
        values = {"lengths": read.grid.lengths, "extended": extended.grid.lengths}
        calendar = expressed("SET #lengths = :extended", _LENGTHS_UNCHANGED, **values)
        pointer = pointer_change(live, replace(live, version=live.version + 1))
        changes = ({"Key": CALENDAR, **calendar}, pointer)
        actions = [{"Update": {"TableName": self._table.name, **change}} for change in changes]
        if self._table.transact(actions) is None:
            return True
        return self.calendar() == extended  # by an attempt whose reply was lost

    def specs(self, windows: Sequence[WindowId]) -> dict[WindowId, Spec]:
        keys = [key_of(window, "spec") for window in dict.fromkeys(windows)]
        specs = map(parse_spec, self._table.get_all(keys))
        return {spec.window: spec for spec in specs}

    def put_spec(self, spec: Spec, wishes: int | None = None) -> Spec:
        key = key_of(spec.window, "spec")
        if wishes is None:
            return parse_spec(self._put_once(key, spec_facts(spec)))
        put = {"Item": key | attributes_of(spec_facts(spec)), "ConditionExpression": ABSENT}
        actions = [{"Put": {"TableName": self._table.name, **put}}]
        refused = self._table.transact([*actions, unchanged_check(self._table.name, wishes)])
        # After a failure, or a lost reply before it, the spec may be there, put by this call or by
        # another run.
        stored = self._table.get(key)
        if stored is not None:
            return parse_spec(stored)
        if refused:
            raise StateConflict("the wishes have changed since they were read")
        raise Unknown(f"{key} was put and is not there", "NotThere")

    def window(self, window: WindowId) -> Window | None:
        item = self._table.get(key_of(window, "state"))
        return None if item is None else parse_window(item)

    def windows(self, since: int, until: int) -> list[Window]:
        """Queries only months that have windows; of a span within a month it does not ask whether
        it has any.
        """
        since, until = max(since, 0), min(until, TS_MS_MAX + 1)
        if since >= until:
            return []
        first, last = window_id(since), window_id(until - 1)
        months = [month_key(first)]
        if months != [month_key(last)]:
            item = self._table.get(MONTHS)
            known = sorted(item["months"]["SS"]) if item else []
            months = [month for month in known if month_key(first) <= month <= month_key(last)]
        found = [window for month in months for window in self._states(month, first, last)]
        return [window for window in found if since <= window.start < until]

    def windows_with_specs(
        self, since: int, until: int
    ) -> tuple[list[Window], dict[WindowId, Spec]]:
        """Queries every month of the span, side by side, up to a year of them: the list of months
        would be a request before.
        """
        months, at, end = list[str](), max(since, 0), min(until, TS_MS_MAX + 1)
        while at < end and len(months) <= MONTHS_GUESSED_MAX:
            month = month_of(at)
            months.append(month_key(window_id(month.start)))
            at = month.end
        if len(months) > MONTHS_GUESSED_MAX:
            return self.windows(since, until), {}
        jobs = [partial(self._both, month, since, until) for month in months]
        parts = self._table.effects.together(jobs, MONTHS_GUESSED_MAX)
        windows = [window for found, _ in parts for window in found]
        return windows, {name: spec for _, specs in parts for name, spec in specs.items()}

    def _both(
        self, month: str, since: int, until: int
    ) -> tuple[list[Window], dict[WindowId, Spec]]:
        first, last = window_id(max(since, 0)), window_id(min(until, TS_MS_MAX + 1) - 1)
        items = list(
            self._table.between(
                month,
                first,
                f"{last}#~",
                FilterExpression="attribute_exists(#status) OR attribute_exists(#suffix)",
                ExpressionAttributeNames={"#status": "status", "#suffix": "suffix"},
            )
        )
        windows = [parse_window(item) for item in items if "status" in item]
        specs = [parse_spec(item) for item in items if "status" not in item]
        return (
            [window for window in windows if since <= window.start < until],
            {spec.window: spec for spec in specs if since <= spec.start < until},
        )

    def _states(self, month: str, first: WindowId, last: WindowId) -> list[Window]:
        # Specs and notes lie between the states; only states have a status.
        items = self._table.between(
            month,
            first,
            f"{last}#~",
            FilterExpression="attribute_exists(#status)",
            ExpressionAttributeNames={"#status": "status"},
        )
        return [parse_window(item) for item in items]

    def create(self, window: Window, calendar: Calendar | None = None) -> bool:
        """Gives the live pointer a new version even if that already covered the window: a run that
        listed the windows before must not move it past this one.
        """
        unknown = False

        def once() -> bool:
            nonlocal unknown
            actions = self._creation(window, self.live(), calendar)
            try:
                self._table.caller.call("TransactWriteItems", TransactItems=actions)
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

        return retried(self._table.effects, TRANSACTION, once, passing)

    def _creation(
        self, window: Window, live: LivePointer | None, calendar: Calendar | None
    ) -> list[Action]:
        table = {"TableName": self._table.name}
        state = {**table, "Item": window_item(window), "ConditionExpression": ABSENT}
        months = {
            **table,
            "Key": MONTHS,
            **expressed("ADD months :month", month={month_key(window.id)}),
        }
        covering = (live or LivePointer(window.start, 0)).with_created(window)
        pointer = {**table, **pointer_change(live, covering)}
        creation: list[Action] = [{"Put": state}, {"Update": months}, {"Update": pointer}]
        creation += opened_again(self._table.name, window.start)
        if calendar:
            unchanged = expressed(condition=_LENGTHS_UNCHANGED, lengths=calendar.grid.lengths)
            creation.append({"ConditionCheck": {**table, "Key": CALENDAR, **unchanged}})
        return creation

    def advance(self, window: Window) -> Window:
        wanted = replace(window, version=window.version + 1)
        unknown = False

        def once() -> Window:
            nonlocal unknown
            try:
                self._table.caller.call(
                    "PutItem",
                    TableName=self._table.name,
                    Item=window_item(wanted),
                    **expressed(condition=VERSION_UNCHANGED, read=window.version),
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
            self._table.effects, TRANSACTION, once, lambda error: error.code in CONFLICTS
        )

    def live(self) -> LivePointer | None:
        item = self._table.get(LIVE)
        return None if item is None else parse_pointer(item)

    def move_live(self, read: LivePointer, moved: LivePointer) -> None:
        self._table.update_if(pointer_change(read, replace(moved, version=read.version + 1)))

    def note_straggler(self, window: WindowId, at: int) -> None:
        self._table.keep_latest(key_of(window, "straggler"), at)

    def note_hot(
        self, window: WindowId, keys: Sequence[str], throttled: Sequence[str] = ()
    ) -> None:
        noted = {"keys": dict.fromkeys(keys).keys()}
        if throttled:
            noted["throttled"] = dict.fromkeys(throttled).keys()
        change = expressed(
            "ADD " + ", ".join(f"#{name} :{name}" for name in noted),
            "attribute_not_exists(#keys) OR size(#keys) < :most",
            most=HOT_NOTES_MAX,
            **noted,
        )
        self._table.update_if({"Key": key_of(window, "hot"), **change})

    def hot(self, window: WindowId) -> list[str]:
        return self._noted(window, "keys")

    def throttled(self, window: WindowId) -> list[str]:
        return self._noted(window, "throttled")

    def _noted(self, window: WindowId, name: str) -> list[str]:
        item = self._table.get(key_of(window, "hot")) or {}
        return sorted(item[name]["SS"]) if name in item else []

    def mark(self, key: str) -> None:
        """In a transaction, the only one in which a policy lets writers put marks."""
        self._table.transact([mark(self._table.name, key)])

    def marked(self, keys: Sequence[str]) -> set[str]:
        found = self._table.get_all([mark_key(key) for key in dict.fromkeys(keys)])
        return {item["sk"]["S"] for item in found}

    def stragglers(self, windows: Sequence[WindowId]) -> dict[WindowId, int]:
        keys = [key_of(window, "straggler") for window in dict.fromkeys(windows)]
        found = self._table.get_all(keys)
        return {item["sk"]["S"].partition("#")[0]: int(item["at"]["N"]) for item in found}

    def take_turn(self, turn: Turn) -> int:
        from tallyroll.adapters.dynamodb.rate import append_turn  # noqa: PLC0415 - mostly unused

        return append_turn(self._table, turn)

    def _put_once(self, key: Key, facts: Facts) -> Item:
        """Put an item with these facts if there is none under its key; return the stored one."""
        absent = {"Item": key | attributes_of(facts), "ConditionExpression": ABSENT}
        with ignoring(CONDITION_FAILED):
            self._table.caller.read("PutItem", TableName=self._table.name, **absent)
        stored = self._table.get(key)
        if stored is None:
            raise Unknown(f"{key} was put and is not there", "NotThere")
        return stored


def mark(table: str, key: str) -> Action:
    """The mark of an uploaded object, for the transaction of the record that references it."""
    return {"Put": {"TableName": table, "Item": mark_key(key)}}


def creating_check(table: str, window: WindowId) -> Action:
    """The action that lets a transaction succeed only while a window's state is `creating`."""
    return {
        "ConditionCheck": {
            "TableName": table,
            "Key": key_of(window, "state"),
            **expressed(condition="#status = :creating", creating=Status.CREATING),
        }
    }
