"""How far a pipeline has counted: its queue, its current window, its dead letters and its rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from tallyroll.errors import StoreError
from tallyroll.lifecycle.health import HOUR_MS, MINUTE_MS
from tallyroll.lifecycle.overdue import why_not_taking
from tallyroll.limits import RECEPTIONS_READ_MAX
from tallyroll.model.states import Status, Window, takes
from tallyroll.model.windows import Span
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.operations.doctor.queue_checks import AGES_BACK_MS
from tallyroll.ports.queue import Backlog
from tallyroll.ports.writer_notes import Reception
from tallyroll.settings import Settings

T = TypeVar("T")
WAITING, OLDEST, LETTERS = "messages waiting", "the oldest message", "dead letters"
RATE_PERIODS = 5
RATE_MS_MIN = MINUTE_MS


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """A pipeline at `as_of` (ms). What is not known is None, and `unknown` says why, by its name.

    queue, dead_letters: their counts; None also if there is no such queue
    oldest: the oldest message that waits was sent then (ms) or later
    counted_up_to: every event sent before then (ms) is counted, or a dead letter
    span, window: the current window, and its state; no state if it is not made
    rate: events counted a second, over the last `rate_ms` that CloudWatch knows
    """

    as_of: int
    queue: Backlog | None
    oldest: int | None
    counted_up_to: int | None
    dead_letters: int | None
    span: Span | None
    window: Window | None
    rate: float | None
    rate_ms: int
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes_events(self) -> bool:
        """Whether the current window counts what is sent now."""
        return self.window is not None and takes(self.window, self.as_of)

    @property
    def why_not(self) -> str:
        """Why the current window takes no events, for people; "" if it does."""
        if self.span is None:
            return "there is no calendar: the roller has never run"
        if self.window is None:
            return "it is not made, its events wait: does the roller run?"
        why = why_not_taking(self.window, self.as_of)
        creating = self.window.status is Status.CREATING
        return f"{why}: does the roller run?" if creating else why


def status_of(case: Checkup, *, needs_catalog: bool = True) -> PipelineStatus:
    """The status of a pipeline. If its catalog is needed and cannot be read, raises StoreError."""
    now, unknown = case.effects.now(), dict[str, str]()
    period_ms = case.settings.drain_period_ms
    rate_ms = max(RATE_PERIODS * period_ms, RATE_MS_MIN)
    recent = now - 2 * case.settings.visibility_ms
    span = window = None
    notes: Sequence[Reception] = ()
    try:
        calendar = case.catalog.calendar()
        span = calendar.grid.at(now) if calendar else None
        window = case.catalog.window(span.id) if span else None
        notes = case.catalog.receptions(recent, now + 1, RECEPTIONS_READ_MAX)
    except StoreError as error:
        if needs_catalog:
            raise
        unknown |= dict.fromkeys(("current window", OLDEST), str(error))
    queue, letters = case.queue, case.dead_letters
    waiting = dead = None
    after = now + HOUR_MS  # there are no ages then, which CloudWatch has
    if queue is not None:
        waiting = part(unknown, OLDEST, partial(queue.backlog, now - AGES_BACK_MS))
        waiting = waiting or part(unknown, WAITING, partial(queue.backlog, after))
    if letters is not None:
        dead = part(unknown, LETTERS, partial(letters.backlog, after))
    handed_back, counted = case.handed_back, case.counted
    back = handed_back and part(unknown, OLDEST, partial(handed_back, recent))
    oldest = None
    if waiting and waiting.ages and not waiting.empty and OLDEST not in unknown:
        at, age = max(waiting.ages)
        hidden = [*(at - age for at, age in back or ()), *(each.oldest for each in notes)]
        oldest = min(at - age, *hidden) if hidden else at - age
    # The newest period is not complete, and CloudWatch may not know all of the one before.
    until = (now // period_ms - 1) * period_ms
    since = until - rate_ms
    points = counted and part(unknown, "events a second", partial(counted, since))
    within = [number for at, number in points or () if since <= at < until]
    return PipelineStatus(
        as_of=now,
        queue=waiting,
        oldest=oldest,
        counted_up_to=_counted_up_to(waiting, oldest, now, case.settings),
        dead_letters=dead.total if dead else None,
        span=span,
        window=window,
        rate=sum(within) * 1000 / rate_ms if within else None,
        rate_ms=rate_ms,
        unknown=unknown,
    )


def part(unknown: dict[str, str], what: str, ask: Callable[[], T]) -> T | None:
    """What `ask` gives; if it cannot be read, None, and why, among what is `unknown`."""
    try:
        return ask()
    except StoreError as error:
        unknown[what] = str(error)
        return None


def _counted_up_to(
    queue: Backlog | None, oldest: int | None, now: int, settings: Settings
) -> int | None:
    """Until when (ms) all that was sent has left the queue. Its counts lag, by less than the
    margin by which windows close.
    """
    lagging = now - settings.drain_margin_ms
    if queue is not None and queue.empty:
        return lagging
    return None if oldest is None else min(oldest, lagging)
