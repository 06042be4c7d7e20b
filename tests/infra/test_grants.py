"""What an operator is granted is what the command calls."""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.build.asset import function_code
from tallyroll.cdk.options import Options
from tests.infra.calls import REDRIVE, Call, Trace
from tests.infra.conftest import Built
from tests.infra.grants import Grants, label, needed
from tests.infra.templates import actions, of_type, resource

if TYPE_CHECKING:
    import aws_cdk as cdk


@pytest.fixture(scope="module")
def traced() -> Trace:
    """What `tallyroll dlq redrive` may call."""
    return Trace(REDRIVE)


def granted(built: Built) -> Grants:
    """What `grant_redrive` allows a user."""
    from aws_cdk import aws_iam as iam

    from tallyroll.cdk.pipeline import Tallyroll

    def build(stack: cdk.Stack) -> None:
        Tallyroll(stack, "Counter", options=Options(), code=function_code()).grant_redrive(
            iam.User(stack, "Operator")
        )

    template = built(build)
    [policy] = of_type(template, "AWS::IAM::Policy").values()
    return {
        (label(template, resource(statement)), action)
        for statement in policy["PolicyDocument"]["Statement"]
        for action in actions(statement)
    }


def test_an_operator_is_granted_what_a_redrive_calls_and_nothing_else(
    built: Built, traced: Trace
) -> None:
    wanted = set[tuple[str, str]]().union(*map(needed, traced.calls))

    found = granted(built)

    assert sorted(found - wanted) == [], "granted, but never called"
    assert sorted(wanted - found) == [], "called, but not granted"


def test_the_trace_sees_all_of_a_redrive(traced: Trace) -> None:
    assert traced.unclear == set()
    assert len(traced.calls) == 12
    letters = "adapters.aws.dead_letters.SqsDeadLetters"
    for call in (
        Call("SendMessageBatch", "adapters.aws.sqs", letters),
        Call("GetObject", "adapters.aws.s3", "adapters.aws.s3.S3Bucket"),
        Call("PutItem", "adapters.dynamodb.ledger", "adapters.dynamodb.catalog.DynamoCatalog"),
    ):
        assert call in traced.calls
