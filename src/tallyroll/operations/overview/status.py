"""How far a pipeline has counted: its queue, its current window, its dead letters and its rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tallyroll.errors import StoreError
from tallyroll.lifecycle.health import HOUR_MS, MINUTE_MS
from tallyroll.lifecycle.overdue import why_not_taking
from tallyroll.limits import RECEPTIONS_READ_MAX
from tallyroll.model.states import Status, Window, takes
from tallyroll.model.windows import Span
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.operations.doctor.queue_checks import AGES_BACK_MS
from tallyroll.ports.queue import Backlog, Backlogged
from tallyroll.settings import Settings

RATE_PERIODS = 5
RATE_MS_MIN = MINUTE_MS


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """A pipeline at `as_of` (ms). What is not known is None, and `unknown` says why.

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
    unknown: tuple[str, ...] = ()

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


def status_of(case: Checkup) -> PipelineStatus:
    """The status of a pipeline. Raises StoreError if its catalog cannot be read."""
    now, unknown = case.effects.now(), list[str]()
    period_ms = case.settings.drain_period_ms
    rate_ms = max(RATE_PERIODS * period_ms, RATE_MS_MIN)

    def read(what: str, ask: Callable[[], Sequence[tuple[int, int]]]) -> Sequence[tuple[int, int]]:
        try:
            return ask()
        except StoreError as error:
            unknown.append(f"{what}: {error}")
            return ()

    calendar = case.catalog.calendar()
    span = calendar.grid.at(now) if calendar else None
    recent = now - 2 * case.settings.visibility_ms
    notes = case.catalog.receptions(recent, now + 1, RECEPTIONS_READ_MAX)
    queue = _backlog(case.queue, now, unknown)
    handed_back, counted = case.handed_back, case.counted
    back = read("what is handed back", lambda: handed_back(recent)) if handed_back else ()
    oldest = None
    if queue and queue.ages and not queue.empty:
        at, age = max(queue.ages)
        hidden = [*(at - age for at, age in back), *(each.oldest for each in notes)]
        oldest = min(at - age, *hidden) if hidden else at - age
    # The newest period is not complete, and CloudWatch may not know all of the one before.
    until = (now // period_ms - 1) * period_ms
    since = until - rate_ms
    points = read("the rate", lambda: counted(since)) if counted else ()
    within = [number for at, number in points if since <= at < until]
    letters = _backlog(case.dead_letters, now, unknown, ages=False)
    return PipelineStatus(
        as_of=now,
        queue=queue,
        oldest=oldest,
        counted_up_to=_counted_up_to(queue, oldest, now, case.settings),
        dead_letters=letters.total if letters else None,
        span=span,
        window=case.catalog.window(span.id) if span else None,
        rate=sum(within) * 1000 / rate_ms if within else None,
        rate_ms=rate_ms,
        unknown=tuple(unknown),
    )


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


def _backlog(
    queue: Backlogged | None, now: int, unknown: list[str], *, ages: bool = True
) -> Backlog | None:
    """A queue's backlog, without ages if CloudWatch does not answer."""
    if queue is None:
        return None
    if ages:
        try:
            return queue.backlog(now - AGES_BACK_MS)
        except StoreError as error:
            unknown.append(f"the oldest event that waits: {error}")
    return queue.backlog(now + HOUR_MS)  # after now there are no ages
