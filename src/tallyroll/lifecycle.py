"""The life of a window: creating -> open -> closing -> sealed -> exporting -> proven -> dropping ->
dropped.

One pure function decides what is next; roller and cleanup carry it out. Each step is idempotent and
ends in one conditional write of the state, so a crash anywhere is repaired by the next run and two
runs at once are harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tallyroll.ports import Backlog, Calendar, Status, TableStatus, Window
from tallyroll.settings import Settings
from tallyroll.specs import Spec
from tallyroll.windows import Span, WindowId

DRAIN_DATAPOINTS = 3  # how many ages, or how many empty counts, must agree
AGES_LOOKED_BACK = 15  # periods of the age metric, which lags; an older age proves as much
LEASE_DOUBLINGS_MAX = 7  # an export that fails for good is tried every 34 hours in the end
SHUT = "shut"  # among a window's times: when all its gates were shut


class Step(StrEnum):
    """What can be done to a window, in the order of its life."""

    MAKE_TABLE = "make-table"
    OPEN = "open"
    CLOSE = "close"
    SHUT = "shut"
    SEAL = "seal"
    EXPORT = "export"
    PROVE = "prove"
    DROP = "drop"
    DELETE = "delete"
    FINISH = "finish"


ROLLER_STEPS = frozenset({Step.MAKE_TABLE, Step.OPEN, Step.CLOSE, Step.SHUT, Step.SEAL})


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found out about a window: its table's status (None: there is none), whether the
    queue holds nothing more for it, whether the current export attempt has its manifest.
    """

    table: TableStatus | None = None
    drained: bool = False
    exported: bool = False


def next_step(window: Window, facts: Facts, now: int, settings: Settings) -> Step | None:
    """The step that is due for a window, or None; `now` in ms."""
    match window.status:
        case Status.CREATING:
            if facts.table is None:
                return Step.MAKE_TABLE
            usable = facts.table in (TableStatus.ACTIVE, TableStatus.UPDATING)
            frozen = now >= window.start - settings.freeze_lead_ms
            return Step.OPEN if usable and frozen else None
        case Status.OPEN:
            over = now > max(window.end, window.accept_until or 0)
            return Step.CLOSE if over and facts.drained else None
        case Status.CLOSING:
            shut_at = window.times.get(SHUT)
            if shut_at is None:
                return Step.SHUT
            return Step.SEAL if now >= shut_at + settings.settle_ms else None
        case Status.SEALED:
            cold = now >= window.times[Status.SEALED] + settings.retention_ms
            return Step.EXPORT if cold else None
        case Status.EXPORTING:
            if facts.exported and not window.problem:
                return Step.PROVE
            return Step.EXPORT if now >= _given_up_at(window, settings) else None
        case Status.PROVEN:
            return Step.DROP
        case Status.DROPPING:
            if facts.table is None:
                return Step.FINISH
            settled = now >= window.times[Status.DROPPING] + settings.settle_ms
            return Step.DELETE if settled and facts.table is TableStatus.ACTIVE else None
        case Status.DROPPED:
            return None


def _given_up_at(window: Window, settings: Settings) -> int:
    """When an export attempt is given up, ms: later with each, so that one in vain costs little."""
    doublings = min(max(0, window.attempts - 1), LEASE_DOUBLINGS_MAX)
    return window.times[Status.EXPORTING] + (settings.export_lease_ms << doublings)


def drained(
    accept_until: int,
    backlog: Backlog,
    empty_counts: int,
    straggler: int | None,
    now: int,
    settings: Settings,
) -> bool:
    """Whether the queue holds nothing any more that was sent by `accept_until` (ms). Unknown is not
    drained.

    Either the newest ages all say that everything is newer (they leave out what was received three
    times or more, so no message may have been handed back lately, noted in `straggler`), or the
    counts were zero `empty_counts` times in a row. A mistake loses nothing: a late message meets a
    shut gate, and is rejected with its reason.
    """
    if straggler is not None and straggler > now - 2 * settings.visibility_ms:
        return False
    if backlog.empty and empty_counts >= DRAIN_DATAPOINTS:
        return True
    newest = sorted(backlog.ages)[-DRAIN_DATAPOINTS:]
    if len(newest) < DRAIN_DATAPOINTS or newest[0][0] < now - ages_kept_ms(settings):
        return False
    return all(at - age > accept_until + settings.drain_margin_ms for at, age in newest)


def ages_kept_ms(settings: Settings) -> int:
    """How far back the queue's ages are asked for."""
    return AGES_LOOKED_BACK * settings.drain_period_ms


def to_make(
    calendar: Calendar, known: Sequence[WindowId], since: int, now: int, settings: Settings
) -> list[Span]:
    """The regular windows, ascending, that should exist and do not: since genesis (or `since`,
    before which all are dropped), up to `ahead_windows` after the current one.
    """
    last = calendar.grid.at(now)
    for _ in range(settings.ahead_windows):
        last = calendar.grid.after(last)
    there = frozenset(known)
    spans = calendar.grid.over(max(calendar.genesis, since), last.end)
    return [span for span in spans if span.id not in there]


def freeze(window: Window, settings: Settings) -> Spec:
    """The spec of a window, from the settings of this moment."""
    return Spec(
        window=window.id,
        table=window.table,
        start=window.start,
        end=window.end,
        shards=settings.shards,
        stripes_min=settings.stripes_min,
        buckets=settings.buckets,
        gates=settings.gates,
        suffix=settings.suffix,
        accept_from=window.accept_from or 0,
        accept_until=window.accept_until or window.end + settings.accept_for_ms,
        skew=settings.skew_ms,
        require_ts=settings.require_ts,
        hot=dict(settings.hot_shards),
    )
