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


FAULTS: list[Fault] = []
"""The last two cannot be mended, and what was published as a metric stays for some minutes."""

Plant = Callable[[World], Iterator[None]]
"""Plants a fault, yields, and mends it."""


def _fault(
    name: str, check: str, says: str, remedy: str, *, deep: bool = False
) -> Callable[[Plant], Plant]:
    """Put a fault, which the decorated function plants, into the catalogue."""

    def listed(plant: Plant) -> Plant:
        FAULTS.append(Fault(name, contextmanager(plant), check, says, remedy, deep))
        return plant

    return listed


@_fault(
    "a table is not protected from deletion",
    "tables",
    "not protected",
    "deletion-protection-enabled",
)
def _unprotected(world: World) -> Iterator[None]:
    table = world.window(Status.OPEN).table
    world.dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    yield
    world.dynamodb.update_table(TableName=table, DeletionProtectionEnabled=True)


@_fault(
    "a foreign table has a window's name",
    "stray-tables",
    "no window names",
    "dynamodb delete-table ",
)
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


@_fault("a window's state is lost", "gaps", "no such window", "restore-table-to")
def _state_lost(world: World) -> Iterator[None]:
    key = key_of(world.window(Status.DROPPED).id, "state")
    with world.item_changed(world.declared.catalog.name, key):
        yield


@_fault("the live pointer is wrong", "live-pointer", "has passed it", " windows open")
def _pointer_passed(world: World) -> Iterator[None]:
    since = {"N": str(world.window(Status.OPEN).end)}
    with (
        world.running.held_roller(),  # it would mend the pointer
        world.item_changed(world.declared.catalog.name, LIVE, since=since),
    ):
        yield


@_fault("a total was changed", "totals", "its total (1000000", "", deep=True)
def _total_changed(world: World) -> Iterator[None]:
    key = {"pk": {"S": "k0"}, "sk": {"S": world.window(Status.SEALED).id}}
    with world.item_changed(world.declared.totals.name, key, n={"N": "1000000"}):
        yield


@_fault("a row of a listing is lost", "listing", "by its listing", "restore-")
def _listing_changed(world: World) -> Iterator[None]:
    window = world.window(Status.SEALED).id
    for bucket in range(1, LISTING_BUCKETS + 1):
        key = {"pk": {"S": listing_of(window, bucket)}, "sk": {"S": "k0"}}
        if "Item" in world.dynamodb.get_item(TableName=world.declared.totals.name, Key=key):
            with world.item_changed(world.declared.totals.name, key):
                yield


@_fault(
    "a data file of an archive is lost", "archives", "changed since", "s3api list-object-versions"
)
def _data_lost(world: World) -> Iterator[None]:
    with world.object_changed(world.archived(".json.gz"), None):
        yield


@_fault("a manifest is destroyed", "archives", "manifest-files.json", "s3api list-object-versions")
def _manifest_destroyed(world: World) -> Iterator[None]:
    with world.object_changed(world.archived("manifest-files.json"), b"{"):
        yield


@_fault("a proof is lost", "archives", "WITHOUT A PROOF", "s3api list-object-versions")
def _proof_lost(world: World) -> Iterator[None]:
    prefix = world.window(Status.DROPPED).attempt.archive
    with world.object_changed(proof_key(prefix), None):
        yield


@_fault("a producer sends what is no event", "dead-letters", "dead letter", " dlq list`")
def _unreadable_message(world: World) -> Iterator[None]:
    world.send("no JSON")
    world.running.await_letter()
    yield
    world.sqs.purge_queue(QueueUrl=world.settings.dead_letters_url)


@_fault(
    "the event source mapping is disabled", "trigger", "is disabled", "update-event-source-mapping"
)
def _mapping_disabled(world: World) -> Iterator[None]:
    functions = world.client("lambda")
    [mapping] = functions.list_event_source_mappings(FunctionName=world.function("writer"))[
        "EventSourceMappings"
    ]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    yield
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)


@_fault(
    "a function may not run",
    "functions",
    "reserved concurrency is 0",
    "delete-function-concurrency",
)
def _function_off(world: World) -> Iterator[None]:
    functions, name = world.client("lambda"), world.function("aggregator")
    functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    yield
    functions.delete_function_concurrency(FunctionName=name)


@_fault(
    "a function's role denies its calls",
    "roles",
    "its role denies dynamodb:BatchGetItem",
    "list-role-policies",
)
def _role_denies(world: World) -> Iterator[None]:
    named = {"RoleName": world.function("writer"), "PolicyName": "Denied"}
    denial = {"Effect": "Deny", "Action": "dynamodb:*", "Resource": "*"}
    iam = world.client("iam")
    iam.put_role_policy(**named, PolicyDocument=policy(denial))
    yield
    iam.delete_role_policy(**named)


