"""Whether CloudFormation can make a budget in this Region."""

from __future__ import annotations

from collections.abc import Iterator

from tallyroll.operations.doctor.checkup import Sign, fine, warning
from tallyroll.operations.preflight.case import Preflight
from tallyroll.operations.preflight.stack_calls import has_budget

# Regions whose CloudFormation has no AWS::Budgets::Budget, by its published resource schemas (as
# cfn-lint has them). Some of them have no AWS::CE::AnomalyMonitor either.
WITHOUT = frozenset(
    [
        "af-south-1",
        "ap-east-1",
        "ap-east-2",
        "ap-northeast-3",
        "ap-south-2",
        "ap-southeast-3",
        "ap-southeast-4",
        "ap-southeast-5",
        "ap-southeast-6",
        "ap-southeast-7",
        "ca-west-1",
        "eu-central-2",
        "eu-north-1",
        "eu-south-1",
        "eu-south-2",
        "il-central-1",
        "me-central-1",
        "mx-central-1",
        "us-gov-east-1",
        "us-gov-west-1",
    ]
)


def budget(of: Preflight) -> Iterator[Sign]:
    """CloudFormation has the types of a budget, if one is asked for."""
    if not has_budget(of.planned):
        yield fine("no budget is asked for")
        return
    region = of.identity.region
    if region in WITHOUT:
        yield warning(
            f"CloudFormation has no budgets in {region}: it will refuse the deployment",
            "Leave tallyroll:budget out, and make the budget in the console; or ask whether there"
            " are some by now: `aws cloudformation describe-type --type RESOURCE --type-name"
            " AWS::Budgets::Budget`.",
        )
    yield fine(f"CloudFormation has budgets in {region}")
