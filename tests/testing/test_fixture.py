"""What `tallyroll.testing.running` gives: real handlers on every engine, in virtual time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import boto3
import pytest
import time_machine
from freezegun import configure, freeze_time
from moto import mock_aws

from tallyroll.model.states import Status
from tallyroll.settings import Settings
from tallyroll.testing import Tallyroll, TestingError, running
from tests.testing.posting import post, post_bodies

# Where both batch and pydantic were imported before, its models would be made of frozen datetimes.
configure(extend_ignore_list=["aws_lambda_powertools.utilities.parser"])
HOUR_MS = 3_600_000


def test_what_a_service_posts_is_counted(tallyroll: Tallyroll) -> None:
    post(tallyroll.queue_url, "alice", "bob", "alice", value=2.5)
    assert tallyroll.count("alice") == 0
    tallyroll.drain()
    assert tallyroll.count("alice") == 2
    assert type(tallyroll.count("alice")) is int
    assert tallyroll.sum("alice") == Decimal(5)
    assert tallyroll.count("nobody") == 0
    assert tallyroll.rejected() == []


def test_a_redelivery_only_enqueues_and_counts_nothing_twice(tallyroll: Tallyroll) -> None:
    post(tallyroll.queue_url, "alice", "bob")
    tallyroll.drain()
    tallyroll.redeliver()
    sqs = boto3.client("sqs")
    asked = sqs.get_queue_attributes(
        QueueUrl=tallyroll.queue_url, AttributeNames=["ApproximateNumberOfMessages"]
    )
    assert asked["Attributes"]["ApproximateNumberOfMessages"] == "2"
    post(tallyroll.queue_url, "alice")
    tallyroll.drain()
    tallyroll.redeliver()
    tallyroll.redeliver()
    tallyroll.drain()
    assert (tallyroll.count("alice"), tallyroll.count("bob")) == (2, 1)


def test_messages_that_never_count_are_listed_once(tallyroll: Tallyroll) -> None:
    late = int(time.time() * 1000) - 10 * HOUR_MS
    post(tallyroll.queue_url, "alice")
    post(tallyroll.queue_url, "bob", ts=late)
    post_bodies(tallyroll.queue_url, ["no JSON", "x" * 300_000])
    tallyroll.drain()
    tallyroll.redeliver()
    tallyroll.drain()
    found = {message.reason: message for message in tallyroll.rejected()}
    assert len(tallyroll.rejected()) == 3
    assert found.keys() == {"too-late", "not-json"}
    assert json.loads(found["too-late"].body) == {"key": "bob", "ts": late}
    assert "before the pipeline's first window" in found["too-late"].detail
    assert {message.body[:7] for message in tallyroll.rejected()} == {
        '{"key":',
        "no JSON",
        "xxxxxxx",
    }
    assert len({message.id for message in tallyroll.rejected()}) == 3
    assert tallyroll.count("alice") == 1
    assert tallyroll.count("bob") == 0


def test_a_window_lives_from_open_to_dropped(tallyroll: Tallyroll) -> None:
    assert tallyroll.windows() == {}
    began = time.time()
    post(tallyroll.queue_url, "alice", "alice")
    tallyroll.drain()
    first, *later = tallyroll.windows().values()
    assert first == Status.OPEN
    assert later[-1] == Status.CREATING  # shortly before an hour, the next window is open
    tallyroll.advance(hours=5)
    assert next(iter(tallyroll.windows().values())) == Status.DROPPED
    assert time.time() - began >= 5 * 3600
    assert tallyroll.count("alice") == 2
    post(tallyroll.queue_url, "alice")
    tallyroll.drain()
    assert tallyroll.count("alice") == 3
    tallyroll.redeliver()
    tallyroll.drain()
    assert tallyroll.count("alice") == 3
    assert tallyroll.rejected() == []  # the writer remembers what it counted


def test_days_roll_up_and_counts_stay(memory: Tallyroll) -> None:
    for _ in range(5):
        post(memory.queue_url, "alice")
        memory.advance(days=1)
    assert memory.count("alice") == 5
    assert memory.rejected() == []


def test_advance_counts_what_is_queued_as_a_deployed_pipeline_does(memory: Tallyroll) -> None:
    post(memory.queue_url, "alice")
    memory.advance(minutes=1)
    assert memory.count("alice") == 1


def test_delayed_messages_are_drained_too(tallyroll: Tallyroll) -> None:
    before = time.time()
    boto3.client("sqs").send_message(
        QueueUrl=tallyroll.queue_url, MessageBody='{"key": "alice"}', DelaySeconds=600
    )
    tallyroll.drain()
    assert tallyroll.count("alice") == 1
    assert time.time() - before > 599


@pytest.mark.parametrize("deaths", [1, 3])
def test_a_writer_that_dies_counts_nothing_twice(tallyroll: Tallyroll, deaths: int) -> None:
    before = time.time()
    for _ in range(deaths):
        tallyroll.crash_next_writer()
    post(tallyroll.queue_url, *(["alice", "bob"] * 150))
    post_bodies(tallyroll.queue_url, ["no JSON"])
    tallyroll.drain()
    assert (tallyroll.count("alice"), tallyroll.count("bob")) == (150, 150)
    assert len(tallyroll.rejected()) == 1
    # Its messages were hidden for the visibility timeout.
    assert time.time() - before > tallyroll.settings.visibility_ms / 1000


def test_a_death_in_the_middle_leaves_a_committed_transaction(memory: Tallyroll) -> None:
    memory.crash_next_writer()
    post(memory.queue_url, *(["alice"] * 300))
    memory._course.catch_up()
    memory._work()
    assert 0 < memory.count("alice") < 300
    memory.drain()
    assert memory.count("alice") == 300


def test_a_death_before_any_commit_is_a_death(memory: Tallyroll) -> None:
    memory.crash_next_writer()
    post_bodies(memory.queue_url, ["no JSON"])
    before = time.time()
    memory.drain()
    assert time.time() - before > 600
    assert len(memory.rejected()) == 1


@pytest.mark.parametrize("engine", ["memory", "moto"])
def test_a_clock_frozen_by_the_test_is_followed(engine: str) -> None:
    frozen = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
    with freeze_time(frozen), running(engine=engine) as tallyroll:
        post(tallyroll.queue_url, "alice")
        tallyroll.drain()
        assert datetime.now(UTC) == frozen
        assert next(iter(tallyroll.windows())) == "20240229T120000Z"
        tallyroll.advance(hours=5)
        assert datetime.now(UTC) == frozen + timedelta(hours=5)
        assert tallyroll.windows()["20240229T120000Z"] == "dropped"
        assert tallyroll.count("alice") == 1


def test_a_clock_frozen_by_time_machine_is_followed() -> None:
    frozen = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
    with time_machine.travel(frozen, tick=False), running(engine="memory") as tallyroll:
        post(tallyroll.queue_url, "alice")
        tallyroll.drain()
        tallyroll.advance(hours=1)
        assert datetime.now(UTC) == frozen + timedelta(hours=1)
        assert next(iter(tallyroll.windows())) == "20240229T120000Z"
        assert tallyroll.count("alice") == 1


@pytest.mark.parametrize("freeze", [freeze_time, lambda at: time_machine.travel(at, tick=False)])
@pytest.mark.parametrize("at", ["2021-01-01T10:59:59Z", "2031-01-01T10:59:59Z"])
def test_the_pipeline_begins_with_a_message_of_a_frozen_time_that_is_over(
    freeze: Callable[[str], Any], at: str
) -> None:
    with running(engine="memory") as tallyroll:
        with freeze(at):
            post(tallyroll.queue_url, "alice")
        tallyroll.drain()
        assert tallyroll.count("alice") == 1
        assert tallyroll.rejected() == []
        assert next(iter(tallyroll.windows())) == at[:4] + "0101T100000Z"


def test_a_message_of_the_last_hour_is_not_too_late(memory: Tallyroll) -> None:
    with freeze_time(datetime.now(UTC) - timedelta(hours=30)):
        post(memory.queue_url, "alice")
    post(memory.queue_url, "alice", ts=int(time.time() * 1000) - HOUR_MS)
    now = time.time()
    memory.drain()
    assert memory.count("alice") == 2
    assert abs(time.time() - now) < 3000


def test_messages_far_apart_are_refused_with_a_remedy(memory: Tallyroll) -> None:
    with freeze_time("2020-01-01"):
        post(memory.queue_url, "alice")
    post(memory.queue_url, "alice")
    with pytest.raises(TestingError, match="set a longer window_seconds"):
        memory.drain()


def test_the_clock_is_given_back() -> None:
    real = time.time()
    with running(engine="memory") as tallyroll:
        tallyroll.advance(days=2)
        assert time.time() - real > 2 * 86_400
    assert time.time() - real < 86_400
    assert not time_machine.traveller_stack


def test_advance_takes_a_timedelta(memory: Tallyroll) -> None:
    before = time.time_ns() // 1_000_000  # the fixture's clock has whole ms
    memory.advance(timedelta(hours=1), minutes=30)
    assert 5_400_000 <= time.time_ns() // 1_000_000 - before < 7_000_000


def test_mock_aws_may_stand_around_and_inside() -> None:
    with mock_aws():
        outer = boto3.client("sqs", region_name="us-east-1").create_queue(QueueName="own")
        for _ in range(2):
            with running() as tallyroll, mock_aws():
                sqs = boto3.client("sqs")
                post(tallyroll.queue_url, "alice")
                tallyroll.drain()
                assert tallyroll.count("alice") == 1
                assert sqs.list_queues(QueueNamePrefix="own")["QueueUrls"] == [outer["QueueUrl"]]
            left = boto3.client("sqs", region_name="us-east-1").list_queues()["QueueUrls"]
            assert left == [outer["QueueUrl"]]
            tables = boto3.client("dynamodb", region_name="us-east-1").list_tables()
            assert tables["TableNames"] == []
            assert boto3.client("s3", region_name="us-east-1").list_buckets()["Buckets"] == []


def test_queues_and_tables_of_the_test_keep_the_ways_of_moto() -> None:
    with running() as tallyroll:
        sqs, dynamodb = boto3.client("sqs"), boto3.client("dynamodb")
        url = sqs.create_queue(QueueName="own")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="mine")
        post(tallyroll.queue_url, "alice")
        tallyroll.drain()
        assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "mine"
        dynamodb.create_table(
            TableName="own",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        puts = [{"Put": {"TableName": "own", "Item": {"pk": {"S": name}}}} for name in "ab"]
        dynamodb.transact_write_items(TransactItems=puts)  # type: ignore[arg-type]
        assert dynamodb.scan(TableName="own")["Count"] == 2


def test_the_test_may_read_tables_and_archives_itself() -> None:
    with running() as tallyroll:
        post(tallyroll.queue_url, "alice")
        tallyroll.drain()
        dynamodb, s3 = boto3.client("dynamodb"), boto3.client("s3")
        window = next(iter(tallyroll.windows()))
        table = f"{tallyroll.settings.name}-{window}"
        assert dynamodb.scan(TableName=table)["Count"] > 1
        tallyroll.advance(hours=5)
        assert table not in dynamodb.list_tables()["TableNames"]
        keys = s3.list_objects_v2(Bucket=tallyroll.settings.bucket)["Contents"]
        assert any("manifest-summary.json" in each["Key"] for each in keys)


def test_an_empty_long_poll_of_a_frozen_test_ends() -> None:
    with freeze_time("2026-01-01"), running(engine="memory") as tallyroll:
        sqs = boto3.client("sqs")
        asked = sqs.receive_message(QueueUrl=tallyroll.queue_url, WaitTimeSeconds=1)
        assert "Messages" not in asked


def test_the_region_and_settings_are_those_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_PROFILE", "nowhere")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    settings = Settings(name="votes", window_seconds=1_200, retention_ms=0)
    with running(settings) as tallyroll:
        assert "eu-central-1" in tallyroll.queue_url
        assert tallyroll.settings.name == "votes"
        post(tallyroll.queue_url, "alice")
        tallyroll.drain()
        tallyroll.advance(hours=2)
        assert tallyroll.count("alice") == 1
        assert next(iter(tallyroll.windows().values())) == "dropped"


def test_without_a_region_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.delenv("AWS_REGION")
    with running(engine="memory") as tallyroll:
        post(tallyroll.queue_url, "alice")
        tallyroll.drain()
        assert tallyroll.count("alice") == 1


@pytest.mark.parametrize("engine", ["memory", "moto"])
def test_the_pipeline_may_be_in_another_region(engine: str) -> None:
    with running(engine=engine, region="eu-north-1") as tallyroll:
        assert ".eu-north-1." in tallyroll.queue_url
        own = boto3.session.Session(region_name="eu-north-1").client("sqs")
        own.send_message(QueueUrl=tallyroll.queue_url, MessageBody='{"key": "alice"}')
        post(tallyroll.queue_url, "alice")
        tallyroll.advance(hours=5)
        assert tallyroll.count("alice") == 2


def test_only_the_pipelines_own_queue_is_drained(tallyroll: Tallyroll) -> None:
    sqs = boto3.client("sqs")
    other = sqs.create_queue(QueueName="other")["QueueUrl"]
    post(other, "alice")
    post(tallyroll.queue_url, "alice")
    tallyroll.drain()
    assert tallyroll.count("alice") == 1
    assert len(sqs.receive_message(QueueUrl=other)["Messages"]) == 1


def tables_of(name: str, endpoint: str) -> list[str]:
    """The tables of a pipeline, among those of all tests: a page has at most 100."""
    dynamodb = boto3.client("dynamodb", endpoint_url=endpoint)
    pages = dynamodb.get_paginator("list_tables").paginate()
    return [each for page in pages for each in page["TableNames"] if each.startswith(name)]


def send_twice_hours_apart(tallyroll: Tallyroll) -> None:
    """One id under two keys and in two windows."""
    post(tallyroll.queue_url, "alice", id="ballot-7")
    tallyroll.drain()
    tallyroll.advance(hours=2)
    post(tallyroll.queue_url, "alice", "bob", id="ballot-7")
    tallyroll.drain()


@pytest.mark.parametrize("engine", ["memory", "moto"])
@pytest.mark.parametrize(
    ("identity", "counts"), [("window", (2, 1)), ("key", (1, 1)), ("pipeline", (1, 0))]
)
def test_an_id_counts_once_within_what_the_settings_say(
    engine: str, identity: str, counts: tuple[int, int]
) -> None:
    with running(engine=engine, identity=identity) as tallyroll:
        send_twice_hours_apart(tallyroll)

        assert (tallyroll.count("alice"), tallyroll.count("bob")) == counts
        if engine == "moto" and identity != "window":
            table = f"{tallyroll.settings.name}-identities"
            expiry = boto3.client("dynamodb").describe_time_to_live(TableName=table)
            assert expiry["TimeToLiveDescription"] == {
                "TimeToLiveStatus": "ENABLED",
                "AttributeName": "expires",
            }


@pytest.mark.engine
def test_dynamodb_local_keeps_identities(dynamodb_endpoint: str) -> None:
    with running(
        engine="dynamodb-local", endpoint=dynamodb_endpoint, identity="pipeline"
    ) as tallyroll:
        send_twice_hours_apart(tallyroll)

        assert (tallyroll.count("alice"), tallyroll.count("bob")) == (1, 0)


@pytest.mark.engine
def test_dynamodb_local_keeps_the_tables_on_request(dynamodb_endpoint: str) -> None:
    with running(engine="dynamodb-local", endpoint=dynamodb_endpoint) as tallyroll:
        post(tallyroll.queue_url, "alice", "alice")
        tallyroll.drain()
        tallyroll.redeliver()
        tallyroll.drain()
        assert tallyroll.count("alice") == 2
        assert len(tables_of(tallyroll.settings.name, dynamodb_endpoint)) == 5
        tallyroll.advance(hours=5)
        assert tallyroll.count("alice") == 2
        assert next(iter(tallyroll.windows().values())) == "dropped"
    assert tables_of(tallyroll.settings.name, dynamodb_endpoint) == []
