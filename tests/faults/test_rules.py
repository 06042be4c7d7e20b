"""The table of what can happen agrees with AWS's own models, and every cell has an answer."""

from __future__ import annotations

from functools import cache

import pytest
from botocore.model import OperationModel, StructureShape
from botocore.session import Session

from tests.faults import wire
from tests.faults.answers import ANSWERS
from tests.faults.kinds import MEANING, RULES, WRITES, Kind

SERVICES = ("dynamodb", "sqs", "s3", "cloudwatch", "lambda", "service-quotas")
PARTS_UNDONE = {"UnprocessedKeys", "UnprocessedItems", "Failed"}
MORE_TO_COME = {"LastEvaluatedKey", "LastEvaluatedTableName", "IsTruncated"}


@cache
def model_of(operation: str) -> OperationModel:
    """AWS's model of an operation, as botocore carries it."""
    session = Session()
    for service in SERVICES:
        model = session.get_service_model(service)
        if operation in model.operation_names:
            return model.operation_model(operation)
    raise AssertionError(f"no service has the operation {operation}")


def errors_of(operation: str) -> set[str]:
    return {shape.name for shape in model_of(operation).error_shapes}


def answers_with(operation: str, members: set[str]) -> bool:
    output = model_of(operation).output_shape
    return isinstance(output, StructureShape) and bool(members & set(output.members))


@pytest.mark.parametrize("operation", RULES)
def test_the_rules_agree_with_the_models_of_aws(operation: str) -> None:
    by_model = {
        Kind.UNPROCESSED: answers_with(operation, PARTS_UNDONE),
        Kind.TRUNCATED: answers_with(operation, MORE_TO_COME),
        Kind.BROKEN_BODY: model_of(operation).has_streaming_output,
        Kind.IN_USE: "ResourceInUseException" in errors_of(operation),
        Kind.CONFLICT: "TransactionConflictException" in errors_of(operation),
        Kind.ELEMENT_CONFLICT: "TransactionCanceledException" in errors_of(operation),
        Kind.ELEMENT_THROTTLED: "TransactionCanceledException" in errors_of(operation),
        Kind.CHANGING: operation == "DescribeTable",
        Kind.NOT_SEEN_YET: operation == "DescribeTable",
    }
    assert {kind: kind in RULES[operation] for kind in by_model} == by_model


@pytest.mark.parametrize("operation", RULES)
def test_every_call_can_be_lost_refused_and_slow(operation: str) -> None:
    assert {Kind.NOT_ARRIVED, Kind.REPLY_LOST, Kind.RESET} <= set(RULES[operation])
    assert {Kind.ERROR, Kind.ERROR_APPLIED, Kind.THROTTLED, Kind.SLOW} <= set(RULES[operation])


def test_throttles_of_data_are_those_that_the_model_names() -> None:
    for operation in RULES.keys() - wire.CONTROL_PLANE:
        if model_of(operation).service_model.service_name == "dynamodb":
            assert {code for _, code, _ in wire.THROTTLES["dynamodb"]} <= errors_of(operation)


def test_tags_and_tables_change_by_calls_that_write() -> None:
    assert RULES.keys() >= WRITES
    silent = {"ChangeMessageVisibilityBatch"}  # it changes when, not what
    reads = ("Get", "BatchGet", "Describe", "List", "Query", "Receive", "Scan")
    assert {name for name in RULES if not name.startswith(reads)} - silent == WRITES


@pytest.mark.parametrize("operation", RULES)
def test_every_kind_at_every_operation_has_one_answer(operation: str) -> None:
    answered = [kind for kinds, _ in ANSWERS[operation] for kind in kinds]
    assert sorted(answered) == sorted(RULES[operation])


def test_every_kind_happens_somewhere_and_means_something() -> None:
    assert {kind for kinds in RULES.values() for kind in kinds} == set(Kind) == MEANING.keys()
    assert RULES.keys() == ANSWERS.keys()
