"""Whether an earlier pipeline left something behind that has the names of the one to deploy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tallyroll.operations.doctor.checkup import Level, Sign, finding, fine, warning
from tallyroll.operations.doctor.rights import packages_of, scheduled_of
from tallyroll.operations.preflight.case import Preflight
from tallyroll.operations.preflight.stack_calls import sets_log_role
from tallyroll.resources import LOG_ROLE_WRITER, function_name

_AGAIN = ("ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS")  # the CDK's command deletes such a stack


def names(of: Preflight) -> Iterator[Sign]:
    """Nothing of that name is left of an earlier pipeline."""
    if of.deployed:
        yield fine(f"{of.name} is deployed: its names are its own")
        return
    if of.case.deployed is None:
        yield Sign(
            Level.UNCHECKED,
            f"whether {of.name} is deployed is not known",
            "Let this identity call lambda:GetFunctionConfiguration.",
        )
        return
    yield from _stack(of)
    yield from _tables(of)
    for queue in (of.resources.queue.name, of.resources.dead_letters.name):
        if url := of.account.queue_url(queue):
            yield finding(
                f"there is a queue {queue} already: the deployment will fail",
                f"If it is empty: `aws sqs delete-queue --queue-url {url}`, and wait for a minute."
                " Else take it into the stack by `npx cdk import`.",
            )
    ours = {f"/aws/lambda/{function_name(of.name, package)}" for package in _packages(of)}
    groups = {*of.account.log_groups(f"/aws/lambda/{of.name}-")}
    if of.planned.options.api != "none":
        api = f"/aws/vendedlogs/apigateway/{of.name}"
        ours.add(api)
        groups.update(of.account.log_groups(api))
    for group in sorted(groups & ours):
        yield finding(
            f"there is a log group {group} already: the deployment will fail",
            f"`aws logs delete-log-group --log-group-name {group}`",
        )
    yield from _calls(of)
    yield fine(f"names that begin with {of.name}- are free")


def _packages(of: Preflight) -> Sequence[str]:
    """The functions of what is to be deployed."""
    packages = packages_of(of.planned.settings)
    return (*packages, LOG_ROLE_WRITER) if sets_log_role(of.planned) else packages


def _stack(of: Preflight) -> Iterator[Sign]:
    status = of.account.stack_status(of.name)
    if status is None or status in _AGAIN:
        return
    if status.endswith("_IN_PROGRESS"):
        yield warning(f"the stack {of.name} is {status}", "Wait until it is over, and ask again.")
    elif "FAILED" in status:
        yield finding(
            f"the stack {of.name} is {status}",
            f"`aws cloudformation describe-stack-events --stack-name {of.name}` says why. Then"
            f" `aws cloudformation delete-stack --stack-name {of.name}`, which keeps what holds"
            " data.",
        )


def _tables(of: Preflight) -> Iterator[Sign]:
    kept = [declared.name for declared in of.resources.permanent]
    for table in (name for name in kept if name in of.names):
        yield finding(
            f"there is a table {table} already: the deployment will fail",
            "To take it up with what it holds: `npx cdk deploy --import-existing-resources"
            f" -c tallyroll:name={of.name}`. To delete it: `aws dynamodb update-table --table-name"
            f" {table} --no-deletion-protection-enabled`, then `aws dynamodb delete-table"
            f" --table-name {table}`.",
        )
    if of.windows and kept[0] not in of.names:
        yield finding(
            f"there are {len(of.windows):,} window tables without a catalog, {of.windows[0]} for"
            " one: a window of an hour that has such a table will not open",
            f"If nobody needs them: `tallyroll --name {of.name} teardown --force`.",
        )


def _calls(of: Preflight) -> Iterator[Sign]:
    """Functions and schedules that another hand made, since there is no roller."""
    stack = of.case.stack
    assert stack
    for package in _packages(of):
        if card := stack.function(package):
            yield finding(
                f"there is a function {card.name} already: the deployment will fail",
                f"`aws lambda delete-function --function-name {card.name}`, if nobody needs it.",
            )
    for package in scheduled_of(of.planned.settings):
        if schedule := stack.schedule(package):
            yield finding(
                f"there is a schedule {schedule.name} already: the deployment will fail",
                f"`aws scheduler delete-schedule --name {schedule.name}`, if nobody needs it.",
            )
