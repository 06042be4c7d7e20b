"""`tallyroll teardown`: the window tables that outlive the stack, taken down."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from tallyroll.cli.arguments import BUCKET, DURATION, Run
from tallyroll.cli.screen import Screen, some
from tallyroll.errors import UsageError
from tallyroll.lifecycle.overdue import HOUR_MS
from tallyroll.model.states import Status, Window
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.operations.teardown import (
    Deleted,
    Inventory,
    Progress,
    delete,
    inventory,
    waits,
)

SHOWN = 5
_DENIED = (
    "Denied: this identity, or a policy above it, may delete no window table without the tag"
    " `proven`, which only cleanup sets. Take the tables down with --export, which proves them; or"
    " use an identity to which that policy does not apply (an administrator's, not the functions')."
)
_DENIED_PROVEN = (
    "Denied: a policy that lets tagged tables only be deleted has to see the tag `proven`, which"
    " takes attribute-based access control for DynamoDB in this account; or this identity lacks a"
    " permission of the functions' roles (tallyroll/cdk/permissions.py)."
)


def teardown(
    *,
    export: Annotated[bool, Parameter(help="archive, prove, then drop")] = False,
    force: Annotated[bool, Parameter(help="delete unproven: events are lost")] = False,
    dry_run: Annotated[bool, Parameter(help="say what would be done and lost, do nothing")] = False,
    yes: Annotated[
        str | None,
        Parameter(metavar="NAME", help="the pipeline's name, instead of typing it"),
    ] = None,
    schedules_off: Annotated[
        bool, Parameter(help="the stack is still there, and its schedules are disabled")
    ] = False,
    timeout: Annotated[
        int,
        DURATION,
        Parameter(help="with --export: go on no longer than that (24h by default)"),
    ] = 24 * HOUR_MS,
    bucket: Annotated[str | None, BUCKET] = None,
    run: Run,
) -> int:
    """Take down the window tables, which outlive the stack.

    Run it again to go on with what an interruption left.

    --export closes all windows at once, however young, then seals, archives,
    proves and drops them, by what roller and cleanup do. Nothing is dropped
    unproven. The queue must be empty. --force deletes the tables as they are,
    after listing what is lost, and after the pipeline's name was typed. Only
    tables of this pipeline's name and tag, or named by its catalog, are touched.
    Permanent tables and the bucket are never touched: the end says how to remove
    them.

    The exit status is 0 if no table is left, 1 if some are.

    For example:
      tallyroll --name votes teardown --export --dry-run
      tallyroll --name votes teardown --force --yes votes
    """
    if export == force:
        raise UsageError("give either --export or --force\nSee: tallyroll teardown --help")
    case = run.checkup(bucket)
    if case.deployed is not False and not (schedules_off or dry_run):
        there = "is still there" if case.deployed else "may still be there, it could not be seen"
        raise UsageError(
            f"the stack of {case.settings.name!r} {there}: its roller would make the tables again."
            " Destroy it first (`cdk destroy`); or disable its schedules and give --schedules-off"
        )
    if force:
        return _force(case, run.screen, yes, dry_run=dry_run)
    return _export(case, run, yes, timeout, dry_run=dry_run)


def _export(case: Checkup, run: Run, yes: str | None, timeout_ms: int, *, dry_run: bool) -> int:
    screen = run.screen
    if case.bucket is None:
        raise UsageError("no bucket for the archives: give --bucket, or set TALLYROLL_BUCKET")
    case.read()
    alive = [window for window in case.windows.values() if window.status is not Status.DROPPED]
    _show_windows(alive, screen)
    if dry_run:
        screen.tell(f"{len(alive)} windows would be closed, archived, proven and dropped")
        return 0
    if alive:
        if _holds_messages(case, screen):
            return 1
        _confirm(case, yes, "all windows are closed: they take no more events")
    last = _carry(case, timeout_ms, run)
    return _ended(case, last, screen)


def _carry(case: Checkup, timeout_ms: int, run: Run) -> Progress:
    undertaker, screen = run.pipeline(case.settings).undertaker(), run.screen
    told: set[str] = set()
    with screen.progress() as bar:
        task = bar.add_task("taking down", total=None, done="")

        def on_progress(progress: Progress) -> None:
            total = max(bar.tasks[0].total or 0, len(progress.left))
            gone = total - len(progress.left)
            bar.update(task, total=total, completed=gone, done=_states(progress.left))
            for problem in progress.problems:
                if problem not in told:
                    told.add(problem)
                    screen.tell(problem)

        return undertaker.run(timeout_ms, on_progress)


def _holds_messages(case: Checkup, screen: Screen) -> bool:
    if case.queue is None or not waits(case.queue, case.effects):  # None: it went with the stack
        return False
    screen.tell(
        "the event queue holds messages, which would never be counted: let the writers count them"
        " first, or purge the queue (`aws sqs purge-queue`)"
    )
    return True


def _ended(case: Checkup, last: Progress, screen: Screen) -> int:
    for window in last.left:
        problem = window.attempt.problem
        if screen.json:
            screen.emit({"window": window.id, "state": window.status, "problem": problem or None})
        else:
            screen.tell(f"{window.id} is left, {window.status}: {problem or 'not through'}")
    if any("AccessDenied" in problem for problem in last.problems):
        screen.tell(_DENIED_PROVEN)
    strays = _inventory(case)
    if strays.losses and not last.left:
        names = some([loss.table for loss in strays.losses])
        screen.tell(f"tables that no living window names: {names}; --force deletes them")
    _tell_spared(strays, screen)
    if last.left or strays.losses:
        screen.tell("run it again to go on")
        return 1
    _tell_rest(case, screen)
    return 0


def _force(case: Checkup, screen: Screen, yes: str | None, *, dry_run: bool) -> int:
    found = _inventory(case)
    _show_losses(found, screen)
    _tell_spared(found, screen)
    if dry_run or not found.losses:
        if not found.losses:
            screen.tell(f"no window table of {case.settings.name!r} is left")
            _tell_rest(case, screen)
        return 0
    lost = [loss for loss in found.losses if not loss.archived]
    _confirm(case, yes, f"{len(lost)} tables are deleted unproven: their events are lost")
    tables = [loss.table for loss in found.losses]
    with screen.progress() as bar:
        task = bar.add_task("deleting", total=len(tables), done="")

        def told(done: Deleted) -> None:
            bar.update(task, completed=len(done.gone), done=f"{len(done.gone)} tables")

        done = delete(case, tables, told)
    screen.tell(f"{len(done.gone)} tables deleted")
    for table, why in list(done.refused.items())[:SHOWN]:
        screen.tell(f"{table} is left: {why}")
    if any("AccessDenied" in why for why in done.refused.values()):
        screen.tell(_DENIED)
    if done.left:
        screen.tell(f"not gone in time: {some(done.left)}")
    if done.refused or done.left:
        screen.tell("run it again to go on")
        return 1
    _tell_rest(case, screen)
    return 0


def _inventory(case: Checkup) -> Inventory:
    return inventory(replace(case))  # nothing of what was read of it before


def _confirm(case: Checkup, given: str | None, what: str) -> None:
    """Raise UsageError unless the pipeline's name is given or typed."""
    name = case.settings.name
    if given is None:
        if not sys.stdin.isatty():
            raise UsageError(f"nobody can be asked here: give --yes {name}, or --dry-run")
        sys.stderr.write(f"tallyroll: {what}. Type the pipeline's name to go on: ")
        sys.stderr.flush()
        given = sys.stdin.readline().strip()
    if given != name:
        raise UsageError(f"{given!r} is not the pipeline's name, {name!r}: nothing was done")


