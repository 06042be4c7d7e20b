"""`tallyroll teardown`: the window tables that outlive the stack, taken down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import asdict, replace
from typing import Annotated

from cyclopts import Parameter

from tallyroll.cli.arguments import BUCKET, DURATION, Run
from tallyroll.cli.screen import Screen, some
from tallyroll.errors import UsageError
from tallyroll.lifecycle.health import HOUR_MS
from tallyroll.model.formats.references import PAYLOADS_PREFIX
from tallyroll.model.states import Status
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.operations.teardown import (
    Deleted,
    Inventory,
    TeardownProgress,
    delete,
    inventory,
    waits,
    without_table,
)
from tallyroll.resources import identities_table

SHOWN = 5
_DENIED = (
    "Denied: this identity, or a policy above it, may delete no window table without the tag"
    " `proven`, which only cleanup sets. Take the tables down with --export, which proves them; or"
    " use an identity to which that policy does not apply (an administrator's, not the functions')."
    " Tables that were made with tallyroll:deny_drops have the policy themselves; `aws dynamodb"
    " delete-resource-policy --resource-arn ARN` takes it off one."
)
_DENIED_PROVEN = (
    "Denied: a policy that lets tagged tables only be deleted has to see the tag `proven`, which"
    " takes attribute-based access control for DynamoDB in this account; or this identity lacks a"
    " permission of the functions' roles (tallyroll/cdk/permissions.py)."
)


def teardown(
    *,
    export: bool = False,
    force: bool = False,
    dry_run: bool = False,
    yes: Annotated[str | None, Parameter(metavar="NAME")] = None,
    schedules_off: bool = False,
    timeout: Annotated[int, DURATION] = 24 * HOUR_MS,
    bucket: Annotated[str | None, BUCKET] = None,
    run: Run,
) -> int:
    """Take down the window tables, which outlive the stack.

    Run it again to go on with what an interruption left.

    --export closes all windows at once, however young, then seals, archives,
    proves and drops them, by what roller, cleanup and dropper do. Nothing is
    dropped unproven. The queue must be empty. --force deletes the tables as they
    are, after listing what is lost, and after the pipeline's name was typed. Only
    tables of this pipeline's name and tag, or named by its catalog, are touched.
    Permanent tables and the bucket are never touched: the end says how to remove
    them.

    The exit status is 0 if no table is left, 1 if some are.

    For example:
      tallyroll --name votes teardown --export --dry-run
      tallyroll --name votes teardown --force --yes votes

    :param export: archive, prove, then drop
    :param force: delete unproven: events are lost
    :param dry_run: say what would be done and lost, do nothing
    :param yes: the pipeline's name, instead of typing it
    :param schedules_off: the stack is still there, and its schedules are disabled
    :param timeout: with --export: go on no longer than that (24h by default)
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
    screen.show(
        ("window", "state", "events"),
        alive,
        lambda window: {"window": window.id, "table": window.table, "state": window.status},
        lambda window: {"events": window.events},
    )
    lost = without_table(case, alive)
    for window_id, why in lost.items():
        screen.tell(f"{window_id} cannot be archived: {why}")
    if dry_run:
        number = len(alive) - len(lost)
        screen.tell(f"{number} windows would be closed, archived, proven and dropped")
        return 0
    if len(alive) > len(lost):
        if case.queue and waits(case.queue, case.effects):  # else it went with the stack
            screen.tell(
                "the event queue holds messages, which would never be counted: let the writers"
                " count them first, or purge the queue"
                f" (`aws sqs purge-queue --queue-url {case.settings.queue_url or 'QUEUE_URL'}`)"
            )
            return 1
        _confirm(case, yes, "all windows are closed: they take no more events", screen)
    last = _carry(case, timeout_ms, run, lost)
    stay = [window for window in alive if window.id in lost]
    for window in (*stay, *last.left):
        problem = lost.get(window.id, window.attempt.problem)
        if screen.json:
            screen.emit({"window": window.id, "state": window.status, "problem": problem or None})
        else:
            screen.tell(f"{window.id} is left, {window.status}: {problem or 'not through'}")
    if any("AccessDenied" in problem for problem in last.problems):
        screen.tell(_DENIED_PROVEN)
    strays = inventory(replace(case))  # nothing of what was read before
    if strays.losses and not last.left:
        names = some([loss.table for loss in strays.losses])
        screen.tell(f"tables that no living window names: {names}; --force deletes them")
    _tell_spared(strays, screen)
    if lost and not (last.left or strays.losses):
        screen.tell("the other windows are finished; tallyroll doctor says how to restore a table")
        return 1
    return _ended(case, screen, left=bool(last.left or strays.losses))


