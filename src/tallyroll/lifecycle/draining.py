"""Whether the queue is drained for a window: it holds no message that the window accepts.

SQS cannot list messages, so this is inferred from the queue's counts, its metrics and the writers'
notes. The age of the oldest message ignores messages received three times or more, which are called
hidden here. docs/exactness.md ("When a window closes") has the argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallyroll import limits
from tallyroll.model.states import Window
from tallyroll.ports.queue import Backlog
from tallyroll.ports.writer_notes import Reception
from tallyroll.settings import Settings

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
