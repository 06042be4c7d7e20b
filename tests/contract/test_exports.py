"""The port of DynamoDB's own exports: on moto what it knows, the rest by replies as documented."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from tallyroll.adapters.aws.client import Caller, make_client
from tallyroll.adapters.dynamodb.exports import DynamoExports
from tallyroll.adapters.dynamodb.store import SCAN_PAGE_ITEMS, DynamoStore
from tallyroll.errors import Missing, Refused, Throttled
from tallyroll.model.items import StoredItem
from tallyroll.ports.exports import ExportState, ExportStatus
from tallyroll.settings import Settings
from tests.contract.engines import SteadyEffects

TABLE = "votes-20261120T080000Z"


class Scripted:
    """A client whose operations answer or raise as they are told to."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers
        self.asked: list[dict[str, Any]] = []

    def __getattr__(self, operation: str) -> Any:
        def answer(**params: Any) -> Any:
            self.asked.append(params)
            said = self._answers[operation]
            if isinstance(said, Exception):
                raise said
            return said

        return answer


def refusal(code: str) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {}}
    return ClientError(response, "operation")


def exports(client: Any, kms_key: str = "") -> DynamoExports:
    return DynamoExports(Caller(client, SteadyEffects()), kms_key)


def test_a_table_in_keyspaces_is_left_to_the_scan() -> None:
    client = Scripted()
    assert exports(client).restorable(f"keyspaces:{TABLE}") is None
    assert client.asked == []


def test_the_range_that_can_be_restored() -> None:
    earliest = datetime(2026, 11, 20, 8, tzinfo=UTC)
    said = {
        "PointInTimeRecoveryStatus": "ENABLED",
        "EarliestRestorableDateTime": earliest,
        "LatestRestorableDateTime": earliest + timedelta(hours=2),
    }
    reply = {"ContinuousBackupsDescription": {"PointInTimeRecoveryDescription": said}}
    start = int(earliest.timestamp() * 1000)
    client = Scripted(describe_continuous_backups=reply)
    assert exports(client).restorable(TABLE) == (start, start + 7_200_000)
    del said["LatestRestorableDateTime"]
    with pytest.raises(Throttled, match="no restorable time yet"):
        exports(client).restorable(TABLE)
    said["PointInTimeRecoveryStatus"] = "DISABLED"
    assert exports(client).restorable(TABLE) is None
    client = Scripted(describe_continuous_backups=refusal("UnknownOperationException"))
    assert exports(client).restorable(TABLE) is None


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("TableNotFoundException", Missing),
        ("PointInTimeRecoveryUnavailableException", Refused),
        ("InvalidExportTimeException", Refused),
        ("ExportConflictException", Refused),
        ("AccessDeniedException", Refused),
        ("LimitExceededException", Throttled),
    ],
)
def test_a_refused_export_is_named(code: str, error: type[Exception]) -> None:
    client = Scripted(
        describe_table={"Table": {"TableArn": "arn"}}, export_table_to_point_in_time=refusal(code)
    )
    with pytest.raises(error, match=f"ExportTableToPointInTime: {code}"):
        exports(client).start(TABLE, "bucket", "prefix", 1_000, "token")


@pytest.mark.parametrize(
    ("key", "encryption"),
    [
        ("", {"S3SseAlgorithm": "AES256"}),
        ("arn:key", {"S3SseAlgorithm": "KMS", "S3SseKmsKeyId": "arn:key"}),
    ],
)
def test_what_is_asked_of_the_service(key: str, encryption: dict[str, str]) -> None:
    client = Scripted(
        describe_table={"Table": {"TableArn": "arn:table"}},
        export_table_to_point_in_time={"ExportDescription": {"ExportArn": "arn:export"}},
    )
    started = exports(client, key).start(TABLE, "bucket", "prefix", 1_795_163_400_000, "t")
    assert started == "arn:export"
    assert client.asked[1] == {
        "TableArn": "arn:table",
        "ClientToken": "t",
        "ExportFormat": "DYNAMODB_JSON",
        "ExportTime": datetime(2026, 11, 20, 8, 30, tzinfo=UTC),
        "S3Bucket": "bucket",
        "S3Prefix": "prefix",
        **encryption,
    }


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ({"ExportStatus": "IN_PROGRESS"}, ExportState(ExportStatus.RUNNING)),
        ({"ExportStatus": "COMPLETED"}, ExportState(ExportStatus.COMPLETED)),
        (
            {"ExportStatus": "FAILED", "FailureCode": "S3AccessDenied", "FailureMessage": "no"},
            ExportState(ExportStatus.FAILED, "S3AccessDenied: no"),
        ),
    ],
)
def test_how_far_an_export_is(said: dict[str, str], state: ExportState) -> None:
    assert exports(Scripted(describe_export={"ExportDescription": said})).state("arn") == state
    with pytest.raises(Missing):
        exports(Scripted(describe_export=refusal("ExportNotFoundException"))).state("arn")


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    """moto: it knows point-in-time recovery, and exports at once without manifests."""
    with mock_aws():
        make_client("s3").create_bucket(Bucket="archives")
        client = make_client("dynamodb")
        client.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield client


def test_the_pages_of_a_scan_are_small_whatever_fits_into_a_megabyte() -> None:
    """Eight threads hold one each: by the service's own pages, a million records took 386 MiB."""
    item = {"pk": {"S": "k.1"}, "sk": {"S": "e#1"}}
    client = Scripted(scan={"Items": [item]})
    store = DynamoStore(Caller(client, SteadyEffects()), SteadyEffects(), Settings())
    assert [*store.scan(TABLE, 3, 64)] == [[StoredItem("k.1", "e#1", item)]]
    [asked] = client.asked
    assert asked["Limit"] == SCAN_PAGE_ITEMS <= 1_000
    assert (asked["Segment"], asked["TotalSegments"], asked["ConsistentRead"]) == (3, 64, True)


def test_an_export_on_moto(dynamodb: Any) -> None:
    port = exports(dynamodb)
    assert port.restorable(TABLE) is None
    dynamodb.update_continuous_backups(
        TableName=TABLE, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    assert port.restorable(TABLE)
    arn = port.start(TABLE, "archives", "prefix", 1_795_163_400_000, "token")
    for _ in range(100):  # moto exports on a thread of its own
        if port.state(arn).status is not ExportStatus.RUNNING:
            break
        time.sleep(0.05)
    assert port.state(arn).status is ExportStatus.COMPLETED
    with pytest.raises(Missing):
        port.restorable("votes-20261120T090000Z")
