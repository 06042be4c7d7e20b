"""The permissions of each function: exactly the calls that it makes, on this pipeline's resources.

DynamoDB has no action for transactions: TransactWriteItems needs those of its parts
(ConditionCheckItem, PutItem, UpdateItem). Source: DynamoDB Developer Guide, "Using IAM with
DynamoDB transactions". That guide does not say which `dynamodb:LeadingKeys` the parts have, so no
transaction depends on them; single writes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs

from tallyroll.adapters.dynamodb.catalog_items import CATALOG_PK, MONTHS_LIKE
from tallyroll.adapters.dynamodb.items import MARKS
from tallyroll.cdk import optional_permissions
from tallyroll.cdk.keyspaces import permissions as keyspaces
from tallyroll.cdk.storage import Storage
from tallyroll.model.dead_letters import REJECTED_PREFIX
from tallyroll.model.formats.references import PAYLOADS_PREFIX
from tallyroll.ports.bucket import PROGRESS
from tallyroll.ports.writer_notes import WRITERS_PK
from tallyroll.resources import PARTITION_KEY, SORT_KEY, TAG_PIPELINE, TAG_PROVEN
from tallyroll.settings import Settings

NOTES = f"*/{PROGRESS}/*"
"""The notes of exports and proofs among a pipeline's archives."""

_IN_TRANSACTION = {
    "ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
}


def of_writer(
    storage: Storage, queue: sqs.IQueue, dead_letters: sqs.IQueue, *, retracts: bool, logs: bool
) -> Sequence[iam.PolicyStatement]:
    """Commit to window tables, put and read identities, read the catalog, record stragglers and hot
    keys there, write and read writers' notes, receive messages (Lambda does, with the writer's
    role), delay and reject them; correct totals where events may be taken back; read logs.
    """
    reads = ["BatchGetItem", "ConditionCheckItem", "GetItem", *["Query"] * logs]
    return [
        # ConditionCheckItem is in transactions only; no `dynamodb:EnclosingOperation` is listed.
        _tables(storage.window_tables_arn, *reads),
        # No single write, which would check no gate. Source: the guide above, example 2.
        _tables(storage.window_tables_arn, "PutItem", "UpdateItem", conditions=_IN_TRANSACTION),
        _tables(storage.catalog.table_arn, "BatchGetItem", "GetItem"),
        # A window's stragglers and hot keys, and until when mappings are settled: no spec, and of a
        # state nothing that decides.
        _items(
            storage,
            "UpdateItem",
            keys=(CATALOG_PK, MONTHS_LIKE),
            attributes=("at", "keys", "mapped_until", "throttled"),
        ),
        _notes(storage, "DeleteItem", "PutItem", "Query", "UpdateItem"),
        *_marks(storage),
        *_identities(storage, "BatchGetItem"),
        *_identities(storage, "PutItem", conditions=_IN_TRANSACTION),  # with its record alone
        *_corrections(storage, "PutItem", "UpdateItem", retracts=retracts),
        _allow(
            queue.queue_arn,
            "sqs:ChangeMessageVisibility",
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:ReceiveMessage",
        ),
        _allow(dead_letters.queue_arn, "sqs:SendMessage"),
        _allow(rejected(storage), "s3:PutObject"),
        *optional_permissions.in_use(
            [storage.key, storage.bucket.encryption_key, dead_letters.encryption_master_key],
            [queue.encryption_master_key],
        ),
        *keyspaces.of_writer(storage.keyspace),
    ]


def of_aggregator(
    storage: Storage, pipeline: str, *, archived: bool
) -> Sequence[iam.PolicyStatement]:
    """Read window tables, catalog, totals and identities; if an option asks for it, archives."""
    return [
        _tables(storage.window_tables_arn, "BatchGetItem", "GetItem", "Query"),
        _tables(storage.catalog.table_arn, "BatchGetItem", "GetItem", "Query"),
        _tables(storage.totals.table_arn, "BatchGetItem", "Query"),
        *_identities(storage, "BatchGetItem"),
        *optional_permissions.to_read_archives(storage, archives(storage, pipeline), archived),
        *keyspaces.of_reader(storage.keyspace),
    ]