@_fault(
    "the queue's policy denies the writer",
    "policies",
    "denies sqs:ReceiveMessage",
    "set-queue-attributes",
)
def _queue_denies(world: World) -> Iterator[None]:
    denial = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:ReceiveMessage",
        "Resource": world.queue_arn(),
    }
    with world.queue_changed(Policy=policy(denial)):
        yield


@_fault(
    "the queue gives messages up early", "queue-rules", "after 5 receives", "set-queue-attributes"
)
def _given_up_early(world: World) -> Iterator[None]:
    with world.queue_changed(RedrivePolicy=world.redrive(5)):
        yield


@_fault(
    "too many messages are in flight",
    "queue",
    "120,000 messages in flight",
    " windows list`",
)
def _in_flight_full(world: World) -> Iterator[None]:
    of = ("QueueName", world.declared.queue.name)
    with world.published("AWS/SQS", "ApproximateNumberOfMessagesNotVisible", of, [120_000.0]):
        yield


@_fault(
    "the catalog was put back to an earlier time",
    "stray-tables",
    "the catalog is older",
    "restore-table-to",
)
def _catalog_stale(world: World) -> Iterator[None]:
    """The catalog is as it was before its newest window was made."""
    key = key_of(world.newest().id, "state")
    with world.running.held_roller(), world.item_changed(world.declared.catalog.name, key):
        yield


@_fault("a schedule is disabled", "schedules", "-cleanup is disabled", "update-schedule")
def _schedule_disabled(world: World) -> Iterator[None]:
    scheduler = world.client("scheduler")
    found = scheduler.get_schedule(Name=world.function("cleanup"))
    wanted = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target")
    as_it_is = {name: found[name] for name in wanted}
    scheduler.update_schedule(**as_it_is, State="DISABLED")
    yield
    scheduler.update_schedule(**as_it_is, State="ENABLED")


@_fault(
    "the totals are throttled",
    "throttles",
    "42 requests were throttled in 6",
    "dynamodb update-table",
)
def _totals_throttled(world: World) -> Iterator[None]:
    of = ("TableName", world.declared.totals.name)
    with world.published("AWS/DynamoDB", "WriteThrottleEvents", of, [7.0] * 6):
        yield


@_fault(
    "a window's table is throttled",
    "throttles",
    "the table has not grown to its load (3,900 write units a second of 4,000)",
    " windows warm ",
)
def _window_throttled(world: World) -> Iterator[None]:
    of = ("TableName", world.window(Status.OPEN).table)
    with (
        world.published("AWS/DynamoDB", "ConsumedWriteCapacityUnits", of, [60.0 * 3_900]),
        world.published("AWS/DynamoDB", "WriteThrottleEvents", of, [420.0]),
    ):
        yield


@_fault(
    "a table lost its tag", "permanent", "its tag tallyroll is missing", "dynamodb tag-resource"
)
def _tag_lost(world: World) -> Iterator[None]:
    arn = world.table_arn(world.declared.totals.name)
    world.dynamodb.untag_resource(ResourceArn=arn, TagKeys=[TAG_PIPELINE])
    yield
    tag = {"Key": TAG_PIPELINE, "Value": world.settings.name}
    world.dynamodb.tag_resource(ResourceArn=arn, Tags=[tag])


@_fault(
    "the bucket's policy denies everybody",
    "bucket",
    "its policy denies s3:GetObject, s3:ListBucket",
    "put-bucket-policy",
)
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


@_fault(
    "nobody subscribes to the pages", "subscriptions", "its alarms reach nobody", "sns subscribe"
)
def _unsubscribed(world: World) -> Iterator[None]:
    sns, pages = world.client("sns"), topic(world.settings, world.client, "alarms")
    for one in sns.list_subscriptions_by_topic(TopicArn=pages)["Subscriptions"]:
        sns.unsubscribe(SubscriptionArn=one["SubscriptionArn"])
    yield
    sns.subscribe(TopicArn=pages, Protocol="email", Endpoint="night@example.org")


@_fault("a live window's table was deleted", "tables", "is gone", "restore-table-from-backup")
def _table_deleted(world: World) -> Iterator[None]:
    table = world.window(Status.OPEN).table
    world.dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    world.dynamodb.delete_table(TableName=table)
    yield


@_fault("the roller does not run", "roller", "it is missing", "its schedule")
def _roller_stopped(world: World) -> Iterator[None]:
    world.running.stop_roller()
    yield
