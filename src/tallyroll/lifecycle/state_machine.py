"""The life of a window: creating -> open -> closing -> sealed -> exporting -> proven -> dropping ->
dropped.

A pure function, `next_step`, decides which step is due; roller, cleanup and dropper carry it out.
`due_from` says when; `overdue` and the fixture's `course` ask it, too.
Each step is idempotent and ends with one conditional write of the state, so the next run repairs a
crash anywhere, and concurrent runs are harmless. Next on the reading path: `lifecycle/sealing.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tallyroll.limits import TS_MS_MAX
from tallyroll.model.specs import (
    IDENTITIES_RULE,
    LOGS_RULE,
    STRIPES_RULE,
    IdentityScope,
    Spec,
    log_rule,
    suffix_name,
)
from tallyroll.model.states import Calendar, Moment, Status, Window
from tallyroll.model.windows import DYNAMODB, Span, WindowId, store_of
from tallyroll.ports.table_listing import TableStatus
from tallyroll.settings import Settings

LEASE_DOUBLINGS_MAX = 7  # an export that always fails is in the end retried every 34 hours


class Step(StrEnum):
    """The steps of a window, in the order of its life."""

    MAKE_TABLE = "make-table"
    CHECK_TABLE = "check-table"
    RECOVER = "recover"
    COOL = "cool"
    OPEN = "open"
    CLOSE = "close"
    SHUT = "shut"
    SEAL = "seal"
    EXPORT = "export"
    COPY = "copy"
    PROVE = "prove"
    DROP = "drop"
    TAG = "tag"
    DELETE = "delete"
    FINISH = "finish"


ROLLER_STEPS = frozenset(list(Step)[: list(Step).index(Step.EXPORT)])
DROPPER_STEPS = frozenset({Step.DELETE, Step.FINISH})
CLEANUP_STEPS = frozenset(Step) - ROLLER_STEPS - DROPPER_STEPS


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """What a run found out about a window.

    `table` is its table's status; None: it does not exist. `drained` is whether the queue holds no
    message for it. Of the current attempt at an export: `exported` is whether it is complete,
    `held` whether this run works on it, `noted` how many notes of progress there are. `untagged` is
    whether the table of a window that is being dropped lacks the tag of its proof.
    """

    table: TableStatus | None = None
    drained: bool = False
    exported: bool = False
    held: bool = False
    noted: int = 0
    untagged: bool = False


def due_from(window: Window, settings: Settings) -> int | None:
    """From when, ms, the step is due that ends a window's state, or the next one of its
    export; None for a dropped window. `WindowFacts` says what else the step needs.
    """
    times = window.times
    match window.status:
        case Status.CREATING:
            return window.start - settings.freeze_lead_ms
        case Status.OPEN:
            return max(window.end, window.accepts_until)
        case Status.CLOSING:
            begun = times.get(Moment.SHUT, times.get(Status.CLOSING, window.end))
            return begun + settings.settle_ms
        case Status.SEALED:
            return retained_until(window, settings)
        case Status.EXPORTING:
            attempt = window.attempt
            return _again_from(window, settings) if attempt.problem else attempt.busy_until
        case Status.PROVEN:
            return times.get(Status.PROVEN, window.end)
        case Status.DROPPING:
            return times.get(Status.DROPPING, window.end) + settings.settle_ms
        case Status.DROPPED:
            return None


def retained_until(window: Window, settings: Settings) -> int:
    """Until when, ms, a sealed window keeps its table at least."""
    return window.times.get(Status.SEALED, window.end) + settings.retention_ms


def _again_from(window: Window, settings: Settings) -> int:
    """From when, ms, another attempt at an export may begin.

    Each attempt waits twice as long for the next one, so that repeated failures cost little.
    """
    doublings = min(max(0, window.attempt.number - 1), LEASE_DOUBLINGS_MAX)
    return window.times.get(Moment.TRIED, TS_MS_MAX) + (settings.export_lease_ms << doublings)


def next_step(window: Window, facts: WindowFacts, now: int, settings: Settings) -> Step | None:
    """The step that is due for a window at `now` (ms), or None.

    Steps that only the table needs come last, so that they do not delay opening or closing.
    """
    return _step_of_life(window, facts, now, settings) or _step_of_table(window, facts, settings)


def _step_of_table(window: Window, facts: WindowFacts, settings: Settings) -> Step | None:
    live = window.status in (Status.OPEN, Status.CLOSING, Status.SEALED)
    waiting = window.status is Status.CREATING and facts.table is TableStatus.ACTIVE
    times = window.times
    if settings.point_in_time_recovery and Moment.RECOVERABLE not in times and (live or waiting):
        return Step.RECOVER
    if settings.cools and Moment.COOLED not in times and window.status is Status.SEALED:
        return Step.COOL
    return None


def _step_of_life(window: Window, facts: WindowFacts, now: int, settings: Settings) -> Step | None:
    due = due_from(window, settings)
    is_due = due is not None and now >= due
    match window.status:
        case Status.CREATING:
            return _created(window, facts, is_due=is_due)
        case Status.OPEN:  # still takes messages of that very moment
            return Step.CLOSE if is_due and now != due and facts.drained else None
        case Status.CLOSING if Moment.SHUT not in window.times:
            return Step.SHUT
        case Status.CLOSING:
            return Step.SEAL if is_due else None
        case Status.SEALED:
            return Step.EXPORT if is_due else None
        case Status.EXPORTING:
            return _attempted(window, facts, now, settings)
        case Status.PROVEN:
            return Step.DROP
        case Status.DROPPING:
            if facts.table is None:
                return Step.FINISH
            if facts.table is not TableStatus.ACTIVE:
                return None
            if facts.untagged:  # a late roller made the table again
                return Step.TAG
            return Step.DELETE if is_due else None
        case Status.DROPPED:
            return None


def _created(window: Window, facts: WindowFacts, *, is_due: bool) -> Step | None:
    if facts.table is None:
        return Step.MAKE_TABLE
    if facts.table not in (TableStatus.ACTIVE, TableStatus.UPDATING):
        return None
    if Moment.CHECKED not in window.times:
        return Step.CHECK_TABLE
    return Step.OPEN if is_due else None


def _attempted(window: Window, facts: WindowFacts, now: int, settings: Settings) -> Step | None:
    """The due step of a window in export."""
    attempt = window.attempt
    if not facts.held and now < attempt.busy_until:
        return None
    progressed = facts.noted > attempt.noted  # perhaps by a run that was killed
    if (attempt.problem or not progressed) and now >= _again_from(window, settings):
        return Step.EXPORT
    if attempt.problem:
        return None
    return Step.PROVE if facts.exported else Step.COPY


def to_make(
    calendar: Calendar, known: Sequence[WindowId], since: int, now: int, settings: Settings
) -> list[Span]:
    """The regular windows, ascending, that should exist and are not `known`.

    They start at or after genesis and `since`, before which all are dropped. The last is
    `ahead_windows` after the current one.
    """
    last = calendar.grid.at(now)
    for _ in range(settings.ahead_windows):
        last = calendar.grid.after(last)
    there = frozenset(known)
    spans = calendar.grid.over(max(calendar.genesis, since), last.end)
    return [span for span in spans if span.id not in there]


def freeze(
    window: Window, settings: Settings, hot: Mapping[str, int] | None = None, genesis: int = 0
) -> Spec:
    """The spec of a window by the settings; `hot` are the keys with their own N (None: theirs), and
    `genesis` is the pipeline's first window.
    """
    remembers = settings.remembers_ids
    own = settings.own_stripes and store_of(window.table) == DYNAMODB
    logs = {key: log_rule(rate) for key, rate in settings.logs.items()}
    rules = [STRIPES_RULE] * own + [IDENTITIES_RULE] * remembers + [LOGS_RULE] * bool(logs)
    return Spec(
        window=window.id,
        table=window.table,
        start=window.start,
        end=window.end,
        shards=settings.shards,
        stripes_min=settings.stripes_min,
        buckets=settings.buckets,
        gates=settings.gates,
        suffix=suffix_name(settings.suffix, rules),
        accept_from=window.accept_from or 0,
        accept_until=window.accept_until or window.end + settings.accept_for_ms,
        skew=settings.skew_ms,
        require_ts=settings.require_ts,
        hot=dict(settings.hot_shards if hot is None else hot),
        identity=IdentityScope(settings.identity),
        identity_days=settings.identity_days if remembers else 0,
        genesis=genesis if remembers else 0,
        logs=logs,
    )
