"""`tallyroll windows recompute`: the sums of corrections, anew from the corrections."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from tallyroll.cli.arguments import BUCKET, SINCE, UNTIL, Run
from tallyroll.cli.screen import number_of
from tallyroll.errors import UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.periods import shown_name
from tallyroll.model.totals import Corrections
from tallyroll.operations.deployed import deployed
from tallyroll.operations.retraction.sums import SumsAnew


def recompute(
    *,
    since: Annotated[int, SINCE],
    until: Annotated[int, UNTIL],
    dry_run: bool = False,
    bucket: Annotated[str | None, BUCKET] = None,
    run: Run,
) -> int:
    """Compute the sums of corrections anew, after totals were restored.

    An event that is retracted after its window was sealed has a correction, and
    counts read the corrections' sums. Of each sealed window corrections that only
    the copy beside its archive has are put back; then the sums by window, day and
    month, and those listed, are made those of the corrections. It shows the sums
    that were others. It has a query for each key of each window.

    Stop the writers before (docs/operations.md). If an event is retracted
    meanwhile, it ends, and is to be started again.

    For example:
      tallyroll windows recompute --since 2026-11-20 --until 2026-11-21 --dry-run

    :param dry_run: only say which sums would be changed
    """
    screen = run.screen
    settings = deployed(run.settings, run.pipeline().deployment, screen.tell).settings
    made = run.pipeline(replace(settings, bucket=bucket or settings.bucket))
    first, last = (bound or 0 for bound in run.bounds(made, since, until))
    windows = [each for each in made.catalog.windows(first, last) if each.status.sealed]
    if not windows:
        raise UsageError("no window between these times is sealed: tallyroll windows list")
    if not made.settings.bucket:
        screen.tell("no bucket: what only the copies beside archives have stays missing")
    anew = SumsAnew(made.totals, made.effects, windows, dry_run)
    back = anew.put_back(made.bucket) if made.settings.bucket else 0
    changed = 0
    for each in anew.changes():
        changed += 1
        before, after = _json(each.before), _json(each.after)
        name = shown_name(each.name) if "#" in each.name else each.name
        text = f"{each.key} in {name}: {_text(each.before)}, now {_text(each.after)}"
        screen.line({"key": each.key, "in": name, "before": before, "after": after}, text)
    would = "would be " if dry_run else ""
    screen.tell(
        f"{number_of(len(windows), 'window')}, {number_of(back, 'correction')} put back,"
        f" {number_of(changed, 'sum')} {would}changed"
    )
    return 0


def _json(sums: Corrections) -> dict[str, object]:
    return {"events": sums.n, "sum": format_amount(sums.amount)}


def _text(sums: Corrections) -> str:
    return f"{sums.n:,} events, sum {format_amount(sums.amount)}"
