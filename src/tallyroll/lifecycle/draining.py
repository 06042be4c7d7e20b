"""When the queue is drained for a window: it holds no message that the window accepts.

SQS cannot list messages, so this is inferred from the queue's counts, its metrics and the writers'
notes. The age of the oldest message ignores messages received three times or more, which are called
hidden here. docs/exactness.md ("When a window closes") has the argument.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from tallyroll import limits
from tallyroll.errors import StoreError
from tallyroll.lifecycle.runner import Rolled
from tallyroll.model.states import Window
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Backlog, Queue
from tallyroll.ports.writer_notes import Heartbeat, Reception
from tallyroll.settings import Settings

# How far in the future a note may lie: the longest wait of a message, and an hour for wrong clocks.
RECEPTIONS_AHEAD_MS = limits.PATIENT_VISIBILITY_SECONDS_MAX * 1_000 + 3_600_000
RECEPTIONS_DELETED_MAX, RECEPTIONS_DELETED_AT_ONCE = 500, 16  # in one run
DRAIN_DATAPOINTS = 3  # ages, or empty counts, that must agree
AGES_LOOKED_BACK = 15  # periods of the age metric that are read, since it lags


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known when a window may close.

    `empty_counts` is how many consecutive runs found the queue empty since the window stopped
    accepting messages. `straggler` is until when (ms) messages of the window may be in the queue,
    by its latest note; 0: there is none. `heartbeat` is when (ms) a writer last ended a batch whose
    notes were all stored.
    """

    backlog: Backlog
    empty_counts: int = 0
    straggler: int = 0
    heartbeat: int | None = None
    receptions: Sequence[Reception] = ()


def drained(window: Window, evidence: Evidence, now: int, settings: Settings) -> bool:
    """Whether the queue certainly holds no message that this window accepts.

    No note may be newer than two visibility timeouts. And either three consecutive runs found the
    queue empty, or the ages prove it. A mistake loses nothing: a late message meets a shut gate,
    and is rejected with its reason.
    """
    recent = now - 2 * settings.visibility_ms
    holding = [each for each in evidence.receptions if holds(each, window, settings)]
    if evidence.straggler > recent or any(each.at > recent for each in holding):
        return False
    if evidence.backlog.empty and evidence.empty_counts >= DRAIN_DATAPOINTS:
        return True
    if not _writers_prove(window, evidence, recent, settings):
        return False
    # From when a hidden message is visible, it waits no longer than a message sent at that moment.
    hidden_until = [
        evidence.straggler,
        *(each.at + settings.visibility_ms for each in holding),
        *(at.until + settings.visibility_ms for at in evidence.backlog.invocations if at.troubled),
    ]
    bound = max(window.accepts_until, *hidden_until) + settings.drain_margin_ms
    newest = sorted(evidence.backlog.ages)[-DRAIN_DATAPOINTS:]
    if len(newest) < DRAIN_DATAPOINTS or newest[0][0] < now - ages_kept_ms(settings):
        return False
    return all(at - age > bound for at, age in newest)


def _writers_prove(window: Window, evidence: Evidence, recent: int, settings: Settings) -> bool:
    """Whether writers were healthy, so that no message became hidden without a note.

    A third receive comes at least two visibility timeouts after the first. So a writer must have
    finished a batch within that time, and no metric period within it may be troubled.
    """
    beat = evidence.heartbeat
    since = max(recent, window.accepts_until + settings.drain_margin_ms)
    lived = beat is not None and beat > since
    lately = [each for each in evidence.backlog.invocations if each.until > recent]
    return lived and bool(lately) and not any(each.troubled for each in lately)


def holds(reception: Reception, window: Window, settings: Settings) -> bool:
    """Whether a message of this note may be for this window, by the time of its sending: an event's
    time lies at most `freeze_lead_ms` after that.
    """
    return (
        window.accepts_until >= reception.oldest
        and window.start <= reception.newest + settings.freeze_lead_ms
        and (window.accept_from or 0) <= reception.newest
    )