def _show_windows(windows: Sequence[Window], screen: Screen) -> None:
    if screen.json:
        for window in windows:
            screen.emit({"window": window.id, "table": window.table, "state": window.status})
        return
    if windows:
        rows = [
            (window.id, window.status, "" if window.events is None else f"{window.events:,}")
            for window in windows
        ]
        screen.table(("window", "state", "events"), rows)


def _show_losses(found: Inventory, screen: Screen) -> None:
    if screen.json:
        for loss in found.losses:
            screen.emit(
                {
                    "table": loss.table,
                    "window": loss.window,
                    "state": loss.state,
                    "events": loss.events,
                    "archived": loss.archived,
                }
            )
        return
    if not found.losses:
        return
    rows = [
        (
            loss.table,
            loss.state,
            "?" if loss.events is None else f"{loss.events:,}",
            "nothing: archived" if loss.archived else "records",
        )
        for loss in found.losses
    ]
    screen.table(("table", "state", "events", "lost"), rows)
    unproven = [loss for loss in found.losses if not loss.archived]
    events = sum(loss.events or 0 for loss in unproven)
    unknown = sum(loss.events is None for loss in unproven)
    more = f", and those of {unknown} tables whose number is not known" if unknown else ""
    screen.tell(f"{len(unproven)} windows with {events:,} events{more} are in no archive")


def _tell_spared(found: Inventory, screen: Screen) -> None:
    for table, why in found.spared.items():
        screen.tell(f"{table} is not touched: {why}")


def _tell_rest(case: Checkup, screen: Screen) -> None:
    """What stays, and how to remove it."""
    resources = case.resources
    bucket = case.settings.bucket or "BUCKET"
    screen.tell("what stays: the totals, the catalog, the archives. To remove them, too:")
    for table in (resources.totals.name, resources.catalog.name):
        screen.tell(
            f"  aws dynamodb update-table --table-name {table} --no-deletion-protection-enabled"
        )
        screen.tell(f"  aws dynamodb delete-table --table-name {table}")
    screen.tell(f"  aws s3 rm --recursive s3://{bucket}/archive/{resources.name}/")


def _states(windows: Sequence[Window]) -> str:
    counts = Counter(window.status for window in windows)
    return ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
