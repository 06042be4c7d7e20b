from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tallyroll.lifecycle.state_machine import (
    Step,
    WindowFacts,
    due_from,
    freeze,
    next_step,
    to_make,
)
from tallyroll.model.states import Attempt, Calendar, Moment, Status, Window
from tallyroll.model.windows import Grid
from tallyroll.ports.table_listing import TableStatus
from tallyroll.settings import Settings
from tests.harness.pipeline import HOUR, MINUTE, NOW, SMALL, START, WINDOW, hour

SETTINGS = Settings()
PROVISIONED = replace(
    SETTINGS, provisioned={"write": 900, "read": 300, "cold_write": 1, "cold_read": 50}
)
ACCEPT_UNTIL = START + 2 * HOUR
LEAD = SETTINGS.freeze_lead_ms
RETENTION = SETTINGS.retention_ms
LEASE = SETTINGS.export_lease_ms
SETTLE = SETTINGS.settle_ms
ENTERED = START + 3 * HOUR  # when each state began
TABLES = (None, *TableStatus)


def window(status: Status, accept_until: int | None = None, problem: str = "") -> Window:
    return Window(
        WINDOW,
        f"tallyroll-{WINDOW}",
        START,
        START + HOUR,
        status,
        times=dict.fromkeys([*Status, Moment.CHECKED, Moment.RECOVERABLE], ENTERED),
        accept_until=accept_until,
        attempt=Attempt(problem=problem),
    )


def unrecoverable(status: Status) -> Window:
    times = dict.fromkeys([*Status, Moment.CHECKED], ENTERED)
    return replace(window(status, ACCEPT_UNTIL), times=times)


def due(state: Window, now: int, facts: WindowFacts = WindowFacts()) -> Step | None:  # noqa: B008 - frozen
    return next_step(state, facts, now, SETTINGS)


