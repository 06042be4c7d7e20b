"""Whether the queue is drained of a window: whether it holds no message that the window accepts.

SQS lists nothing, so this is inferred, from the queue's counts, its metrics, and what writers note.
The age of the oldest message leaves out messages received three times or more: such a message is
called hidden here. docs/exactness.md ("When a window closes") has the argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallyroll import limits
from tallyroll.model.states import Window
from tallyroll.ports.queue import Backlog
from tallyroll.ports.writer_notes import Reception
from tallyroll.settings import Settings

DRAIN_DATAPOINTS = 3  # how many ages, or how many empty counts, must agree
AGES_LOOKED_BACK = 15  # periods of the age metric, which lags; an older age proves as much


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known when a window may close.

    `empty_counts` is how many runs in a row, after the window's last message was accepted, found
    the queue empty. `straggler` is until when (ms) a message of the window was last known to be in
    the queue. `heartbeat` is when (ms) a writer last finished a batch with all its notes taken.
    """

    backlog: Backlog
    empty_counts: int = 0
    straggler: int | None = None
    heartbeat: int | None = None
    receptions: Sequence[Reception] = ()


def drained(window: Window, evidence: Evidence, now: int, settings: Settings) -> bool:
    """Whether the queue holds nothing any more that this window accepts. Unknown is not drained.

    No note may be newer than two visibility timeouts. Then either the counts were zero three runs
    in a row, or the ages prove it. A mistake loses nothing: a late message meets a shut gate, and
    is rejected with its reason.
    """
    recent = now - 2 * settings.visibility_ms
    holding = [each for each in evidence.receptions if holds(each, window, settings)]
    if (evidence.straggler or 0) > recent or any(each.at > recent for each in holding):
        return False
    if evidence.backlog.empty and evidence.empty_counts >= DRAIN_DATAPOINTS:
        return True
    if not _writers_prove(window, evidence, recent, settings):
        return False
    # A hidden message that became visible then waits no longer than those sent at that moment.
    hidden_until = [
        evidence.straggler or 0,
        *(each.at + settings.visibility_ms for each in holding),
        *(
            each.until + settings.visibility_ms
            for each in evidence.backlog.invocations
            if each.troubled
        ),
    ]
    bound = max(accepts_until(window), *hidden_until) + settings.drain_margin_ms
    newest = sorted(evidence.backlog.ages)[-DRAIN_DATAPOINTS:]
    if len(newest) < DRAIN_DATAPOINTS or newest[0][0] < now - ages_kept_ms(settings):
        return False
    return all(at - age > bound for at, age in newest)


def _writers_prove(window: Window, evidence: Evidence, recent: int, settings: Settings) -> bool:
    """Whether writers live, so that no message became hidden without a note.

    A third receive comes no earlier than two visibility timeouts after the first: a batch finished
    since then, and none of the periods since then was troubled.
    """
    beat = evidence.heartbeat
    lived = beat is not None and beat > max(
        recent, accepts_until(window) + settings.drain_margin_ms
    )
    lately = [each for each in evidence.backlog.invocations if each.until > recent]
    return lived and bool(lately) and not any(each.troubled for each in lately)


def holds(reception: Reception, window: Window, settings: Settings) -> bool:
    """Whether a message of such a batch may be for this window, by when it was sent.

    A window accepts until `accept_until`, and no event lies further ahead of its sending than a
    spec is frozen ahead.
    """
    return (
        accepts_until(window) >= reception.oldest
        and window.start <= reception.newest + settings.freeze_lead_ms
        and (window.accept_from or 0) <= reception.newest
    )


def is_spent(reception: Reception, backlog: Backlog, now: int, settings: Settings) -> bool:
    """Whether a note is of no more use: nobody counts the deaths of that time, and its messages
    have left the queue, as all that was sent then, or nothing is there.
    """
    if reception.at >= now - limits.RECEPTIONS_KEPT * settings.visibility_ms:
        return False
    if backlog.empty or reception.at < now - settings.queue_retention_ms:
        return True
    newest = sorted(backlog.ages)[-DRAIN_DATAPOINTS:]
    bound = reception.at + settings.visibility_ms + settings.drain_margin_ms
    return bool(newest) and all(at - age > bound for at, age in newest)


def accepts_until(window: Window) -> int:
    """Until when (ms) a window accepts what is sent."""
    return window.accept_until or window.end


def ages_kept_ms(settings: Settings) -> int:
    """How far back the queue's ages are asked for, ms."""
    return AGES_LOOKED_BACK * settings.drain_period_ms


def invocations_since(windows: Sequence[Window], now: int, settings: Settings) -> int:
    """Since when (ms) it matters to these windows whether writers failed: since the first of their
    messages was sent, and no longer than the queue keeps one.
    """
    first = min(window.accept_from or window.start - settings.freeze_lead_ms for window in windows)
    return max(first, now - settings.queue_retention_ms)