def of_roller(
    storage: Storage, queue: sqs.IQueue, settings: Settings
) -> Sequence[iam.PolicyStatement]:
    """Make, check and change window tables, open and shut their gates, read tallies and hot keys,
    put totals, write the catalog, read how far the queue is drained. The settings say which tags
    new tables have, and whether a resource policy.
    """
    # A table with a policy needs both. Source: DynamoDB API Reference, CreateTable.
    with_policy = ["PutResourcePolicy"] if settings.deny_drops else []
    return [
        _tables(
            storage.window_tables_arn,
            "BatchGetItem",
            "CreateTable",
            "DescribeTable",
            "ListTagsOfResource",  # to check that a table is ours
            "PutItem",
            "Query",
            "UpdateContinuousBackups",
            "UpdateItem",
            "UpdateTable",  # capacity, and missing deletion protection
            *with_policy,
        ),
        _tag(storage.window_tables_arn, TAG_PIPELINE, *sorted(settings.tags)),
        _tables(
            storage.catalog.table_arn,
            "BatchGetItem",
            "ConditionCheckItem",  # gates are opened only while the state is `creating`
            "GetItem",
            "PutItem",
            "Query",
            "UpdateItem",
        ),
        _notes(storage, "DeleteItem"),  # old ones
        _tables(storage.totals.table_arn, "PutItem", "Query"),  # queries listings, for roll-ups
        _allow(queue.queue_arn, "sqs:GetQueueAttributes"),
        _allow("*", "cloudwatch:GetMetricStatistics"),  # metrics have no ARN
        *optional_permissions.in_use([storage.key], []),
        *optional_permissions.of_new_tables(storage.key, cdk.Stack.of(storage)),
        *optional_permissions.to_note_throttled_keys(storage, settings),
        *keyspaces.of_roller(storage.keyspace, settings),
    ]


def of_cleanup(storage: Storage, pipeline: str, *, retracts: bool) -> Sequence[iam.PolicyStatement]:
    """Scan window tables or have DynamoDB export them, write and read archives, and tag proven
    tables, but never delete one.
    """
    return [
        _tables(
            storage.window_tables_arn,
            "DescribeContinuousBackups",
            "DescribeTable",
            "ExportTableToPointInTime",
            "ListTagsOfResource",  # to see whether a late roller made a table again
            "Scan",
        ),
        _tables(exports(storage), "DescribeExport"),
        _tag(storage.window_tables_arn, TAG_PROVEN),
        # An explicit denial too, which no other policy of this role can override.
        _deny(storage.window_tables_arn, "DeleteTable"),
        _tables(storage.catalog.table_arn, "BatchGetItem", "GetItem", "Query"),
        _items(storage, "PutItem", keys=(MONTHS_LIKE,)),  # states of windows
        # The listing of corrections, which are copied where events may be taken back.
        _tables(storage.totals.table_arn, "BatchGetItem", *(["Query"] if retracts else [])),
        # What was retracted, of a window that a release without retraction sealed.
        *_corrections(storage, "PutItem", retracts=retracts),
        _allow(
            archives(storage, pipeline),
            "s3:AbortMultipartUpload",
            "s3:GetObject",
            "s3:PutObject",
            "s3:PutObjectAcl",  # DynamoDB's export sets it, with this role
        ),
        # A rule of the bucket deletes what has the tag: nothing but notes may get one.
        _allow(archives(storage, pipeline, NOTES), "s3:PutObjectTagging"),
        _allow(uploads(storage, pipeline), "s3:DeleteObject"),  # of what nothing references
        # No condition on the prefix: S3 reports a missing object as such only to a caller that may
        # list, and the proof must tell it from an object that it may not read.
        _allow(storage.bucket.bucket_arn, "s3:ListBucket"),
        *optional_permissions.in_use([storage.key, storage.bucket.encryption_key], []),
        *keyspaces.of_cleanup(storage.keyspace),
    ]