CREATING = window(Status.CREATING)
OPEN = window(Status.OPEN, ACCEPT_UNTIL)
EXPORTING = replace(
    window(Status.EXPORTING), times={**dict.fromkeys(Status, ENTERED), Moment.TRIED: ENTERED}
)
DAMAGED = replace(EXPORTING, attempt=Attempt(problem="gates"))
TAKEN = replace(EXPORTING, attempt=Attempt(busy_until=ENTERED + MINUTE, noted=3))
SHUT_AT = ENTERED + 3 * SETTLE  # the last gate, long after closing began
SHUT_UP = replace(
    window(Status.CLOSING), times={**window(Status.CLOSING).times, Moment.SHUT: SHUT_AT}
)
NEW = replace(CREATING, times={Status.CREATING: ENTERED})
TABLE = [
    # creating: a table first, and the spec no earlier than the lead
    *((CREATING, START - 9 * HOUR, WindowFacts(table=None), step) for step in [Step.MAKE_TABLE]),
    (CREATING, START, WindowFacts(table=TableStatus.CREATING), None),
    (CREATING, START, WindowFacts(table=TableStatus.DELETING), None),
    (CREATING, START - LEAD - 1, WindowFacts(table=TableStatus.ACTIVE), None),
    (CREATING, START - LEAD, WindowFacts(table=TableStatus.ACTIVE), Step.OPEN),
    (CREATING, START - LEAD, WindowFacts(table=TableStatus.UPDATING), Step.OPEN),
    # ... that is found to be ours, and gets what it needs besides if the window need not open yet
    (NEW, START - LEAD, WindowFacts(table=TableStatus.ACTIVE), Step.CHECK_TABLE),
    (NEW, START - LEAD, WindowFacts(table=TableStatus.CREATING), None),
    (
        unrecoverable(Status.CREATING),
        START - LEAD,
        WindowFacts(table=TableStatus.ACTIVE),
        Step.OPEN,
    ),
    (
        unrecoverable(Status.CREATING),
        START - LEAD - 1,
        WindowFacts(table=TableStatus.ACTIVE),
        Step.RECOVER,
    ),
    (
        unrecoverable(Status.CREATING),
        START - LEAD - 1,
        WindowFacts(table=TableStatus.UPDATING),
        None,
    ),
    (unrecoverable(Status.OPEN), ACCEPT_UNTIL + 1, WindowFacts(drained=True), Step.CLOSE),
    (unrecoverable(Status.OPEN), START, WindowFacts(), Step.RECOVER),
    (unrecoverable(Status.SEALED), ENTERED, WindowFacts(), Step.RECOVER),
    (unrecoverable(Status.EXPORTING), ENTERED, WindowFacts(), Step.COPY),
    # open: over, accepting nothing more, and drained
    (OPEN, START + HOUR, WindowFacts(drained=True), None),
    (OPEN, ACCEPT_UNTIL, WindowFacts(drained=True), None),
    (OPEN, ACCEPT_UNTIL + 1, WindowFacts(drained=False), None),
    (OPEN, ACCEPT_UNTIL + 1, WindowFacts(drained=True), Step.CLOSE),
    (window(Status.OPEN, START), START + HOUR, WindowFacts(drained=True), None),
    (window(Status.OPEN, START), START + HOUR + 1, WindowFacts(drained=True), Step.CLOSE),
    (window(Status.OPEN), START + HOUR + 1, WindowFacts(drained=True), Step.CLOSE),
    # closing
    (window(Status.CLOSING), ENTERED, WindowFacts(), Step.SHUT),
    (SHUT_UP, SHUT_AT + SETTLE - 1, WindowFacts(), None),
    (SHUT_UP, SHUT_AT + SETTLE, WindowFacts(), Step.SEAL),
    # sealed: until it is cold
    (window(Status.SEALED), ENTERED + RETENTION - 1, WindowFacts(), None),
    (window(Status.SEALED), ENTERED + RETENTION, WindowFacts(), Step.EXPORT),
    # exporting: copied, and proven once the manifest is there; by one run at a time
    (EXPORTING, ENTERED, WindowFacts(), Step.COPY),
    (EXPORTING, ENTERED, WindowFacts(exported=True), Step.PROVE),
    (TAKEN, ENTERED + MINUTE - 1, WindowFacts(), None),
    (TAKEN, ENTERED + MINUTE - 1, WindowFacts(held=True), Step.COPY),
    (TAKEN, ENTERED + MINUTE - 1, WindowFacts(held=True, exported=True), Step.PROVE),
    (TAKEN, ENTERED + MINUTE, WindowFacts(), Step.COPY),
    # ... anew if runs did not get on with it for the lease, or found it damaged
    (EXPORTING, ENTERED + LEASE - 1, WindowFacts(), Step.COPY),
    (EXPORTING, ENTERED + LEASE, WindowFacts(), Step.EXPORT),
    (EXPORTING, ENTERED + LEASE, WindowFacts(exported=True), Step.EXPORT),
    (window(Status.EXPORTING), ENTERED + 1000 * LEASE, WindowFacts(), Step.COPY),
    (TAKEN, ENTERED + LEASE, WindowFacts(noted=3), Step.EXPORT),
    (TAKEN, ENTERED + LEASE, WindowFacts(noted=4), Step.COPY),
    (DAMAGED, ENTERED, WindowFacts(exported=True), None),
    (DAMAGED, ENTERED + LEASE, WindowFacts(exported=True, noted=9), Step.EXPORT),
    # ... which doubles with each attempt, up to a bound
    (replace(EXPORTING, attempt=Attempt(number=1)), ENTERED + LEASE, WindowFacts(), Step.EXPORT),
    (
        replace(EXPORTING, attempt=Attempt(number=3)),
        ENTERED + 4 * LEASE - 1,
        WindowFacts(),
        Step.COPY,
    ),
    (
        replace(EXPORTING, attempt=Attempt(number=3)),
        ENTERED + 4 * LEASE,
        WindowFacts(),
        Step.EXPORT,
    ),
    (
        replace(EXPORTING, attempt=Attempt(number=99)),
        ENTERED + 128 * LEASE,
        WindowFacts(),
        Step.EXPORT,
    ),
    # the end
    (window(Status.PROVEN), START, WindowFacts(), Step.DROP),
    (window(Status.DROPPING), START, WindowFacts(table=None), Step.FINISH),
    (window(Status.DROPPING), ENTERED + SETTLE - 1, WindowFacts(table=TableStatus.ACTIVE), None),
    (window(Status.DROPPING), ENTERED + SETTLE, WindowFacts(table=TableStatus.ACTIVE), Step.DELETE),
    (window(Status.DROPPING), ENTERED + SETTLE, WindowFacts(table=TableStatus.UPDATING), None),
    (window(Status.DROPPING), ENTERED + SETTLE, WindowFacts(table=TableStatus.CREATING), None),
    (window(Status.DROPPING), ENTERED + SETTLE, WindowFacts(table=TableStatus.DELETING), None),
    (window(Status.DROPPED), START + 1000 * HOUR, WindowFacts(drained=True, exported=True), None),
]


