"""`make aws-test`: a whole trial in an account for trials, measured, priced, and taken down again.

It deploys a pipeline of its own with windows of a minute, sends events with own ids, packets and
one hot key, waits until every window is archived, proven and dropped, first by scans, then by
DynamoDB's own exports, and compares every count with what was sent.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.table import Table

from release.cdk_command import CommandError
from tallyroll.errors import TallyrollError
from tallyroll.settings import Settings
from trial.account import Account, AccountError
from trial.load import Load, SendingError
from trial.measures import ceiling
from trial.steps import Plan, Step, Trial, TrialError
from trial.teardown import Remover

NAME = "aws-test"
EXPORTERS = ("scan", "native")
HOURS_MOST = 3.0  # what the pipeline costs is computed for
WRITERS = 4  # at once, as the constructs have it
_NAMES = re.compile(rf"{NAME}(?:-[a-z0-9-]{{1,20}})?")
_ENDS_A_TRIAL = (
    *(CommandError, TrialError, SendingError, TallyrollError),
    *(BotoCoreError, ClientError, OSError),
)


def tell(text: str) -> None:
    """Print a line to stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """The command's arguments."""
    parser = argparse.ArgumentParser(prog="python -m trial", description=__doc__)
    add = parser.add_argument
    add("--account", help="the account to run in; it must be the caller's")
    add("--region", help="the Region; by default AWS_REGION's or the profile's")
    add("--name", default=NAME, help=f"the pipeline's name: {NAME}, or {NAME}-...")
    add("--yes", metavar="ACCOUNT", help="go on without asking; the account's id")
    add("--teardown", action="store_true", help="only remove what an earlier trial left")
    add("--keep", action="store_true", help="leave the pipeline there, with all that it costs")
    add("--json", type=Path, default=Path("build/aws-test.json"), help="where results are written")
    add("--exporters", default=",".join(EXPORTERS), help="a round for each: scan,native")
    add("--key", metavar="ARN", default="", help="the KMS key of all that is deployed")
    add("--window-seconds", type=int, default=60, help="length of a window, s")
    add("--singles", type=int, default=20_000, help="events with own ids, and events of a hot key")
    add("--packets", type=int, default=200, help="packets of 500 events")
    add("--seconds", type=float, default=150.0, help="over how long a round's events are sent")
    add("--minutes-most", type=float, default=60.0, help="how long to wait for a round's windows")
    add("--metrics-seconds", type=float, default=240.0, help="how long to wait for metrics")
    options = parser.parse_args(given)
    if not _NAMES.fullmatch(options.name):
        # Everything of this name will be removed.
        parser.error(f"--name {options.name}: a trial's pipeline is named {NAME}, or {NAME}-...")
    if not set(options.exporters.split(",")) <= set(EXPORTERS):
        parser.error(f"--exporters {options.exporters}: scan, native, or both")
    return options


def plan_of(options: argparse.Namespace) -> Plan:
    """What the arguments ask for."""
    load = Load(singles=options.singles, packets=options.packets, seconds=options.seconds)
    exporters = tuple(options.exporters.split(","))
    times = (options.minutes_most, options.metrics_seconds)
    return Plan(options.name, options.window_seconds, load, exporters, *times, options.key)


def confirm(account: Account, given: str | None, what: str) -> None:
    """Ask for the account's id, or take the one that was given. Raises AccountError."""
    tell(what)
    if given is None:
        if not sys.stdin.isatty():
            raise AccountError(f"nobody can be asked here: give --yes {account.id} to go on")
        sys.stderr.write(f"Type the account's id to go on in {account.where}: ")
        sys.stderr.flush()
        given = sys.stdin.readline().strip()
    if given != account.id:
        raise AccountError(f"{given!r} is not {account.id}: nothing was done")


def asked_for(plan: Plan, account: Account) -> str:
    """What a trial will do, and what it costs at the most."""
    settings = Settings(name=plan.name, window_seconds=plan.window_seconds)
    most = ceiling(plan.load, len(plan.exporters), HOURS_MOST, WRITERS, settings)
    return (
        f"This deploys the pipeline {plan.name} to {account.where}, sends {plan.load.events:,}"
        f" events in {plan.load.messages:,} messages for each exporter"
        f" ({', '.join(plan.exporters)}), waits until its windows are dropped, and removes all of"
        f" it again.\nAt us-east-1's prices {HOURS_MOST:g} h cost at most ${most.dollars:.2f}:"
        f" ${most.events:.2f} for events, ${most.hours:.2f} for the running pipeline, and"
        f" ${most.watching:.2f} if CloudWatch's alarms, metrics and dashboard are charged for a"
        f" whole month."
    )


