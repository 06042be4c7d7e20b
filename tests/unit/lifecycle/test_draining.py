"""When the queue is taken to hold nothing more for a window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.lifecycle.draining import (
    AGES_LOOKED_BACK,
    Evidence,
    drained,
    holds,
    invocations_since,
    is_spent,
)
from tallyroll.limits import RECEPTIONS_KEPT
from tallyroll.model.states import Status, Window
from tallyroll.ports.queue import Backlog, Invocations
from tallyroll.ports.writer_notes import Reception
from tallyroll.settings import Settings
from tests.harness.pipeline import HOUR, MINUTE, SECOND, START, WINDOW

SETTINGS = Settings()
ACCEPT_UNTIL = START + 2 * HOUR
OPEN = Window(
    WINDOW,
    f"tallyroll-{WINDOW}",
    START,
    START + HOUR,
    Status.OPEN,
    accept_from=None,
    accept_until=ACCEPT_UNTIL,
)
QUIET = Backlog(0, 0, 0)
BUSY = Backlog(5, 2, 0)
VISIBILITY, MARGIN, PERIOD = (
    SETTINGS.visibility_ms,
    SETTINGS.drain_margin_ms,
    SETTINGS.drain_period_ms,
)
LATER = ACCEPT_UNTIL + 3 * VISIBILITY
RECENT = LATER - 2 * VISIBILITY


def invocations(**failed: int) -> tuple[Invocations, ...]:
    """A hundred in each minute up to `LATER`; so many failed in that which ended `m{n}` ago."""
    return tuple(
        Invocations(LATER - minute * MINUTE, 100, failed.get(f"m{minute}", 0))
        for minute in range(3 * 60, -1, -1)
    )


def ages(*ages_ms: int) -> Backlog:
    """A busy queue with one age a period, the last at `LATER`, and writers that never fail."""
    first = LATER - (len(ages_ms) - 1) * PERIOD
    pairs = tuple((first + n * PERIOD, age) for n, age in enumerate(ages_ms))
    return replace(BUSY, ages=pairs, invocations=invocations())


FRESH = ages(SECOND, SECOND, SECOND)


def dry(backlog: Backlog, now: int = LATER, **evidence: Any) -> bool:
    known = Evidence(backlog, **{"heartbeat": now - MINUTE, **evidence})
    return drained(OPEN, known, now, SETTINGS)


def test_a_queue_counted_empty_three_times_is_drained_whatever_writers_do() -> None:
    for heartbeat in (None, 0, LATER):
        counted = [dry(QUIET, empty_counts=n, heartbeat=heartbeat) for n in (0, 1, 2, 3, 9)]
        assert counted == [False, False, False, True, True]


@pytest.mark.parametrize("one", [Backlog(1, 0, 0), Backlog(0, 1, 0), Backlog(0, 0, 1)])
def test_a_queue_that_holds_a_message_is_not_empty(one: Backlog) -> None:
    assert not dry(one, empty_counts=9)


def test_a_queue_whose_oldest_messages_are_all_newer_is_drained() -> None:
    assert dry(FRESH)
    assert dry(ages(20 * HOUR, SECOND, SECOND, SECOND))


def test_the_margin_belongs_to_the_window() -> None:
    newest = LATER - ACCEPT_UNTIL - MARGIN
    assert not dry(ages(0, 0, newest))
    assert dry(ages(0, 0, newest - 1))


@pytest.mark.parametrize(
    "backlog",
    [
        replace(BUSY, invocations=invocations()),
        ages(SECOND),
        ages(SECOND, SECOND),
        ages(20 * HOUR, SECOND, SECOND),
        ages(SECOND, SECOND, 20 * HOUR),
        replace(FRESH, invocations=()),
    ],
)
def test_unknown_is_not_drained(backlog: Backlog) -> None:
    assert not dry(backlog)


def test_ages_of_long_ago_say_nothing() -> None:
    last = LATER - 2 * PERIOD + AGES_LOOKED_BACK * PERIOD
    assert dry(FRESH, last)
    assert not dry(FRESH, last + 1)


def test_the_order_of_the_ages_does_not_matter() -> None:
    known = ages(20 * HOUR, SECOND, SECOND, SECOND)
    assert dry(replace(known, ages=known.ages[::-1]))


def test_a_message_handed_back_lately_may_still_be_there() -> None:
    for backlog, counts in ((QUIET, 9), (FRESH, 0)):
        assert not dry(backlog, empty_counts=counts, straggler=RECENT + 1)
        assert dry(backlog, empty_counts=counts, straggler=RECENT)


def test_ages_count_only_while_a_writer_lives() -> None:
    assert not dry(FRESH, heartbeat=None)
    assert not dry(FRESH, heartbeat=RECENT)
    assert dry(FRESH, heartbeat=RECENT + 1)


def test_a_heartbeat_from_before_the_window_accepted_its_last_says_nothing() -> None:
    now = ACCEPT_UNTIL + 5 * MINUTE
    backlog = replace(FRESH, ages=tuple((now - n * PERIOD, 0) for n in range(3)))
    backlog = replace(backlog, invocations=(Invocations(now, 1, 0),))
    assert not dry(backlog, now, heartbeat=ACCEPT_UNTIL + MARGIN)
    assert dry(backlog, now, heartbeat=ACCEPT_UNTIL + MARGIN + 1)


def test_while_writers_fail_ages_say_nothing() -> None:
    for minute, expected in ((0, False), (29, False), (30, True)):
        backlog = replace(FRESH, invocations=invocations(**{f"m{minute}": 6}))
        assert dry(backlog) is expected, minute
    assert dry(replace(FRESH, invocations=invocations(m3=5)))


def test_after_writers_failed_all_that_was_sent_before_must_be_gone_too() -> None:
    """A message that became hidden then waits as long as those which were sent then."""
    troubled = LATER - 40 * MINUTE
    bound = troubled + VISIBILITY + MARGIN
    for oldest, expected in ((bound, False), (bound + 1, True)):
        age = LATER - oldest
        backlog = replace(ages(age, age, age), invocations=invocations(m40=6))
        backlog = replace(backlog, ages=tuple((LATER - n, LATER - n - oldest) for n in range(3)))
        assert dry(backlog) is expected


def test_after_a_note_all_that_was_sent_before_must_be_gone_too() -> None:
    noted = RECENT - MINUTE
    for oldest, expected in ((noted + MARGIN, False), (noted + MARGIN + 1, True)):
        backlog = replace(FRESH, ages=tuple((LATER - n, LATER - n - oldest) for n in range(3)))
        assert dry(backlog, straggler=noted) is expected


def reception(at: int, oldest: int, newest: int | None = None) -> Reception:
    return Reception("1", at, oldest, oldest if newest is None else newest)


def test_a_note_without_a_window_holds_those_that_may_take_its_messages() -> None:
    note = reception(RECENT + 1, ACCEPT_UNTIL)
    for backlog, counts in ((QUIET, 9), (FRESH, 0)):
        assert not dry(backlog, empty_counts=counts, receptions=[note])
        later = replace(note, oldest=ACCEPT_UNTIL + 1, newest=ACCEPT_UNTIL + 1)
        assert dry(backlog, empty_counts=counts, receptions=[later])
        assert dry(QUIET, empty_counts=9, receptions=[replace(note, at=RECENT)])


def test_after_a_note_without_a_window_all_that_was_sent_before_must_be_gone_too() -> None:
    """Its messages became hidden then at the latest, and visible a visibility timeout later."""
    note = reception(RECENT - MINUTE, ACCEPT_UNTIL)
    bound = note.at + VISIBILITY + MARGIN
    assert bound > ACCEPT_UNTIL + MARGIN
    for oldest, expected in ((bound, False), (bound + 1, True)):
        backlog = replace(FRESH, ages=tuple((LATER - n, LATER - n - oldest) for n in range(3)))
        assert dry(backlog, receptions=[note]) is expected


@pytest.mark.parametrize(
    ("oldest", "newest", "held"),
    [
        (ACCEPT_UNTIL, ACCEPT_UNTIL, True),
        (ACCEPT_UNTIL + 1, ACCEPT_UNTIL + HOUR, False),
        (START - 9 * HOUR, ACCEPT_UNTIL + HOUR, True),
        (START - 9 * HOUR, START - SETTINGS.freeze_lead_ms, True),
        (START - 9 * HOUR, START - SETTINGS.freeze_lead_ms - 1, False),
    ],
)
def test_which_windows_a_note_holds(oldest: int, newest: int, *, held: bool) -> None:
    assert holds(reception(LATER, oldest, newest), OPEN, SETTINGS) is held


def test_a_past_window_takes_nothing_from_before_it_was_opened() -> None:
    past = replace(OPEN, accept_from=ACCEPT_UNTIL - HOUR)
    assert not holds(reception(LATER, START, ACCEPT_UNTIL - HOUR - 1), past, SETTINGS)
    assert holds(reception(LATER, START, ACCEPT_UNTIL - HOUR), past, SETTINGS)


def test_how_far_back_failures_matter() -> None:
    lead = SETTINGS.freeze_lead_ms
    later = replace(OPEN, start=START + HOUR)
    assert invocations_since([later, OPEN], LATER, SETTINGS) == START - lead
    past = replace(OPEN, accept_from=START + 5)
    assert invocations_since([past], LATER, SETTINGS) == START + 5
    ages_later = START + SETTINGS.queue_retention_ms + 7 * HOUR
    assert invocations_since([OPEN], ages_later, SETTINGS) == START + 7 * HOUR


def test_a_note_is_kept_until_all_that_was_sent_then_has_left_the_queue() -> None:
    """In a backlog of hours its messages may still wait."""
    at = LATER - RECEPTIONS_KEPT * VISIBILITY - 1
    note, bound = reception(at, START), at + VISIBILITY + MARGIN

    def sent(oldest: int) -> Backlog:
        return replace(BUSY, ages=tuple((LATER - n, LATER - n - oldest) for n in range(3)))

    assert not is_spent(note, sent(bound), LATER, SETTINGS)
    assert is_spent(note, sent(bound + 1), LATER, SETTINGS)
    assert not is_spent(replace(note, at=at + 1), sent(LATER), LATER, SETTINGS)
    assert not is_spent(note, BUSY, LATER, SETTINGS), "nothing is known"
    assert is_spent(note, QUIET, LATER, SETTINGS)
    expired = LATER - SETTINGS.queue_retention_ms
    assert not is_spent(replace(note, at=expired), BUSY, LATER, SETTINGS)
    assert is_spent(replace(note, at=expired - 1), BUSY, LATER, SETTINGS)
