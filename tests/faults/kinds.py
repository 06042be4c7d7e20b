"""What can go wrong at which operation of AWS: the one table.

Sources: the "Errors" sections of the Amazon DynamoDB, Amazon SQS, Amazon S3 and Amazon CloudWatch
API References, with their "Common Errors"; DynamoDB Developer Guide, "Error handling with
DynamoDB", "Amazon DynamoDB Transactions: How it works" and "Throttling diagnosis"; DynamoDB API
Reference, DescribeTable (eventually consistent after CreateTable), BatchGetItem (UnprocessedKeys),
Query and Scan (LastEvaluatedKey); Amazon SQS API Reference, SendMessageBatch (`Failed`); Amazon S3
API Reference, ListObjectsV2 (IsTruncated). `test_rules` compares it with botocore's service models.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Kind(StrEnum):
    """A way in which a call can fail or be answered other than hoped for."""

    NOT_ARRIVED = "not arrived"
    REPLY_LOST = "reply lost"
    RESET = "reset"
    ERROR = "500"
    ERROR_APPLIED = "500 applied"
    THROTTLED = "throttled"
    SLOW = "slow"
    CONFLICT = "conflict"
    ELEMENT_CONFLICT = "element conflict"
    ELEMENT_THROTTLED = "element throttled"
    UNPROCESSED = "unprocessed"
    TRUNCATED = "truncated"
    BROKEN_BODY = "broken body"
    IN_USE = "in use"
    CHANGING = "changing"
    NOT_SEEN_YET = "not seen yet"


MEANING: Mapping[Kind, str] = {
    Kind.NOT_ARRIVED: "no connection, or none in time: the call did not reach the service",
    Kind.REPLY_LOST: "carried out, and no reply within the read timeout",
    Kind.RESET: "the connection breaks: carried out or not",
    Kind.ERROR: "HTTP 500 or 503, not carried out",
    Kind.ERROR_APPLIED: "HTTP 500, and yet carried out",
    Kind.THROTTLED: "refused for load, with the service's own code and reasons",
    Kind.SLOW: "the reply takes nearly as long as the read timeout",
    Kind.CONFLICT: "refused for another transaction on the same item",
    Kind.ELEMENT_CONFLICT: "cancelled for conflicts at some actions, named in request order",
    Kind.ELEMENT_THROTTLED: "cancelled for a throttle at one action",
    Kind.UNPROCESSED: "a part of the batch is handed back undone",
    Kind.TRUNCATED: "the listing comes page by page, pages may be empty",
    Kind.BROKEN_BODY: "the body ends early, or its connection breaks",
    Kind.IN_USE: "the table is being changed, or another run made it first",
    Kind.CHANGING: "the table is not active",
    Kind.NOT_SEEN_YET: "a table that was just made is not found yet",
}

_TRANSPORT = (
    Kind.NOT_ARRIVED,
    Kind.REPLY_LOST,
    Kind.RESET,
    Kind.ERROR,
    Kind.ERROR_APPLIED,
    Kind.THROTTLED,
    Kind.SLOW,
)
_ELEMENTS = (Kind.ELEMENT_CONFLICT, Kind.ELEMENT_THROTTLED)

RULES: Mapping[str, tuple[Kind, ...]] = {
    "AbortMultipartUpload": _TRANSPORT,
    "BatchGetItem": (*_TRANSPORT, Kind.UNPROCESSED),
    "BatchWriteItem": (*_TRANSPORT, Kind.UNPROCESSED),
    "ChangeMessageVisibilityBatch": (*_TRANSPORT, Kind.UNPROCESSED),
    "CompleteMultipartUpload": _TRANSPORT,
    "CreateMultipartUpload": _TRANSPORT,
    "CreateTable": (*_TRANSPORT, Kind.IN_USE),
    "DeleteItem": (*_TRANSPORT, Kind.CONFLICT),
    "DeleteObject": _TRANSPORT,
    "DeleteMessageBatch": (*_TRANSPORT, Kind.UNPROCESSED),
    "DeleteTable": (*_TRANSPORT, Kind.IN_USE),
    "DescribeContinuousBackups": _TRANSPORT,
    "DescribeExport": _TRANSPORT,
    "DescribeImport": _TRANSPORT,
    "DescribeTable": (*_TRANSPORT, Kind.CHANGING, Kind.NOT_SEEN_YET),
    "DescribeTimeToLive": _TRANSPORT,
    "GetFunctionConfiguration": _TRANSPORT,
    "ExportTableToPointInTime": _TRANSPORT,
    "GetItem": _TRANSPORT,
    "GetMetricStatistics": _TRANSPORT,
    "GetObject": (*_TRANSPORT, Kind.BROKEN_BODY),
    "GetQueueAttributes": _TRANSPORT,
    "GetQueueUrl": _TRANSPORT,
    "GetServiceQuota": _TRANSPORT,
    "ImportTable": (*_TRANSPORT, Kind.IN_USE),
    "ListEventSourceMappings": _TRANSPORT,
    "ListObjectsV2": (*_TRANSPORT, Kind.TRUNCATED),
    "ListTables": (*_TRANSPORT, Kind.TRUNCATED),
    "ListTagsOfResource": _TRANSPORT,
    "PutItem": (*_TRANSPORT, Kind.CONFLICT),
    "PutObject": _TRANSPORT,
    "PutObjectTagging": _TRANSPORT,
    "Query": (*_TRANSPORT, Kind.TRUNCATED),
    "ReceiveMessage": _TRANSPORT,
    "Scan": (*_TRANSPORT, Kind.TRUNCATED),
    "SendMessageBatch": (*_TRANSPORT, Kind.UNPROCESSED),
    "TagResource": (*_TRANSPORT, Kind.IN_USE),
    "TransactWriteItems": (*_TRANSPORT, *_ELEMENTS),
    "UpdateContinuousBackups": _TRANSPORT,
    "UpdateContributorInsights": _TRANSPORT,
    "UpdateItem": (*_TRANSPORT, Kind.CONFLICT),
    "UpdateTable": (*_TRANSPORT, Kind.IN_USE),
    "UploadPart": _TRANSPORT,
}
"""The kinds that can happen at each operation that the core calls."""


def kinds_of(operation: str) -> tuple[Kind, ...]:
    """What can happen at an operation; nothing if there are no rules, which the matrix tells."""
    return RULES.get(operation, ())


IMPOSSIBLE: Mapping[tuple[str, str, Kind], str] = {
    ("adapters/dynamodb/exports.py", "DynamoExports.start", Kind.NOT_SEEN_YET): (
        "its table was made days before"
    )
}
"""What the rules of an operation allow and one place can never meet: file, function, kind, why."""

WRITES = frozenset(
    {
        "AbortMultipartUpload",
        "BatchWriteItem",
        "CompleteMultipartUpload",
        "CreateMultipartUpload",
        "CreateTable",
        "DeleteItem",
        "DeleteMessageBatch",
        "DeleteObject",
        "DeleteTable",
        "ExportTableToPointInTime",
        "ImportTable",
        "PutItem",
        "PutObject",
        "PutObjectTagging",
        "SendMessageBatch",
        "TagResource",
        "TransactWriteItems",
        "UpdateContinuousBackups",
        "UpdateContributorInsights",
        "UpdateItem",
        "UpdateTable",
        "UploadPart",
    }
)
"""The operations after which an engine holds something else than before."""
