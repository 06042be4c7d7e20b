"""What each function's role must allow: the calls without a condition in its policy.

`tests/infra` compares this with the policies that the CDK constructs give the roles. Calls that
they allow only with a condition, such as dropping proven tables, a simulation cannot decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.settings import Settings

SCHEDULED = ("roller", "cleanup", "dropper")
"""The functions that run on a schedule."""

NEWEST = "dropper"
"""The function that deployments of older releases lack, with its schedule."""

WINDOWS, CATALOG, TOTALS = "windows", "catalog", "totals"
IDENTITIES = "identities"
QUEUE, DEAD_LETTERS, ARCHIVES, BUCKET = "queue", "dead letters", "archives", "bucket"
_READS = ("dynamodb:BatchGetItem", "dynamodb:Query")
RIGHTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "writer": {
        WINDOWS: ("dynamodb:BatchGetItem", "dynamodb:ConditionCheckItem", "dynamodb:GetItem"),
        CATALOG: ("dynamodb:BatchGetItem", "dynamodb:GetItem"),
        IDENTITIES: ("dynamodb:BatchGetItem",),
        QUEUE: ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"),
        DEAD_LETTERS: ("sqs:SendMessage",),
    },
    "aggregator": {
        WINDOWS: _READS,
        CATALOG: _READS,
        TOTALS: _READS,
        IDENTITIES: ("dynamodb:BatchGetItem",),
    },
    "roller": {
        WINDOWS: ("dynamodb:CreateTable", "dynamodb:PutItem", "dynamodb:Query"),
        CATALOG: ("dynamodb:PutItem", "dynamodb:Query"),
        TOTALS: ("dynamodb:PutItem",),
        QUEUE: ("sqs:GetQueueAttributes",),
    },
    "cleanup": {
        WINDOWS: ("dynamodb:Scan",),
        CATALOG: ("dynamodb:GetItem", "dynamodb:Query"),
        ARCHIVES: ("s3:GetObject", "s3:PutObject"),
        BUCKET: ("s3:ListBucket",),
    },
    "dropper": {
        WINDOWS: ("dynamodb:DescribeTable",),
        CATALOG: ("dynamodb:GetItem", "dynamodb:Query"),
        ARCHIVES: ("s3:GetObject",),
        BUCKET: ("s3:ListBucket",),
    },
}
"""The actions by function and resource."""

PACKAGES = tuple(RIGHTS)
"""The functions of every pipeline."""

COMPACTOR = "compactor"
"""The function of a pipeline whose archives are made as Parquet."""

OF_COMPACTOR = {
    CATALOG: ("dynamodb:GetItem",),
    ARCHIVES: ("s3:GetObject",),
    BUCKET: ("s3:ListBucket",),
}


def packages_of(settings: Settings) -> tuple[str, ...]:
    """The functions of a pipeline."""
    return (*PACKAGES, *_more(settings))


def scheduled_of(settings: Settings) -> tuple[str, ...]:
    """Those that run on a schedule."""
    return (*SCHEDULED, *_more(settings))


def _more(settings: Settings) -> tuple[str, ...]:
    return (COMPACTOR,) if settings.compacts else ()


def rights_of(case: Checkup) -> dict[str, dict[str, Sequence[str]]]:
    """The same with the ARNs of this pipeline's resources, as far as they are known."""
    arns = _arns(case)
    rights = {**RIGHTS, COMPACTOR: OF_COMPACTOR}
    return {
        package: {arns[what]: some for what, some in rights[package].items() if arns.get(what)}
        for package in packages_of(case.settings)
    }


def _arns(case: Checkup) -> dict[str, str]:
    names = case.resources
    arns: dict[str, str] = {}
    card = case.tables.card(names.catalog.name)
    if card and card.arn:
        tables, _, _ = card.arn.rpartition("/")
        arns[CATALOG] = card.arn
        arns[TOTALS] = f"{tables}/{names.totals.name}"
        if names.identities:
            arns[IDENTITIES] = f"{tables}/{names.identities.name}"
        # Any window's table: the policies name the pattern of window ids.
        arns[WINDOWS] = f"{tables}/{names.windows.name}20000101T000000Z"
        partition = card.arn.split(":")[1]
        if case.settings.bucket:
            arns[BUCKET] = f"arn:{partition}:s3:::{case.settings.bucket}"
            arns[ARCHIVES] = f"{arns[BUCKET]}/archive/{case.settings.name}/window"
    for what, url in (
        (QUEUE, case.settings.queue_url),
        (DEAD_LETTERS, case.settings.dead_letters_url),
    ):
        if case.stack and url:
            arns[what] = case.stack.queue_rules(url).arn
    return arns