def test_point_in_time_recovery_is_a_setting() -> None:
    without = replace(SETTINGS, point_in_time_recovery=False)
    assert next_step(unrecoverable(Status.OPEN), WindowFacts(), START, without) is None


def test_a_provisioned_table_is_cooled_once_when_its_window_is_sealed() -> None:
    settings, sealed = PROVISIONED, window(Status.SEALED)
    assert next_step(window(Status.CLOSING), WindowFacts(), ENTERED, settings) is Step.SHUT
    assert next_step(sealed, WindowFacts(), ENTERED, settings) is Step.COOL
    assert next_step(sealed, WindowFacts(), ENTERED + RETENTION, settings) is Step.EXPORT
    cooled = replace(sealed, times={**sealed.times, Moment.COOLED: ENTERED})
    assert next_step(cooled, WindowFacts(), ENTERED, settings) is None
    assert next_step(sealed, WindowFacts(), ENTERED, SETTINGS) is None


@pytest.mark.parametrize(("state", "now", "facts", "step"), TABLE)
def test_the_step_that_is_due(
    state: Window, now: int, facts: WindowFacts, step: Step | None
) -> None:
    assert due(state, now, facts) is step


@pytest.mark.parametrize(
    ("state", "due_at", "without_times"),
    [
        (CREATING, START - LEAD, START - LEAD),
        (OPEN, ACCEPT_UNTIL, ACCEPT_UNTIL),
        (window(Status.CLOSING), ENTERED + SETTLE, START + HOUR + SETTLE),
        (SHUT_UP, SHUT_AT + SETTLE, START + HOUR + SETTLE),
        (window(Status.SEALED), ENTERED + RETENTION, START + HOUR + RETENTION),
        (TAKEN, ENTERED + MINUTE, ENTERED + MINUTE),
        (window(Status.PROVEN), ENTERED, START + HOUR),
        (window(Status.DROPPING), ENTERED + SETTLE, START + HOUR + SETTLE),
        (window(Status.DROPPED), None, None),
    ],
)
def test_from_when_a_step_is_due(
    state: Window, due_at: int | None, without_times: int | None
) -> None:
    assert due_from(state, SETTINGS) == due_at
    assert due_from(replace(state, times={}), SETTINGS) == without_times
    assert due_from(DAMAGED, SETTINGS) == ENTERED + LEASE


