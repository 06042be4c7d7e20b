"""The doctor: checks a pipeline's invariants one by one, and says what to do about its findings.

It only reads. Functions keep working meanwhile, so a problem with a window counts only if the
window's state has not changed since it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tallyroll.errors import StoreError
from tallyroll.operations.doctor.archives import archives
from tallyroll.operations.doctor.checkup import Check, Checkup, Sign, unchecked
from tallyroll.operations.doctor.derived import listing, rollups
from tallyroll.operations.doctor.queues import dead_letters, queue
from tallyroll.operations.doctor.tables import permanent, quota, stray_tables, tables
from tallyroll.operations.doctor.totals import totals
from tallyroll.operations.doctor.windows import (
    calendar,
    gaps,
    live_pointer,
    roller,
    settings,
    stuck,
)

Examination = Callable[[Checkup], Iterator[Sign]]


EXAMINATIONS: tuple[tuple[str, Examination], ...] = (
    ("calendar", calendar),
    ("settings", settings),
    ("roller", roller),
    ("stuck", stuck),
    ("gaps", gaps),
    ("live-pointer", live_pointer),
    ("permanent", permanent),
    ("tables", tables),
    ("stray-tables", stray_tables),
    ("quota", quota),
    ("totals", totals),
    ("listing", listing),
    ("rollups", rollups),
    ("archives", archives),
    ("queue", queue),
    ("dead-letters", dead_letters),
)
"""All checks by name, in order."""

_WITHOUT_CALENDAR = ("calendar", "permanent", "stray-tables", "quota", "queue", "dead-letters")


def examine(case: Checkup) -> Iterator[Check]:
    """Run the checks one after another. Raises StoreError if the catalog cannot be read; any other
    error ends its own check, which reports it.
    """
    case.read()
    for name, examination in EXAMINATIONS:
        if case.calendar is None and name not in _WITHOUT_CALENDAR:
            continue
        signs: list[Sign] = []
        try:
            for sign in examination(case):
                signs.append(sign)  # noqa: PERF402  (keeps the signs before an error)
        except StoreError as error:
            signs.append(unchecked(error))
        yield Check(name, tuple(signs))