def of_dropper(storage: Storage, pipeline: str) -> Sequence[iam.PolicyStatement]:
    """Check a proven archive again, and drop the tables that have the tag `proven`; neither set
    that tag nor write an archive.

    Without attribute-based access control for DynamoDB, an account's policies see no tags, and
    nothing is dropped. Source: DynamoDB Developer Guide, "Using attribute-based access control".
    """
    return [
        _tables(storage.window_tables_arn, "DescribeTable", "ListTagsOfResource"),
        _tables(
            storage.window_tables_arn,
            "DeleteTable",
            "UpdateTable",  # lifts the deletion protection
            conditions={"Null": {f"aws:ResourceTag/{TAG_PROVEN}": "false"}},
        ),
        # Explicit denials too, which no other policy of this role can override.
        _deny(
            storage.window_tables_arn,
            "DeleteTable",
            conditions={"Null": {f"aws:ResourceTag/{TAG_PROVEN}": "true"}},
        ),
        _deny(storage.window_tables_arn, "TagResource", "UntagResource"),
        _tables(storage.catalog.table_arn, "GetItem", "Query"),
        _items(storage, "PutItem", keys=(MONTHS_LIKE,)),  # states of windows
        _allow(archives(storage, pipeline), "s3:GetObject"),
        _allow(storage.bucket.bucket_arn, "s3:ListBucket"),
        *optional_permissions.in_use([storage.key], [storage.bucket.encryption_key]),
        *keyspaces.of_dropper(storage.keyspace),
    ]


def of_redriver(
    storage: Storage, queue: sqs.IQueue, dead_letters: sqs.IQueue
) -> Sequence[iam.PolicyStatement]:
    """What `tallyroll dlq` needs: read dead letters and their bodies, windows, records, identities
    and claims, put claims, settle mappings, send letters again, and delete them.
    """
    return [
        _tables(storage.window_tables_arn, "BatchGetItem", "Query"),
        _tables(
            storage.catalog.table_arn, "BatchGetItem", "GetItem", "PutItem", "Query", "UpdateItem"
        ),
        *_identities(storage, "BatchGetItem"),
        _allow(
            dead_letters.queue_arn,
            "sqs:ChangeMessageVisibility",
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:GetQueueUrl",
            "sqs:ReceiveMessage",
        ),
        _allow(queue.queue_arn, "sqs:GetQueueUrl", "sqs:SendMessage"),
        _allow(rejected(storage), "s3:GetObject"),
        *optional_permissions.in_use(
            [storage.key, queue.encryption_master_key, dead_letters.encryption_master_key],
            [storage.bucket.encryption_key],
        ),
        *keyspaces.of_reader(storage.keyspace),
    ]


def of_operator(
    storage: Storage,
    queue: sqs.IQueue,
    dead_letters: sqs.IQueue,
    *,
    settings: Settings,
    functions: Sequence[str],
    roles: Sequence[str],
    schedules: Sequence[str],
    topics: Sequence[str],
) -> Sequence[iam.PolicyStatement]:
    """What the `tallyroll` command needs, except for `preflight`, `teardown`, `archive restore` and
    `conform`, which make and delete tables: besides a redrive's, reads of tables, archives, queues,
    metrics, quotas and policies, and what opens a window. The last four are ARNs of the pipeline's
    functions, their roles, the schedules, and the topics of alarms.
    """
    looked_at = (
        "DescribeContinuousBackups",
        "DescribeTable",
        "GetResourcePolicy",
        "ListTagsOfResource",
    )
    return [
        *of_redriver(storage, queue, dead_letters),
        _tables(storage.window_tables_arn, "GetItem", "Query", "Scan", *looked_at),
        _tables(storage.catalog.table_arn, *looked_at),
        _tables(storage.totals.table_arn, "BatchGetItem", "GetItem", "Query", *looked_at),
        *_identities(storage, "DescribeTimeToLive", *looked_at),
        _tables("*", "ListTables"),  # which has no resource
        _allow(queue.queue_arn, "sqs:GetQueueAttributes"),
        _allow(archives(storage, settings.name), "s3:GetObject"),
        _allow(uploads(storage, settings.name), "s3:GetObject"),
        _allow(storage.bucket.bucket_arn, "s3:GetBucketPolicy", "s3:ListBucket"),
        # Composite alarms are described only to who may describe all. Source: Amazon CloudWatch API
        # Reference, DescribeAlarms.
        _allow("*", "cloudwatch:DescribeAlarms", "cloudwatch:GetMetricStatistics"),
        *(_allow(arn, "sns:ListSubscriptionsByTopic") for arn in topics),
        *(
            _allow(arn, "lambda:GetFunctionConcurrency", "lambda:GetFunctionConfiguration")
            for arn in functions
        ),
        *(_allow(arn, "iam:SimulatePrincipalPolicy") for arn in roles),
        *(_allow(arn, "scheduler:GetSchedule") for arn in schedules),
        # The first has no resource. AWS's own policies allow the second on all quotas.
        _allow("*", "lambda:ListEventSourceMappings", "servicequotas:GetServiceQuota"),
        *optional_permissions.to_read_throttled_keys(storage, settings),
    ]


