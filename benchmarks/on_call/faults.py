"""The faults: how each is planted and mended, and what the doctor must say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from benchmarks.on_call.stack import policy, topic
from benchmarks.on_call.world import World
from tallyroll.adapters.dynamodb.catalog_items import LIVE, key_of
from tallyroll.adapters.dynamodb.totals_table import listing_of
from tallyroll.archive.layout import proof_key
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.states import Status
from tallyroll.resources import TAG_PIPELINE

_NOBODYS = "20200101T000000Z"  # no window of the pipeline's


@contextmanager
def _unprotected(world: World) -> Iterator[None]:
    table = world.window(Status.OPEN).table
    world.dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    yield
    world.dynamodb.update_table(TableName=table, DeletionProtectionEnabled=True)


@contextmanager
def _stray_table(world: World) -> Iterator[None]:
    name = world.declared.window_table(_NOBODYS).name
    world.dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    yield
    world.dynamodb.delete_table(TableName=name)


@contextmanager
def _state_lost(world: World) -> Iterator[None]:
    key = key_of(world.window(Status.DROPPED).id, "state")
    with world.item_changed(world.declared.catalog.name, key):
        yield


@contextmanager
def _pointer_passed(world: World) -> Iterator[None]:
    since = {"N": str(world.window(Status.OPEN).end)}
    with (
        world.running.held_roller(),  # it would mend the pointer
        world.item_changed(world.declared.catalog.name, LIVE, since=since),
    ):
        yield


@contextmanager
def _total_changed(world: World) -> Iterator[None]:
    key = {"pk": {"S": "k0"}, "sk": {"S": world.window(Status.SEALED).id}}
    with world.item_changed(world.declared.totals.name, key, n={"N": "1000000"}):
        yield


@contextmanager
def _listing_changed(world: World) -> Iterator[None]:
    window = world.window(Status.SEALED).id
    for bucket in range(1, LISTING_BUCKETS + 1):
        key = {"pk": {"S": listing_of(window, bucket)}, "sk": {"S": "k0"}}
        if "Item" in world.dynamodb.get_item(TableName=world.declared.totals.name, Key=key):
            with world.item_changed(world.declared.totals.name, key):
                yield


@contextmanager
def _data_lost(world: World) -> Iterator[None]:
    with world.object_changed(world.archived(".json.gz"), None):
        yield


@contextmanager
def _manifest_destroyed(world: World) -> Iterator[None]:
    with world.object_changed(world.archived("manifest-files.json"), b"{"):
        yield


@contextmanager
def _proof_lost(world: World) -> Iterator[None]:
    prefix = world.window(Status.DROPPED).attempt.archive
    with world.object_changed(proof_key(prefix), None):
        yield


@contextmanager
def _unreadable_message(world: World) -> Iterator[None]:
    world.send("no JSON")
    world.running.await_letter()
    yield
    world.sqs.purge_queue(QueueUrl=world.settings.dead_letters_url)


@contextmanager
def _table_deleted(world: World) -> Iterator[None]:
    table = world.window(Status.OPEN).table
    world.dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    world.dynamodb.delete_table(TableName=table)
    yield


@contextmanager
def _roller_stopped(world: World) -> Iterator[None]:
    world.running.stop_roller()
    yield


@contextmanager
def _mapping_disabled(world: World) -> Iterator[None]:
    functions = world.client("lambda")
    [mapping] = functions.list_event_source_mappings(FunctionName=world.function("writer"))[
        "EventSourceMappings"
    ]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    yield
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)


@contextmanager
def _function_off(world: World) -> Iterator[None]:
    functions, name = world.client("lambda"), world.function("aggregator")
    functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    yield
    functions.delete_function_concurrency(FunctionName=name)


@contextmanager
def _role_denies(world: World) -> Iterator[None]:
    named = {"RoleName": world.function("writer"), "PolicyName": "Denied"}
    denial = {"Effect": "Deny", "Action": "dynamodb:*", "Resource": "*"}
    iam = world.client("iam")
    iam.put_role_policy(**named, PolicyDocument=policy(denial))
    yield
    iam.delete_role_policy(**named)


@contextmanager
def _queue_denies(world: World) -> Iterator[None]:
    denial = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:ReceiveMessage",
        "Resource": world.queue_arn(),
    }
    with world.queue_changed(Policy=policy(denial)):
        yield


@contextmanager
def _given_up_early(world: World) -> Iterator[None]:
    with world.queue_changed(RedrivePolicy=world.redrive(5)):
        yield


@contextmanager
def _in_flight_full(world: World) -> Iterator[None]:
    of = ("QueueName", world.declared.queue.name)
    with world.published("AWS/SQS", "ApproximateNumberOfMessagesNotVisible", of, [120_000.0]):
        yield


@contextmanager
def _catalog_stale(world: World) -> Iterator[None]:
    """The catalog is as it was before its newest window was made."""
    key = key_of(world.newest().id, "state")
    with world.running.held_roller(), world.item_changed(world.declared.catalog.name, key):
        yield


@contextmanager
def _schedule_disabled(world: World) -> Iterator[None]:
    scheduler = world.client("scheduler")
    found = scheduler.get_schedule(Name=world.function("cleanup"))
    wanted = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target")
    as_it_is = {name: found[name] for name in wanted}
    scheduler.update_schedule(**as_it_is, State="DISABLED")
    yield
    scheduler.update_schedule(**as_it_is, State="ENABLED")


@contextmanager
def _totals_throttled(world: World) -> Iterator[None]:
    of = ("TableName", world.declared.totals.name)
    with world.published("AWS/DynamoDB", "WriteThrottleEvents", of, [7.0] * 6):
        yield


@contextmanager
def _tag_lost(world: World) -> Iterator[None]:
    arn = world.table_arn(world.declared.totals.name)
    world.dynamodb.untag_resource(ResourceArn=arn, TagKeys=[TAG_PIPELINE])
    yield
    tag = {"Key": TAG_PIPELINE, "Value": world.settings.name}
    world.dynamodb.tag_resource(ResourceArn=arn, Tags=[tag])


@contextmanager
def _bucket_unreadable(world: World) -> Iterator[None]:
    bucket = world.settings.bucket
    arn = f"arn:aws:s3:::{bucket}"
    denial = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": ["s3:GetObject", "s3:ListBucket"],
        "Resource": [arn, f"{arn}/*"],
    }
    world.s3.put_bucket_policy(Bucket=bucket, Policy=policy(denial))
    yield
    world.s3.delete_bucket_policy(Bucket=bucket)


@contextmanager
def _unsubscribed(world: World) -> Iterator[None]:
    sns, pages = world.client("sns"), topic(world.settings, world.client, "alarms")
    for one in sns.list_subscriptions_by_topic(TopicArn=pages)["Subscriptions"]:
        sns.unsubscribe(SubscriptionArn=one["SubscriptionArn"])
    yield
    sns.subscribe(TopicArn=pages, Protocol="email", Endpoint="night@example.org")


@dataclass(frozen=True)
class Fault:
    """A fault, the check that finds it, words of what it says and of the remedy, and whether it
    takes `--deep`.
    """

    name: str
    plant: Callable[[World], AbstractContextManager[None]]
    check: str
    says: str
    remedy: str
    deep: bool = False


FAULTS = (
    Fault(
        "a table is not protected from deletion",
        _unprotected,
        "tables",
        "not protected",
        "--deletion-protection-enabled`",
    ),
    Fault(
        "a foreign table has a window's name",
        _stray_table,
        "stray-tables",
        "no window names",
        "`aws dynamodb delete-table ",
    ),
    Fault("a window's state is lost", _state_lost, "gaps", "no such window", "restore-table-to"),
    Fault(
        "the live pointer is wrong",
        _pointer_passed,
        "live-pointer",
        "has passed it",
        "`tallyroll windows open",
    ),
    Fault("a total was changed", _total_changed, "totals", "its total (1000000", "", deep=True),
    Fault("a row of a listing is lost", _listing_changed, "listing", "by its listing", "restore-"),
    Fault(
        "a data file of an archive is lost",
        _data_lost,
        "archives",
        "changed since",
        "`aws s3api list-object-versions",
    ),
    Fault(
        "a manifest is destroyed",
        _manifest_destroyed,
        "archives",
        "manifest-files.json",
        "`aws s3api list-object-versions",
    ),
    Fault(
        "a proof is lost",
        _proof_lost,
        "archives",
        "WITHOUT A PROOF",
        "`aws s3api list-object-versions",
    ),
    Fault(
        "a producer sends what is no event",
        _unreadable_message,
        "dead-letters",
        "dead letter",
        "`tallyroll dlq list`",
    ),
    Fault(
        "the event source mapping is disabled",
        _mapping_disabled,
        "trigger",
        "is disabled",
        "`aws lambda update-event-source-mapping",
    ),
    Fault(
        "a function may not run",
        _function_off,
        "functions",
        "reserved concurrency is 0",
        "`aws lambda delete-function-concurrency",
    ),
    Fault(
        "a function's role denies its calls",
        _role_denies,
        "roles",
        "its role denies dynamodb:BatchGetItem",
        "`aws iam list-role-policies",
    ),
    Fault(
        "the queue's policy denies the writer",
        _queue_denies,
        "policies",
        "denies sqs:ReceiveMessage",
        "`aws sqs set-queue-attributes",
    ),
    Fault(
        "the queue gives messages up early",
        _given_up_early,
        "queue-rules",
        "after 5 receives",
        "`aws sqs set-queue-attributes",
    ),
    Fault(
        "too many messages are in flight",
        _in_flight_full,
        "queue",
        "120,000 messages in flight",
        "`tallyroll windows list`",
    ),
    Fault(
        "the catalog was put back to an earlier time",
        _catalog_stale,
        "stray-tables",
        "the catalog is older",
        "restore-table-to-point-in-time",
    ),
    Fault(
        "a schedule is disabled",
        _schedule_disabled,
        "schedules",
        "-cleanup is disabled",
        "`aws scheduler update-schedule",
    ),
    Fault(
        "the totals are throttled",
        _totals_throttled,
        "throttles",
        "42 requests were throttled in 6",
        "`aws dynamodb update-table",
    ),
    Fault(
        "a table lost its tag",
        _tag_lost,
        "permanent",
        "its tag tallyroll is missing",
        "`aws dynamodb tag-resource",
    ),
    Fault(
        "the bucket's policy denies everybody",
        _bucket_unreadable,
        "bucket",
        "its policy denies s3:GetObject, s3:ListBucket",
        "`aws s3api put-bucket-policy",
    ),
    Fault(
        "nobody subscribes to the pages",
        _unsubscribed,
        "subscriptions",
        "its alarms reach nobody",
        "`aws sns subscribe",
    ),
    Fault(
        "a live window's table was deleted",
        _table_deleted,
        "tables",
        "is gone",
        "`aws dynamodb restore-table-from-backup",
    ),
    Fault("the roller does not run", _roller_stopped, "roller", "it is missing", "its schedule"),
)
"""The last two cannot be mended, and what was published as a metric stays for some minutes."""
