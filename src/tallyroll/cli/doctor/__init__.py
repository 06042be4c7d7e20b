"""`tallyroll doctor` checks a pipeline's invariants, `tallyroll conform` the rules that a DynamoDB
endpoint must keep.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from cyclopts import Parameter

from tallyroll.cli.arguments import BUCKET, Run
from tallyroll.cli.screen import Screen, known, number_of
from tallyroll.errors import StoreError, Unknown
from tallyroll.operations.conform.checks import CHECKS, Checked, Result, conform_to, one_line
from tallyroll.operations.conform.stage import Stage
from tallyroll.operations.doctor.checkup import Check, Level
from tallyroll.operations.doctor.examine import EXAMINATIONS, examine

SIGNS_SHOWN = 10
ALL_WELL, FINDINGS, NOT_CHECKED = 0, 1, 3
_LEVEL_WIDTH = 11


def doctor(*, deep: bool = False, bucket: Annotated[str | None, BUCKET] = None, run: Run) -> int:
    """Check a pipeline's invariants, one line a check, with what to do about what is
    found.

    Checked are: windows that are missing or stuck, tables that are not as declared
    or that no window names, totals against tallies, archives and their proofs,
    queues, dead letters, quotas; on AWS also functions, event source, schedules,
    policies, throttles. It only reads.

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
    return show_checks(examine(run.checkup(bucket, deep=deep)), run.screen, EXAMINATIONS)


def show_checks(found: Iterable[Check], screen: Screen, names: Collection[str]) -> int:
    """Show checks as they come, one line each, and their sum; the exit status. `names` are those of
    all checks.
    """
    checks, width = [], max(map(len, names)) + 1
    for check in found:
        checks.append(check)
        screen.line(check_json(check), "\n".join(_lines(check, width)))
        sys.stdout.flush()
    screen.tell(_summary(checks))
    levels = {check.level for check in checks}
    if Level.FINDING in levels:
        return FINDINGS
    return NOT_CHECKED if Level.UNCHECKED in levels else ALL_WELL


def check_json(check: Check) -> dict[str, Any]:
    """A check as JSON, with every sign that is not fine."""
    signs = [
        known(level=sign.level.word, text=sign.text, remedy=sign.remedy, window=sign.window)
        for sign in check.bad
    ]
    return {"check": check.name, "level": check.level.word, "text": check.text, "signs": signs}


def _lines(check: Check, width: int) -> list[str]:
    """One line for a check; under it what to do, and its other signs."""
    begin = f"{check.level.word:<{_LEVEL_WIDTH}}{check.name:<{width}}"
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
    totals = ((len(checks), "check"), (findings, "finding"), (warnings, "warning"))
    text = ", ".join(number_of(count, noun) for count, noun in totals)
    open_ = counts[Level.UNCHECKED]
    return f"{text}, {open_} could not be checked" if open_ else text


def conform(
    *,
    endpoint: Annotated[str, Parameter(metavar="URL")],
    region: Annotated[str | None, Parameter(metavar="REGION")] = None,
    run: Run,
) -> int:
    """Check whether counts are exact on a DynamoDB endpoint.

    That is an emulator, a proxy, a compatible database, or AWS itself. A table of
    its own is made, written to as writers do, from many threads at once, and
    dropped at the end, also after Ctrl-C. No pipeline and no other table is
    touched. It takes up to a minute.

    Region and credentials come from AWS's usual environment. Where it has none,
    and the endpoint is not AWS's, made-up ones are taken.

    A check fails if counts would not be exact there. One that `differs` looks at
    what exactness does not need. A race may need several runs until it shows: a
    pass says that it did not show in this one.

    Exit status:
      0  every check that exactness needs is passed
      1  one of them has failed
      2  wrong use
      3  the endpoint was not reached, or a check could not be carried out

    For example:
      tallyroll conform --endpoint http://localhost:8000

    :param endpoint: the endpoint's address
    :param region: the region; that of the AWS environment if left out
    """
    screen = run.screen
    requests = Counter[str]()

    def observe(operation: str, _ms: float, _code: str | None) -> None:
        requests[operation] += 1

    began = time.monotonic()
    from tallyroll.pipeline import inspection

    stage = inspection.stage(endpoint, region, screen.tell, observe)
    try:
        with screen.progress("checking", len(CHECKS)) as bar, _made(stage, screen, bar):
            found = list(conform_to(stage, lambda number, name: bar(completed=number, done=name)))
    except Unknown as error:
        screen.tell(one_line(error))
        screen.tell(f"Does a DynamoDB endpoint listen at {endpoint}?")
        return NOT_CHECKED
    _show_checked(found, screen)
    failed = sum(checked.result is Result.FAILED for checked in found)
    undecided = sum(checked.result is Result.UNDECIDED for checked in found)
    result = "fails" if failed else "undecided" if undecided else "exact"
    took_s = round(time.monotonic() - began, 1)
    if screen.json:
        screen.emit({"result": result, "requests": requests.total(), "seconds": took_s})
    screen.tell(
        f"{number_of(len(found), 'check')}, {failed} failed, {undecided} undecided;"
        f" {requests.total():,} requests in {took_s:g} s"
    )
    return FINDINGS if failed else NOT_CHECKED if undecided else ALL_WELL


@contextmanager
def _made(stage: Stage, screen: Screen, bar: Callable[..., None]) -> Iterator[None]:
    """A table for the block, dropped however it ends."""
    table = stage.spec.table
    try:
        bar(completed=0, done="making a table")
        stage.make()
        yield
    finally:
        try:
            _drop(stage)
        except StoreError as error:
            screen.tell(f"table {table} may still exist: delete it ({one_line(error)})")


def _drop(stage: Stage) -> None:
    """Drop the table, also if a second Ctrl-C comes meanwhile."""
    try:
        stage.drop()
    except KeyboardInterrupt:
        stage.drop()
        raise


def _show_checked(found: list[Checked], screen: Screen) -> None:
    def as_json(checked: Checked) -> dict[str, Any]:
        return {
            "check": checked.check.name,
            "result": checked.result,
            "needed": checked.check.needed,
            "means": checked.means,
            "seen": checked.seen,
        }

    screen.show(("check", "result", "means"), found, as_json, lambda _: {})
    if not screen.json:
        for checked in found:
            if checked.result is not Result.PASSED:
                screen.tell(f"{checked.check.name}: {checked.seen}")