def take_down(remover: Remover) -> int:
    """Remove everything, and say what is left; 1 if something is."""
    tell(Step.REMOVING)
    try:
        try:
            left = remover.run()
        except KeyboardInterrupt:
            tell("interrupted: looking for what is left")
            left = remover.left()
    except (BotoCoreError, ClientError) as error:  # credentials that have expired, for instance
        tell(f"what is left cannot be listed: {error}")
        tell("It costs money. Run `make aws-test ARGS=--teardown` as soon as AWS answers.")
        return 1
    if not left:
        tell("everything was removed")
        return 0
    tell("These are left, and cost money. Remove them, or run `make aws-test ARGS=--teardown`:")
    for one in left:
        tell(f"  {one.what}\n    {one.command}")
    return 1


def show(trial: Trial, console: Console) -> None:
    """Print what a trial found out."""
    table = Table("what", "value", title=f"{trial.plan.name} in {trial.account.where}")
    table.columns[1].justify = "right"
    for one in trial.rounds:
        table.add_section()
        table.add_row(f"{one.exporter}: events sent", f"{sum(one.truth.events.values()):,}")
        table.add_row("messages sent", f"{one.truth.messages:,}")
        table.add_row("events sealed", f"{one.sealed:,}")
        for exporter, windows in one.windows.items():
            table.add_row(f"windows archived by {exporter}", f"{windows:,}")
        for part, seconds in one.seconds.items():
            table.add_row(f"{part}, s", f"{seconds:,.0f}")
    if measured := trial.measured:
        table.add_section()
        table.add_row("messages in a writer's batch, mean", f"{measured.batch_size:,.1f}")
        for name, value in measured.writer.items():
            table.add_row(f"writer: {name}", f"{value:,.0f}")
        for function, series in measured.functions.items():
            figures = f"{series.mean:,.0f} / {series.highest:,.0f} x {series.samples:,.0f}"
            table.add_row(f"{function}: ms, mean / most x invocations", figures)
        table.add_row("write units", f"{sum(measured.write_units.values()):,.0f}")
        table.add_row("read units", f"{sum(measured.read_units.values()):,.0f}")
        table.add_section()
        bill = measured.bill(trial.sent)
        for name, dollars in bill.items():
            table.add_row(f"$ {name}", f"{dollars:.4f}")
        table.add_row("$ in all, without CloudWatch and storage", f"{sum(bill.values()):.4f}")
    console.print(table)
    for watched in measured.without_data if measured else ():
        console.print(f"NO DATA  {watched}")
    for problem in trial.problems:
        console.print(f"PROBLEM  {problem}")
    if trial.compared and not trial.problems:
        events = sum(sum(one.truth.events.values()) for one in trial.rounds)
        console.print(f"EXACT  {events:,} events of {trial.compared:,} keys, all windows dropped")


def attempt(trial: Trial) -> int:
    """Run a trial as far as it goes; its exit status."""
    try:
        trial.run()
    except KeyboardInterrupt:
        tell("interrupted")
        return 130
    except _ENDS_A_TRIAL as error:
        tell(f"{type(error).__name__}: {error}")
        return 1
    unwatched = trial.measured and trial.measured.without_data
    return 1 if trial.problems or unwatched else 0


def main(given: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    options = arguments(given)
    account = Account(options.region or os.environ.get("AWS_REGION"))
    remover = Remover(account, options.name, tell)
    plan = plan_of(options)
    try:
        # For the CDK's command, and for boto3.
        os.environ["AWS_REGION"] = os.environ["AWS_DEFAULT_REGION"] = account.session.region_name
        account.check(options.account, options.name)
        left = remover.left()
        if options.teardown:
            listed = "\n".join(f"  {one.what}" for one in left) or "  nothing"
            confirm(account, options.yes, f"This removes, with all that they hold:\n{listed}")
        elif left:
            raise AccountError(
                f"there is already {left[0].what}: remove what an earlier trial left by"
                " `make aws-test ARGS=--teardown`"
            )
        else:
            confirm(account, options.yes, asked_for(plan, account))
    except (AccountError, BotoCoreError, ClientError) as error:
        tell(str(error))
        return 2
    if options.teardown:
        return take_down(remover)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return tried(account, plan, options, remover)
    finally:
        signal.signal(signal.SIGTERM, before)


def tried(account: Account, plan: Plan, options: argparse.Namespace, remover: Remover) -> int:
    """Make a trial, and remove what it made; the exit status."""
    status = 1
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(account, plan, Path(folder), tell)
        try:
            status = attempt(trial)
            trial.write(options.json)
            show(trial, Console())
        finally:
            if options.keep:
                tell("kept: it costs money until you run `make aws-test ARGS=--teardown`")
            else:
                status = max(status, take_down(remover))
    return status


if __name__ == "__main__":
    sys.exit(main())