ALLOWED = {
    Status.CREATING: {None, Step.MAKE_TABLE, Step.CHECK_TABLE, Step.RECOVER, Step.OPEN},
    Status.OPEN: {None, Step.RECOVER, Step.CLOSE},
    Status.CLOSING: {None, Step.RECOVER, Step.SHUT, Step.SEAL},
    Status.SEALED: {None, Step.RECOVER, Step.COOL, Step.EXPORT},
    Status.EXPORTING: {None, Step.EXPORT, Step.COPY, Step.PROVE},
    Status.PROVEN: {Step.DROP},
    Status.DROPPING: {None, Step.TAG, Step.DELETE, Step.FINISH},
    Status.DROPPED: {None},
}


def test_every_state_takes_its_own_steps_and_no_others_whatever_the_facts() -> None:
    taken: dict[Status, set[Step | None]] = {status: set() for status in Status}
    times = (START - HOUR, START, ACCEPT_UNTIL + 1, ENTERED + LEASE, ENTERED + RETENTION)
    begun: dict[str, int] = dict.fromkeys(Status, ENTERED)
    for status, table, now in product(Status, TABLES, times):
        for is_drained, exported, problem in product((False, True), (False, True), ("", "x")):
            facts = WindowFacts(table, is_drained, exported)
            state = window(status, ACCEPT_UNTIL, problem)
            taken[status].add(due(state, now, facts))
            taken[status].add(due(state, now, replace(facts, untagged=True)))
            for time in (Moment.SHUT, Moment.TRIED):
                changed = replace(state, times={**state.times, time: START})
                taken[status].add(due(changed, now, facts))
            bare = unrecoverable(status)
            shut_up = replace(bare, times={**bare.times, Moment.SHUT: ENTERED})
            for fresh in (state, replace(state, times=begun), bare, shut_up):
                taken[status].add(next_step(fresh, facts, now, PROVISIONED))
    assert taken == ALLOWED
    assert {step for steps in taken.values() for step in steps if step} == set(Step)


# --- which windows to make, and their specs


def test_windows_are_made_since_genesis_and_two_ahead() -> None:
    calendar = Calendar(Grid.of(3600), START - HOUR)
    spans = to_make(calendar, [], calendar.genesis, NOW, SETTINGS)
    assert [span.id for span in spans] == [hour(7), hour(8), hour(9), hour(10)]
    known = [hour(8), hour(9)]
    assert [span.id for span in to_make(calendar, known, 0, NOW, SETTINGS)] == [hour(7), hour(10)]
    assert to_make(calendar, [], START + HOUR, NOW, SETTINGS)[0].id == hour(9)


def test_a_change_of_length_is_made_ahead() -> None:
    calendar = Calendar(Grid(((0, HOUR), (START + HOUR, 15 * MINUTE))), START)
    spans = to_make(calendar, [], START, NOW, SETTINGS)
    assert [span.id[9:13] for span in spans] == ["0800", "0900", "0915"]


def test_a_spec_is_frozen_from_the_settings() -> None:
    settings = replace(SMALL, hot_shards={"k": 200}, suffix="product", skew_ms=7)
    spec = freeze(CREATING, settings)
    assert (spec.window, spec.table, spec.span) == (WINDOW, CREATING.table, spec.span)
    assert (spec.shards, spec.stripes_min, spec.buckets, spec.gates) == (4, 8, 4, 4)
    assert (spec.suffix, spec.skew, spec.hot) == ("product+s1", 7, {"k": 200})
    assert (spec.accept_from, spec.accept_until) == (0, START + 2 * HOUR)


def test_hot_keys_that_were_found_take_the_place_of_the_settings() -> None:
    settings = replace(SMALL, hot_shards={"k": 200}, require_ts=True)
    spec = freeze(CREATING, settings, {"found": 9})
    assert (spec.hot, spec.require_ts) == ({"found": 9}, True)
    assert freeze(CREATING, settings, {}).hot == {}


def test_the_spec_of_a_past_window_opened_on_purpose() -> None:
    spec = freeze(replace(CREATING, accept_from=NOW, accept_until=NOW + HOUR), SMALL)
    assert (spec.accept_from, spec.accept_until) == (NOW, NOW + HOUR)
