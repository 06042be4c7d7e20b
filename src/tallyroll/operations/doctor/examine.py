"""The doctor: checks a pipeline's invariants one by one, and says what to do about its findings.

It only reads. Functions keep working meanwhile, so a problem with a window counts only if the
window's state has not changed since it was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tallyroll.errors import StoreError
from tallyroll.operations.doctor import (
    alarm_checks,
    archive_checks,
    correction_checks,
    deployment_checks,
    derived_checks,
    heat_checks,
    log_checks,
    queue_checks,
    table_checks,
    total_checks,
    window_checks,
)
from tallyroll.operations.doctor.checkup import Check, Checkup, Level, Sign, denied
from tallyroll.settings import Settings

Examination = Callable[[Checkup], Iterator[Sign]]


def _founded(examination: Examination) -> Examination:
    """An examination that is left out if the pipeline has no calendar yet."""
    return lambda case: examination(case) if case.calendar else iter(())


EXAMINATIONS: dict[str, Examination] = {
    "calendar": window_checks.calendar,
    "settings": _founded(window_checks.settings),
    "functions": deployment_checks.functions,
    "trigger": deployment_checks.trigger,
    "schedules": deployment_checks.schedules,
    "roller": _founded(window_checks.roller),
    "stuck": _founded(window_checks.stuck),
    "gaps": _founded(window_checks.gaps),
    "live-pointer": _founded(window_checks.live_pointer),
    "identities": _founded(window_checks.identities),
    "permanent": table_checks.permanent,
    "tables": _founded(table_checks.tables),
    "stray-tables": table_checks.stray_tables,
    "quota": table_checks.quota,
    "throttles": deployment_checks.throttles,
    "throttled-keys": heat_checks.throttled_keys,
    "logs": _founded(log_checks.logs),
    "policies": deployment_checks.policies,
    "roles": deployment_checks.roles,
    "subscriptions": alarm_checks.subscriptions,
    "totals": _founded(total_checks.totals),
    "listing": _founded(derived_checks.listing),
    "rollups": _founded(derived_checks.rollups),
    "corrections": _founded(correction_checks.corrections),
    "bucket": archive_checks.bucket,
    "archives": _founded(archive_checks.archives),
    "parquet": _founded(archive_checks.parquet),
    "queue": queue_checks.queue,
    "queue-rules": deployment_checks.queue_rules,
    "dead-letters": queue_checks.dead_letters,
}
"""All checks by name, in order. A new one is an entry here and a row in docs/operations.md, The
doctor. Bounds stand in `lifecycle/health.py`; another read needs a port of `Checkup`, and another
call to AWS the permission in docs/operations.md.
"""

_PAGE = re.compile(r"<(?:!doctype|html|\?xml)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE)


def examine(case: Checkup) -> Iterator[Check]:
    """Run the checks one after another. Raises StoreError if the catalog cannot be read; any other
    error ends its own check, which reports it.
    """
    case.read()
    for name, examination in EXAMINATIONS.items():
        check = checked(name, (_named(sign, case) for sign in examination(case)))
        if check.signs or case.calendar:
            yield check


def _named(sign: Sign, case: Checkup) -> Sign:
    """The sign, with the pipeline's name in the commands of its remedy, if it has another one than
    a command takes by default.
    """
    if case.settings.name == Settings().name:
        return sign
    named = f"`tallyroll --name {case.settings.name} "
    return replace(sign, remedy=sign.remedy.replace("`tallyroll ", named))


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