def rejected(storage: Storage) -> str:
    """The ARN of the rejected bodies in the bucket."""
    return storage.bucket.arn_for_objects(f"{REJECTED_PREFIX}/*")


def archives(storage: Storage, pipeline: str, those: str = "*") -> str:
    """The ARN of a pipeline's archives, or of those objects of them."""
    return storage.bucket.arn_for_objects(f"archive/{pipeline}/{those}")


def uploads(storage: Storage, pipeline: str) -> str:
    """The ARN of the payloads that a pipeline's producers uploaded."""
    return storage.bucket.arn_for_objects(f"{PAYLOADS_PREFIX}/{pipeline}/*")


def of_uploader(storage: Storage, pipeline: str) -> Sequence[iam.PolicyStatement]:
    """What a producer needs to upload payloads that are too large for a message."""
    return [
        _allow(uploads(storage, pipeline), "s3:PutObject"),
        *optional_permissions.in_use([storage.bucket.encryption_key], []),
    ]


def exports(storage: Storage) -> str:
    """The ARN of native exports of window tables."""
    return f"{storage.window_tables_arn}/export/*"


def _tables(
    arn: str, *operations: str, conditions: dict[str, Any] | None = None
) -> iam.PolicyStatement:
    return _allow(arn, *(f"dynamodb:{name}" for name in operations), conditions=conditions)


def _identities(
    storage: Storage, *operations: str, conditions: dict[str, Any] | None = None
) -> list[iam.PolicyStatement]:
    """Allow operations on the table of identities, if there is one."""
    if storage.identities is None:
        return []
    return [_tables(storage.identities.table_arn, *operations, conditions=conditions)]


def _corrections(storage: Storage, *operations: str, retracts: bool) -> list[iam.PolicyStatement]:
    """Allow to write corrections and their sums together, where events may be taken back."""
    if not retracts:
        return []
    return [_tables(storage.totals.table_arn, *operations, conditions=_IN_TRANSACTION)]


def _deny(
    arn: str, *operations: str, conditions: dict[str, Any] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        effect=iam.Effect.DENY,
        actions=[f"dynamodb:{name}" for name in operations],
        resources=[arn],
        conditions=conditions,
    )


def _notes(storage: Storage, *operations: str) -> iam.PolicyStatement:
    """Allow operations on writers' notes, not on the catalog's other items."""
    return _items(storage, *operations, keys=(WRITERS_PK,))


def _items(
    storage: Storage, *operations: str, keys: Sequence[str], attributes: Sequence[str] = ()
) -> iam.PolicyStatement:
    """Allow operations on the catalog's items with partition keys of these patterns; if attributes
    are named, only on these and the primary key, and without an answer. Source: DynamoDB Developer
    Guide, "Using IAM policy conditions for fine-grained access control".
    """
    leading = "dynamodb:LeadingKeys"
    conditions: dict[str, Any] = {
        "ForAllValues:StringLike": {leading: [*keys]},
        "Null": {leading: "false"},  # without values, ForAllValues is true
    }
    if attributes:
        named = [PARTITION_KEY, SORT_KEY, *attributes]
        conditions["ForAllValues:StringEquals"] = {"dynamodb:Attributes": named}
        # What an update returns would be attributes, too.
        conditions["StringEqualsIfExists"] = {"dynamodb:ReturnValues": "NONE"}
    return _tables(storage.catalog.table_arn, *operations, conditions=conditions)


def _marks(storage: Storage) -> list[iam.PolicyStatement]:
    """Allow to mark uploaded payloads as referenced, with a record's transaction only.

    The leading keys of its parts may be their own or none (the first statement), or those of all
    parts together (the second one): the guide does not say.
    """
    marks = {"dynamodb:LeadingKeys": [f"{MARKS}*"]}
    return [
        _tables(storage.catalog.table_arn, "PutItem", conditions={each: marks, **_IN_TRANSACTION})
        for each in ("ForAllValues:StringLike", "ForAnyValue:StringLike")
    ]


def _tag(arn: str, *keys: str) -> iam.PolicyStatement:
    """Allow tagging tables with these keys only, also by CreateTable."""
    return _tables(
        arn, "TagResource", conditions={"ForAllValues:StringEquals": {"aws:TagKeys": [*keys]}}
    )


def _allow(
    arn: str, *actions: str, conditions: dict[str, Any] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=[arn], conditions=conditions)
