"""The course of a pipeline's windows in virtual time: the functions on a schedule, from due step to
due step.
"""

from __future__ import annotations

from tallyroll.errors import Rejected
from tallyroll.lifecycle.draining import DRAIN_DATAPOINTS
from tallyroll.lifecycle.overdue import ARCHIVED
from tallyroll.lifecycle.state_machine import due_from
from tallyroll.model.events import decode
from tallyroll.model.foreign.mappings import founded_with
from tallyroll.model.records import event_time
from tallyroll.model.states import Calendar, Status, Window
from tallyroll.model.windows import Grid, iso
from tallyroll.pipeline import Pipeline
from tallyroll.ports.live_windows import list_live
from tallyroll.settings import Settings
from tallyroll.testing.clock import Clock
from tallyroll.testing.errors import TestingError
from tallyroll.testing.handlers import invoke
from tallyroll.testing.queue_index import sent_at
from tallyroll.testing.queues import queue_at

_AHEAD_MS = 2 * 366 * 86_400_000  # further ahead than any window is made
_RUNS_MAX = 50  # at one moment
_AGAIN_MS = 60_000  # after which a step that is due and cannot be done is tried again
_CAUGHT_UP_WINDOWS = 48
_SPAN_WINDOWS_MAX = 2_000


class LifecycleDriver:
    """Runs roller, cleanup and dropper of a pipeline when one of their steps is due.

    `due` is when (ms) that is the next time.
    """

    def __init__(self, ports: Pipeline, clock: Clock) -> None:
        self.due = 0
        self._ports = ports
        self._clock = clock
        self._roller = ports.roller
        self._cleanup, self._dropper = ports.cleanup, ports.dropper
        self._calendar: Calendar | None = None

    def catch_up(self) -> None:
        """Found the pipeline if there is none, and do all steps that are due by now.

        Raises TestingError if roller, cleanup or dropper report problems.
        """
        calendar = self._calendar or self._founded()
        if self._clock.now() >= self.due:
            problems = self._settle(calendar)
            if problems:
                raise TestingError("the pipeline has problems: " + "; ".join(problems))

    def windows(self) -> list[Window]:
        """All windows, ascending; none before the pipeline is founded."""
        return self._ports.catalog.windows(0, self._clock.now() + _AHEAD_MS)

    def _founded(self) -> Calendar:
        """The calendar of a new pipeline. Its first window is the one of the earliest message in
        the queue, which may have been sent before this moment.
        """
        settings = self._ports.settings
        grid = Grid.of(settings.window_length)
        messages = queue_at(settings.queue_url).held()
        sent = [sent_at(message) for message in messages]
        times = [_time_of(message.body, sent_at(message), grid, settings) for message in messages]
        now = self._clock.now()
        first, last = min(times, default=now), max(sent, default=now)
        length = settings.lasting.shortest
        if last - first > _SPAN_WINDOWS_MAX * length:
            raise TestingError(
                f"the queue holds messages of {iso(first)} and of {iso(last)}: over"
                f" {_SPAN_WINDOWS_MAX:,} windows of {length // 1000} s lie between them."
                " Send them closer together, or set a longer window_seconds"
            )
        # The test may have left the frozen time in which it sent. Unless the present is near, time
        # goes on from there.
        if last > now or now - last > _CAUGHT_UP_WINDOWS * length:
            self._clock.shift(last - now)
        mappings = founded_with(settings.mapping_text)
        calendar = Calendar(grid, grid.at(first).start, mappings)
        self._calendar = self._ports.catalog.found(calendar)
        return self._calendar

    def _settle(self, calendar: Calendar) -> list[str]:
        """Run the functions until no step is due, or none can be done now. Returns the problems of
        the last runs.
        """
        ports = self._ports
        queue = queue_at(ports.settings.queue_url)
        now, live, problems = 0, list[Window](), list[str]()
        for number in range(1, _RUNS_MAX + 1):
            answers = [invoke("roller", self._roller, {})]
            live = self._live()
            if any(each.status in ARCHIVED and self._is_due(each) for each in live):
                answers.append(invoke("cleanup", self._cleanup, {}))
                answers.append(invoke("dropper", self._dropper, {}))
                live = self._live()
            problems = [text for answer in answers for text in answer["problems"]]
            now = self._clock.now()
            counts_lack = queue.is_empty() and number <= DRAIN_DATAPOINTS
            progressed = any(answer["steps"] for answer in answers) or counts_lack
            if not progressed or not any(self._is_due(each) for each in live):
                break
        moments = [_due_at(window, ports.settings) for window in live]
        later = [at for at in moments if at is not None and at > now]
        blocked = any(at is not None and at <= now for at in moments)
        self.due = min([*later, calendar.grid.at(now).end, *([now + _AGAIN_MS] * blocked)])
        return problems

    def _live(self) -> list[Window]:
        catalog = self._ports.catalog
        return list_live(catalog, catalog.live(), 0, self._clock.now() + _AHEAD_MS)

    def _is_due(self, window: Window) -> bool:
        at = _due_at(window, self._ports.settings)
        return at is not None and at <= self._clock.now()


def _due_at(window: Window, settings: Settings) -> int | None:
    """From when (ms) on a run takes a window's next step; None: it has none. Ages prove that the
    queue is drained once the margin has passed.
    """
    due = due_from(window, settings)
    if due is not None and window.status is Status.OPEN:
        return due + settings.drain_margin_ms + 1
    return due


def _time_of(body: str, sent: int, grid: Grid, settings: Settings) -> int:
    """The time (ms) of a message's event if its window takes it, else of its sending."""
    try:
        happened = event_time(decode(body), sent)
    except Rejected:
        return sent
    taken = happened <= sent <= grid.at(max(0, happened)).end + settings.accept_for_ms
    return happened if taken else sent
