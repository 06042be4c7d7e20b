"""`tallyroll doctor`: a pipeline's invariants, checked one by one."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated, Any

from tallyroll.cli.arguments import BUCKET, Run
from tallyroll.cli.screen import known, number_of
from tallyroll.operations.doctor.checkup import Check, Level
from tallyroll.operations.doctor.examine import examine

SIGNS_SHOWN = 10
ALL_WELL, FINDINGS, NOT_CHECKED = 0, 1, 3
_LEVEL_WIDTH, _NAME_WIDTH = 11, 14


def doctor(
    *,
    deep: bool = False,
    bucket: Annotated[str | None, BUCKET] = None,
    run: Run,
) -> int:
    """Check a pipeline's invariants, one line a check, with what to do about what is
    found.

    Checked are: windows that are missing or stuck, tables that are not as declared
    or that no window names, totals against tallies, archives and their proofs,
    queues, dead letters, quotas. It only reads.

    Whether something is late or too much depends on the deployment's settings:
    they are read from the roller's function where there is one, else this
    environment's hold.

    Exit status:
      0  all is well, or there are warnings only
      1  there are findings
      2  wrong use
      3  something could not be checked

    For example:
      tallyroll doctor
      tallyroll doctor --deep --json    every tally, total and archive is read

    :param deep: read all tallies, totals and archives, not a sample
    """
    checks, screen = [], run.screen
    case = run.checkup(bucket, deep=deep)
    for check in examine(case):
        checks.append(check)
        screen.line(_json(check), "\n".join(_lines(check)))
        sys.stdout.flush()
    screen.tell(_summary(checks))
    levels = {check.level for check in checks}
    if Level.FINDING in levels:
        return FINDINGS
    return NOT_CHECKED if Level.UNCHECKED in levels else ALL_WELL


def _json(check: Check) -> dict[str, Any]:
    """A check as JSON, with every sign that is not fine."""
    signs = [
        known(level=sign.level.word, text=sign.text, remedy=sign.remedy, window=sign.window)
        for sign in check.bad
    ]
    return {"check": check.name, "level": check.level.word, "text": check.text, "signs": signs}


def _lines(check: Check) -> list[str]:
    """One line for a check; under it what to do, and its other signs."""
    begin = f"{check.level.word:<{_LEVEL_WIDTH}}{check.name:<{_NAME_WIDTH}}"
    lines = [f"{begin}{check.text}"]
    said = ""
    for number, sign in enumerate(check.bad[:SIGNS_SHOWN]):
        if number:
            lines.append(f"{'':<{_LEVEL_WIDTH}}{sign.level.word}: {sign.text}")
        if sign.remedy and sign.remedy != said:
            lines.append(f"{'':<{_LEVEL_WIDTH}}remedy: {sign.remedy}")
            said = sign.remedy
    if len(check.bad) > SIGNS_SHOWN:
        lines.append(f"{'':<{_LEVEL_WIDTH}}and {len(check.bad) - SIGNS_SHOWN:,} more (--json)")
    return lines


def _summary(checks: list[Check]) -> str:
    counts = Counter(sign.level for check in checks for sign in check.bad)
    findings, warnings = counts[Level.FINDING], counts[Level.WARNING]
    told = ((len(checks), "check"), (findings, "finding"), (warnings, "warning"))
    text = ", ".join(number_of(count, noun) for count, noun in told)
    open_ = counts[Level.UNCHECKED]
    return f"{text}, {open_} could not be checked" if open_ else text
