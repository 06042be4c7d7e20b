"""The doctor: checks a pipeline's invariants one by one, and says what to do about its findings.

It only reads. Functions keep working meanwhile, so a problem with a window counts only if the
window's state has not changed since it was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tallyroll.errors import StoreError
from tallyroll.operations.doctor import (
    alarms,
    archives,
    deployment,
    derived,
    queues,
    tables,
    totals,
    windows,
)
from tallyroll.operations.doctor.checkup import Check, Checkup, Level, Sign, denied

EXAMINATIONS: dict[str, Callable[[Checkup], Iterator[Sign]]] = {
    "calendar": windows.calendar,
    "settings": windows.settings,
    "functions": deployment.functions,
    "trigger": deployment.trigger,
    "schedules": deployment.schedules,
    "roller": windows.roller,
    "stuck": windows.stuck,
    "gaps": windows.gaps,
    "live-pointer": windows.live_pointer,
    "permanent": tables.permanent,
    "tables": tables.tables,
    "stray-tables": tables.stray_tables,
    "quota": tables.quota,
    "throttles": deployment.throttles,
    "policies": deployment.policies,
    "roles": deployment.roles,
    "subscriptions": alarms.subscriptions,
    "totals": totals.totals,
    "listing": derived.listing,
    "rollups": derived.rollups,
    "bucket": archives.bucket,
    "archives": archives.archives,
    "queue": queues.queue,
    "queue-rules": deployment.queue_rules,
    "dead-letters": queues.dead_letters,
}
"""All checks by name, in order."""

_WITHOUT_CALENDAR = (
    "calendar",
    "functions",
    "trigger",
    "schedules",
    "permanent",
    "stray-tables",
    "quota",
    "throttles",
    "policies",
    "roles",
    "subscriptions",
    "bucket",
    "queue",
    "queue-rules",
    "dead-letters",
)

_PAGE = re.compile(r"<(?:!doctype|html|\?xml)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE)


def examine(case: Checkup) -> Iterator[Check]:
    """Run the checks one after another. Raises StoreError if the catalog cannot be read; any other
    error ends its own check, which reports it.
    """
    case.read()
    for name, examination in EXAMINATIONS.items():
        if case.calendar is None and name not in _WITHOUT_CALENDAR:
            continue
        yield checked(name, examination(case))


def checked(name: str, examination: Iterator[Sign]) -> Check:
    """The check with the signs of an examination; a StoreError ends it, and is reported."""
    signs: list[Sign] = []
    try:
        for sign in examination:
            signs.append(sign)  # noqa: PERF402  (keeps the signs before an error)
    except StoreError as error:
        may_not = "Let this identity read it (AWS_PROFILE)."
        remedy = may_not if denied(error) else "Try again later."
        text = f"could not be checked to its end: {_one_line(error)}"
        signs.append(Sign(Level.UNCHECKED, text, remedy))
    return Check(name, tuple(signs))


def _one_line(error: StoreError) -> str:
    """An error as one line. A service that does not know a request may answer with a page: its
    title is told.
    """
    text = " ".join(str(error).split())
    begin, *page = _PAGE.split(text, maxsplit=1)
    if not page:
        return text
    title = _TITLE.search(text)
    return f"{begin}{title[1].strip() if title else 'the answer'} (a page, no JSON)"
