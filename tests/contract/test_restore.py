"""Restoring archives: what moto and DynamoDB Local take, and what neither ever answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from uuid import uuid4

import pytest
from moto import mock_aws

from tallyroll.adapters.aws.client import Caller, make_client
from tallyroll.adapters.dynamodb.items import CODEC, Item, gate_item, jsonable, stored_item
from tallyroll.adapters.dynamodb.tools.restore import DynamoRestore
from tallyroll.adapters.system import SystemEffects
from tallyroll.archive.verification import ArchiveReading
from tallyroll.errors import Refused, Throttled, Unknown, UsageError
from tallyroll.model.items import StoredItem
from tallyroll.model.records import increments_of
from tallyroll.pipeline import Pipeline
from tallyroll.ports.backoff import RESTORED_BATCH
from tallyroll.ports.store import Verdict
from tallyroll.resources import check_table
from tallyroll.settings import Settings
from tests.contract.engines import SteadyEffects
from tests.contract.faults import Faults, error_reply
from tests.harness.archives import Archived, archived
from tests.harness.pipeline import record_with, spec_of

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234"
PREFIX = "archive/tallyroll/date=2026-11-20/hour=08/20261120T080000Z/a1"


@pytest.fixture(params=["moto", pytest.param("dynamodb-local", marks=pytest.mark.engine)])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    if request.param == "moto":
        with mock_aws():
            yield make_client("dynamodb")
    else:
        endpoint = request.getfixturevalue("dynamodb_endpoint")
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
        yield make_client("dynamodb")


@pytest.fixture
def maker(client: object) -> DynamoRestore:
    return DynamoRestore(Caller(client, SteadyEffects()), SteadyEffects())


@pytest.fixture
def table() -> str:
    return f"restored-{uuid4().hex[:12]}"


def stored(table: str) -> list[Item]:
    items = make_client("dynamodb").scan(TableName=table, ConsistentRead=True)["Items"]
    return by_key([jsonable(item) for item in items])


def by_key(items: list[Item]) -> list[Item]:
    return sorted(items, key=lambda item: json.dumps([item["pk"], item["sk"]]))


def restorable(whole: Archived) -> Iterator[StoredItem]:
    return (found.item for found in ArchiveReading(whole.bucket, whole.archive(), CODEC))


def test_a_restored_table_holds_what_the_archive_holds(maker: DynamoRestore, table: str) -> None:
    whole = archived()
    assert not maker.begin(table, PREFIX)
    maker.put(table, restorable(whole))
    maker.end(table)
    assert stored(table) == by_key(whole.items())


def test_a_restored_gate_is_shut_whatever_the_archive_holds(
    maker: DynamoRestore, table: str
) -> None:
    whole = archived()
    items = whole.items()
    whole.rewrite([gate_item(1), *items])
    maker.begin(table, PREFIX)
    maker.put(table, restorable(whole))
    maker.end(table)
    shut = [{**item, "open": {"BOOL": False}} if "open" in item else item for item in items]
    assert stored(table) == by_key(shut)


def test_a_restore_that_ended_early_goes_on(maker: DynamoRestore, table: str) -> None:
    whole = archived()
    maker.begin(table, PREFIX)
    maker.put(table, islice(restorable(whole), 7))
    assert len(stored(table)) == 8
    with pytest.raises(UsageError, match="no unfinished restore of this archive"):
        maker.begin(table, PREFIX + "2")
    assert maker.begin(table, PREFIX)
    maker.put(table, restorable(whole))
    maker.end(table)
    assert stored(table) == by_key(whole.items())
    with pytest.raises(UsageError, match=f"'{table}' exists"):
        maker.begin(table, PREFIX)


def test_a_table_of_another_kind_is_left_alone(maker: DynamoRestore, table: str) -> None:
    make_client("dynamodb").create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    with pytest.raises(UsageError, match=f"'{table}' exists"):
        maker.begin(table, PREFIX)
    with pytest.raises(UsageError, match=f"'{table}' exists"):
        maker.start_import(table, "archives", "data/")
    assert stored_count(table) == 0


def stored_count(table: str) -> int:
    count: int = make_client("dynamodb").scan(TableName=table)["Count"]
    return count


@pytest.mark.engine
def test_no_writer_can_write_into_a_restored_table(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    made = Pipeline(Settings(), SystemEffects())
    made.restore.begin(table, PREFIX)
    made.restore.put(table, restorable(archived()))
    made.restore.end(table)
    before = stored(table)
    spec = spec_of(table=table)
    record = record_with("late")
    for _ in range(20):
        outcome = made.store.commit(spec, [record], increments_of([record]))
        assert outcome.verdict is Verdict.GATE_SHUT
    # With more gates than the archive has, all the others are missing.
    spec = replace(spec, gates=1_000)
    verdicts = {made.store.commit(spec, [record], ()).verdict for _ in range(20)}
    assert verdicts <= {Verdict.GATE_SHUT, Verdict.GATE_MISSING}
    assert stored(table) == before


@pytest.mark.parametrize(
    "name", ["tallyroll-20261120T080000Z", "x-20261120T080000Z", "x", "a b", "", "tallyroll-totals"]
)
def test_names_that_no_restored_table_may_have(name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}'"):
        check_table(name, ["tallyroll-catalog", "tallyroll-totals"])


@pytest.mark.parametrize(
    "name", ["restored", "restored-20261120T080000", "20261120T080000Z", "a.B_c-9"]
)
def test_names_that_it_may_have(name: str) -> None:
    check_table(name, ["tallyroll-catalog", "tallyroll-totals"])


def test_the_name_that_is_proposed_may_be_taken() -> None:
    with pytest.raises(UsageError, match="such as") as refused:
        check_table("votes-20261120T080000Z", [])
    check_table(str(refused.value).rpartition("such as ")[2].strip("'"), [])


# --- what no emulator answers


@pytest.fixture
def faults() -> Iterator[Faults]:
    with mock_aws():
        yield Faults()


def items(number: int) -> list[Item]:
    return [{"pk": {"S": f"k.{n}"}, "sk": {"S": "e#e"}, "n": {"N": "1"}} for n in range(number)]


def begun(faults: Faults) -> DynamoRestore:
    maker = DynamoRestore(faults.caller, faults.effects)
    maker.begin("restored", PREFIX)
    faults.seen.clear()
    return maker


def unprocessed(some: list[Item]) -> tuple[int, dict[str, object]]:
    puts = [{"PutRequest": {"Item": item}} for item in some]
    return 200, {"UnprocessedItems": {"restored": puts}}


def test_what_stays_unprocessed_is_put_again(faults: Faults) -> None:
    maker = begun(faults)
    wanted = items(3)
    faults.put(unprocessed(wanted), unprocessed(wanted[1:]))
    maker.put("restored", map(stored_item, wanted))
    assert [operation for operation, _ in faults.seen] == ["BatchWriteItem"] * 3
    assert [item["pk"]["S"] for item in stored("restored")] == ["k.1", "k.2", "~restoring"]


def test_throttles_and_lost_replies_are_tried_again(faults: Faults) -> None:
    maker = begun(faults)
    throttled = {"__type": "ThrottlingException", "message": "slow down"}
    faults.put((400, throttled), Faults.LOST, (500, {}))
    maker.put("restored", map(stored_item, items(3)))
    assert len(faults.seen) == 4
    assert len(stored("restored")) == 4


def test_a_table_that_takes_no_more_ends_the_restore(faults: Faults) -> None:
    maker = begun(faults)
    faults.put(*[unprocessed(items(1))] * RESTORED_BATCH.tries)
    with pytest.raises(Throttled, match="the same command continues"):
        maker.put("restored", map(stored_item, items(1)))
    faults.put((400, {"__type": "AccessDeniedException", "message": "no"}))
    with pytest.raises(Refused, match="AccessDenied"):
        maker.put("restored", map(stored_item, items(1)))


def test_an_item_that_comes_twice_is_put_once(faults: Faults) -> None:
    maker = begun(faults)
    maker.put("restored", map(stored_item, items(3) * 2))
    assert len(stored("restored")) == 4


def test_a_permission_that_lacks_is_no_table_of_another_kind(faults: Faults) -> None:
    maker = begun(faults)
    faults.put(None, (400, {"__type": "AccessDeniedException", "message": "no"}))
    with pytest.raises(Refused, match="AccessDenied"):
        maker.begin("restored", PREFIX)


def test_a_table_that_does_not_become_active(faults: Faults) -> None:
    maker = DynamoRestore(faults.caller, faults.effects)
    clock = iter(range(0, 10**9, 60_000))
    faults.effects.now = lambda: next(clock)  # type: ignore[method-assign]
    creating = (200, {"Table": {"TableStatus": "CREATING"}})
    faults.put(None, None, *[creating] * 10)
    with pytest.raises(Unknown, match="not active yet"):
        maker.begin("restored", PREFIX)


def test_a_table_that_is_not_seen_yet_is_waited_for(faults: Faults) -> None:
    maker = DynamoRestore(faults.caller, faults.effects)
    unseen = error_reply("ResourceNotFoundException")
    faults.put(None, None, unseen, unseen)
    assert not maker.begin("restored", PREFIX)
    assert [operation for operation, _ in faults.seen][-4:] == ["DescribeTable"] * 3 + ["PutItem"]
    assert stored_count("restored") == 1


# --- by ImportTable


def described(status: str, **more: object) -> tuple[int, dict[str, object]]:
    return 200, {"ImportTableDescription": {"ImportArn": "arn", "ImportStatus": status, **more}}


def test_an_import_is_awaited(faults: Faults) -> None:
    maker = DynamoRestore(faults.caller, faults.effects)
    faults.put(None, described("IN_PROGRESS"))
    began = maker.start_import("restored", "archives", "data/")
    told: list[int] = []
    faults.put(
        described("IN_PROGRESS", ImportedItemCount=3),
        described(
            "FAILED", ImportedItemCount=7, ErrorCount=2, FailureCode="S3", FailureMessage="no"
        ),
    )
    ended = maker.await_import(began, told.append)
    assert told == [3, 7]
    assert (ended.status, ended.imported, ended.errors) == ("FAILED", 7, 2)
    assert ended.problem == "S3: no"


def test_moto_imports_an_archive_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = archived()
    with mock_aws():
        s3 = make_client("s3")
        s3.create_bucket(Bucket="archives")
        for key in whole.bucket.list(""):
            s3.put_object(Bucket="archives", Key=key, Body=whole.bucket.get(key))
        made = Pipeline(Settings(bucket="archives"), SteadyEffects())
        data = whole.archive().data_prefix
        assert data
        ended = made.restore.await_import(
            made.restore.start_import("restored", "archives", data), lambda items: None
        )
        assert ended.status == "COMPLETED", ended
        assert ended.imported == len(whole.items())
        assert stored("restored") == by_key(whole.items())


def test_restored_tables_have_the_tags_and_the_key_of_the_settings(faults: Faults) -> None:
    maker = DynamoRestore(faults.caller, faults.effects, {"team": "elections"}, KEY)
    maker.begin("restored", PREFIX)

    table = faults.client.describe_table(TableName="restored")["Table"]
    listed = faults.client.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]
    assert {tag["Key"]: tag["Value"] for tag in listed} == {
        "team": "elections",
        "tallyroll-restored": PREFIX,
    }
    assert table["SSEDescription"]["KMSMasterKeyArn"] == KEY


def test_an_imported_table_is_encrypted_with_the_key_of_the_settings(faults: Faults) -> None:
    asked: list[dict[str, dict[str, object]]] = []
    faults.client.meta.events.register(
        "provide-client-params.dynamodb.ImportTable", lambda params, **_: asked.append(params)
    )
    for key in ("", KEY):
        faults.put(None, described("IN_PROGRESS"))
        maker = DynamoRestore(faults.caller, faults.effects, {"team": "elections"}, key)
        maker.start_import("restored", "archives", "data/")

    plain, encrypted = (one["TableCreationParameters"] for one in asked)
    keys = {"TableName", "KeySchema", "AttributeDefinitions", "BillingMode"}
    assert plain.keys() == keys
    assert encrypted.keys() == keys | {"SSESpecification"}
    assert encrypted["SSESpecification"] == {
        "Enabled": True,
        "SSEType": "KMS",
        "KMSMasterKeyId": KEY,
    }
