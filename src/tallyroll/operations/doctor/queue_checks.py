"""The doctor's checks of the event queue and of the dead letters."""

from __future__ import annotations

from collections.abc import Iterator

from tallyroll.lifecycle import health
from tallyroll.lifecycle.health import HOUR_MS, MINUTE_MS
from tallyroll.limits import IN_FLIGHT_MAX
from tallyroll.model.windows import iso
from tallyroll.operations.doctor.checkup import Checkup, Sign, finding, fine, warning
from tallyroll.ports.queue import Backlog
from tallyroll.resources import DEAD_LETTERS_RETENTION_SECONDS

HANDED_BACK_BACK_MS = HOUR_MS  # longer than usual waits
IN_FLIGHT_BACK_MS = 10 * MINUTE_MS
AGES_BACK_MS = 30 * MINUTE_MS  # the metric lags, and is absent for an idle queue
_GONE = "Deploy the pipeline, or give the right --name."
_BEHIND = "docs/operations.md, falling-behind: are writers too few, or do they fail?"
_SILENT = "docs/operations.md, writer-silent: do writers start, and may they read the catalog?"
_BACK = "docs/operations.md, handed-back: the writer's log says why."
_IN_FLIGHT = (
    "docs/operations.md, in-flight: remove what keeps messages hidden (writers that die, a window"
    " that does not open, throttles); `tallyroll windows list` and the writer's log show which."
    " They are delivered again by themselves."
)
_LETTERS = "`tallyroll dlq list` shows why; `tallyroll dlq redrive` sends again what may count."


def queue(case: Checkup) -> Iterator[Sign]:
    """Events do not wait long."""
    if case.queue is None:
        yield finding(f"there is no queue {case.resources.queue.name}", _GONE)
        return
    backlog = case.queue.backlog(case.effects.now() - AGES_BACK_MS)
    age = _age(backlog)
    text = _said(backlog, "message", age)
    if (age or 0) >= health.EXPIRING_SHARE * case.settings.queue_retention_ms:
        yield finding(f"{text}: it will expire uncounted", _BEHIND)
    elif (age or 0) >= health.BEHIND_MS:
        yield warning(text, _BEHIND)
    yield from _silence(case, backlog)
    yield from _handed_back(case)
    yield from _in_flight(case, backlog)
    yield fine(text)


def _in_flight(case: Checkup, backlog: Backlog) -> Iterator[Sign]:
    """SQS still delivers: by the queue's count now, and by its metric of the last minutes."""
    since = case.effects.now() - IN_FLIGHT_BACK_MS
    most = max(backlog.in_flight, case.stack.in_flight(since) if case.stack else 0)
    if most >= health.IN_FLIGHT_FULL * IN_FLIGHT_MAX:
        yield finding(
            f"{most:,} messages in flight: at about {IN_FLIGHT_MAX:,} SQS delivers no others",
            _IN_FLIGHT,
        )
    elif most >= health.IN_FLIGHT_SHARE * IN_FLIGHT_MAX:
        full = f"{most:,} messages in flight; at {IN_FLIGHT_MAX:,} delivery stops"
        yield warning(full, _IN_FLIGHT)


def _silence(case: Checkup, backlog: Backlog) -> Iterator[Sign]:
    """Writers finish messages if there are any."""
    finished = case.catalog.heartbeat().finished
    if backlog.empty or finished is None or case.effects.now() - finished < health.SILENT_MS:
        return
    text = f"{backlog.total:,} messages, and no writer finished one since {iso(finished)}"
    yield warning(text, _SILENT)


def _handed_back(case: Checkup) -> Iterator[Sign]:
    """No message is handed back again and again for long."""
    ages = case.handed_back(case.effects.now() - HANDED_BACK_BACK_MS) if case.handed_back else ()
    age = max((age for _, age in ages), default=0)
    if age >= health.HANDED_BACK_MS:
        expiring = age >= health.EXPIRING_SHARE * case.settings.queue_retention_ms
        sign = finding if expiring else warning
        old = span_text(age)
        text = f"writers handed messages back within the last hour, the oldest is {old} old"
        yield sign(text, _BACK)


def dead_letters(case: Checkup) -> Iterator[Sign]:
    """There are no dead letters; old ones are worst."""
    if case.dead_letters is None:
        yield finding(f"there is no queue {case.resources.dead_letters.name}", _GONE)
        return
    backlog = case.dead_letters.backlog(case.effects.now() - AGES_BACK_MS)
    if backlog.empty:
        yield fine("none")
        return
    age = _age(backlog)
    # The metric leaves out letters that were received three times, by `tallyroll dlq list` too:
    # then its 0 is nobody's age. Source: Amazon SQS Developer Guide, "Available CloudWatch metrics
    # for Amazon SQS".
    text = _said(backlog, "dead letter", age or None)
    if (age or 0) >= health.EXPIRING_SHARE * DEAD_LETTERS_RETENTION_SECONDS * 1000:
        yield finding(f"{text}: it will expire", _LETTERS)
    else:
        yield warning(text, _LETTERS)


def _age(backlog: Backlog) -> int | None:
    """The last measured age (ms) of the oldest message."""
    return backlog.ages[-1][1] if backlog.ages and not backlog.empty else None


def _said(backlog: Backlog, what: str, age: int | None) -> str:
    delayed = f", {backlog.delayed:,} delayed" if backlog.delayed else ""
    plural = "s" if backlog.visible != 1 else ""
    counts = f"{backlog.visible:,} {what}{plural}, {backlog.in_flight:,} in flight{delayed}"
    return counts if age is None else f"{counts}; the oldest has waited {span_text(age)}"


def span_text(ms: int) -> str:
    """A span of time as people say it: `90 min`, `12 s`."""
    for unit, name in ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * unit:
            return f"{ms // unit} {name}"
    return f"{ms // 1000} s"