def is_spent(reception: Reception, backlog: Backlog, now: int, settings: Settings) -> bool:
    """Whether a note is no longer needed: it is too old to count as a death, and its messages have
    left the queue. They have if the queue is empty, if its retention has passed, or by its ages.
    """
    if reception.at >= now - limits.RECEPTIONS_KEPT * settings.visibility_ms:
        return False
    if backlog.empty or reception.at < now - settings.queue_retention_ms:
        return True
    newest = sorted(backlog.ages)[-DRAIN_DATAPOINTS:]
    bound = reception.at + settings.visibility_ms + settings.drain_margin_ms
    return bool(newest) and all(at - age > bound for at, age in newest)


def ages_kept_ms(settings: Settings) -> int:
    """How far back the queue's ages are read, ms."""
    return AGES_LOOKED_BACK * settings.drain_period_ms


def invocations_since(windows: Sequence[Window], now: int, settings: Settings) -> int:
    """Since when (ms) failures of writers matter to these windows: since their first messages could
    be sent, but no longer ago than the queue keeps a message.
    """
    first = min(window.accept_from or window.start - settings.freeze_lead_ms for window in windows)
    return max(first, now - settings.queue_retention_ms)


@dataclass(eq=False)
class Draining:
    """Reads the queue and the writers' notes, and says for which windows the queue is drained.

    Between runs of the roller it keeps how often the queue was empty, and since when it was not.
    """

    settings: Settings
    catalog: Catalog
    queue: Queue
    effects: Effects
    _empty_counts: dict[WindowId, int] = field(default_factory=dict, init=False)
    _waiting_since: int | None = field(default=None, init=False)

    def drained_windows(
        self, closable: Sequence[Window], now: int, rolled: Rolled
    ) -> Collection[WindowId]:
        """Those of the windows for which the queue is drained. Reads its metrics only if there are
        any windows, and reports for how long writers have finished nothing.

        If the queue does not answer, windows do not close, and all other steps continue.
        """
        try:
            heartbeat = self.catalog.heartbeat()
            if closable:
                return self._drained(closable, heartbeat, now, rolled)
            self._empty_counts = {}
            self._watch(self.queue.counts(), heartbeat, now, rolled)
        except StoreError as error:
            rolled.problems.append(f"the queue's backlog is not known: {error}")
            self._empty_counts = {}
        return ()

    def _drained(
        self, closable: Sequence[Window], heartbeat: Heartbeat, now: int, rolled: Rolled
    ) -> Collection[WindowId]:
        settings = self.settings
        backlog = self.queue.backlog(
            now - ages_kept_ms(settings), invocations_since(closable, now, settings)
        )
        self._watch(backlog, heartbeat, now, rolled)
        stragglers = self.catalog.stragglers([window.id for window in closable])
        receptions = self._receptions(backlog, now)
        # There may be more notes than were read: assume that no writer lives.
        lived = heartbeat.at if len(receptions) < limits.RECEPTIONS_READ_MAX else None
        self._empty_counts = {
            window.id: self._empty_counts.get(window.id, 0) + 1
            for window in closable
            if backlog.empty and now > window.accepts_until + settings.drain_margin_ms
        }

        def evidence(window: WindowId) -> Evidence:
            counts, straggler = self._empty_counts.get(window, 0), stragglers.get(window, 0)
            return Evidence(backlog, counts, straggler, lived, receptions)

        return [each.id for each in closable if drained(each, evidence(each.id), now, settings)]

    def _receptions(self, backlog: Backlog, now: int) -> list[Reception]:
        """Writers' notes of batches, as many as a run reads. Some that are spent are deleted."""
        until = now + RECEPTIONS_AHEAD_MS
        receptions = self.catalog.receptions(0, until, limits.RECEPTIONS_READ_MAX)
        old = [each for each in receptions if is_spent(each, backlog, now, self.settings)]
        jobs = [partial(self.catalog.clear_received, each) for each in old]
        self.effects.together(jobs[:RECEPTIONS_DELETED_MAX], RECEPTIONS_DELETED_AT_ONCE)
        return receptions

    def _watch(self, backlog: Backlog, heartbeat: Heartbeat, now: int, rolled: Rolled) -> None:
        """Report how long the queue has held messages without a writer finishing one."""
        if backlog.empty:
            self._waiting_since = None
            return
        if self._waiting_since is None:
            self._waiting_since = now
        rolled.silent_ms = max(0, now - max(self._waiting_since, heartbeat.finished or 0))