def _carry(case: Checkup, timeout_ms: int, run: Run, lost: Container[str]) -> TeardownProgress:
    teardown, screen = run.pipeline(case.settings).teardown(), run.screen
    seen: set[str] = set()
    most = 0
    with screen.progress("taking down") as bar:

        def on_progress(progress: TeardownProgress) -> None:
            nonlocal most
            left = len(progress.left)
            most = max(most, left)
            counts = Counter(window.status for window in progress.left)
            done = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
            bar(total=most, completed=most - left, done=done)
            for problem in progress.problems:
                if problem not in seen:
                    seen.add(problem)
                    screen.tell(problem)

        return teardown.run(timeout_ms, on_progress, lost)


def _force(case: Checkup, screen: Screen, yes: str | None, *, dry_run: bool) -> int:
    found = inventory(case)
    _show(found, screen)
    _tell_spared(found, screen)
    if not found.losses:
        screen.tell(f"no window table of {case.settings.name!r} is left")
        return _ended(case, screen, left=False)
    if dry_run:
        return 0
    lost = [loss for loss in found.losses if not loss.archived]
    _confirm(case, yes, f"{len(lost)} tables are deleted unproven: their events are lost", screen)
    tables = [loss.table for loss in found.losses]
    with screen.progress("deleting", len(tables)) as bar:

        def report(done: Deleted) -> None:
            bar(completed=len(done.gone), done=f"{len(done.gone)} tables")

        done = delete(case, tables, report)
    screen.tell(f"{len(done.gone)} tables deleted")
    for table, why in list(done.refused.items())[:SHOWN]:
        screen.tell(f"{table} is left: {why}")
    if any("AccessDenied" in why for why in done.refused.values()):
        screen.tell(_DENIED)
    if done.left:
        screen.tell(f"not gone in time: {some(done.left)}")
    return _ended(case, screen, left=bool(done.refused or done.left))


def _confirm(case: Checkup, given: str | None, what: str, screen: Screen) -> None:
    """Raise UsageError unless the pipeline's name is given or typed."""
    name = case.settings.name
    if given is None:
        question = f"tallyroll: {what}. Type the pipeline's name to go on: "
        given = screen.ask(question, f"give --yes {name}, or --dry-run")
    if given != name:
        raise UsageError(f"{given!r} is not the pipeline's name, {name!r}: nothing was done")


def _show(found: Inventory, screen: Screen) -> None:
    screen.show(
        ("table", "state", "events", "lost"),
        found.losses,
        asdict,
        lambda loss: {
            "events": "?" if loss.events is None else loss.events,
            "lost": "nothing: archived" if loss.archived else "records",
        },
    )
    if screen.json or not found.losses:
        return
    unproven = [loss for loss in found.losses if not loss.archived]
    events = sum(loss.events or 0 for loss in unproven)
    unknown = sum(loss.events is None for loss in unproven)
    more = f", and those of {unknown} tables whose number is not known" if unknown else ""
    screen.tell(f"{len(unproven)} windows with {events:,} events{more} are in no archive")


def _tell_spared(found: Inventory, screen: Screen) -> None:
    for table, why in found.spared.items():
        screen.tell(f"{table} is not touched: {why}")


def _ended(case: Checkup, screen: Screen, *, left: bool) -> int:
    """Tell how to go on, or what stays if no window table is left; the exit status."""
    if left:
        screen.tell("run it again to go on")
        return 1
    resources = case.resources
    identities = identities_table(resources.name)  # kept, though the settings may have none now
    tables = [resources.totals.name, resources.catalog.name]
    tables += [identities] if identities in case.names else []
    bucket = case.settings.bucket or "BUCKET"
    screen.tell(
        "what stays: the totals, the catalog, the archives, and the uploaded payloads to which they"
        f" refer{', and the table of identities' if identities in tables else ''}. To remove them,"
        " too:"
    )
    for table in tables:
        screen.tell(
            f"  aws dynamodb update-table --table-name {table} --no-deletion-protection-enabled"
        )
        screen.tell(f"  aws dynamodb delete-table --table-name {table}")
    if keyspace := case.settings.window_keyspace:  # with its gates and seals
        screen.tell(f"  aws keyspaces delete-keyspace --keyspace-name {keyspace}")
    for prefix in ("archive", PAYLOADS_PREFIX):
        screen.tell(f"  aws s3 rm --recursive s3://{bucket}/{prefix}/{resources.name}/")
    return 0
