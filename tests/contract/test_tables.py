"""Window tables themselves: checked, made recoverable, resized; gates of an earlier pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from moto import mock_aws

from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.dynamodb.requests import tags_of
from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.adapters.dynamodb.tables import DynamoTables
from tallyroll.adapters.memory import MemoryStore
from tallyroll.errors import Missing, Refused, Throttled
from tallyroll.pipeline import Pipeline
from tallyroll.ports.store import Store, Verdict
from tallyroll.ports.table_listing import TableFacts, TableStatus
from tallyroll.settings import Settings
from tests.contract.engines import Engine, commit, record
from tests.contract.faults import Faults, error_reply
from tests.harness.pipeline import spec_of

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234"
BACKUPS = "ContinuousBackupsUnavailableException"


def _foreign(engine: Engine, table: str) -> None:
    """A table of that name that somebody else made, with a number for a sort key."""
    if isinstance(engine.store, MemoryStore):
        engine.store.make_table(table, {"tallyroll": engine.prefix})
        engine.store.table(table).foreign = "its AttributeDefinitions are others"
        return
    keys = (("pk", "HASH", "S"), ("sk", "RANGE", "N"))
    make_client("dynamodb").create_table(
        TableName=table,
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind, _ in keys],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": kind} for name, _, kind in keys
        ],
        BillingMode="PAY_PER_REQUEST",
        Tags=[{"Key": "tallyroll", "Value": engine.prefix}],
    )


def test_a_table_of_ours_passes(engine: Engine) -> None:
    spec = engine.made()
    engine.store.check_table(spec.table, {"tallyroll": engine.prefix})
    engine.store.recover_table(spec.table)
    engine.store.recover_table(spec.table)
    facts = engine.store.describe_table(spec.table)
    assert facts
    assert facts.protected


def test_a_table_of_another_schema_is_refused(engine: Engine) -> None:
    table = engine.spec().table
    _foreign(engine, table)
    with pytest.raises(Refused, match=f"table {table} .* AttributeDefinitions") as refused:
        engine.store.check_table(table, {"tallyroll": engine.prefix})
    assert refused.value.code == "NotOurs"


def test_a_table_with_another_tag_is_refused(engine: Engine) -> None:
    spec = engine.made()
    for tags in ({"tallyroll": "another"}, {"absent": "x"}):
        with pytest.raises(Refused, match="tag"):
            engine.store.check_table(spec.table, tags)


def test_a_table_that_is_not_there(engine: Engine) -> None:
    table = engine.spec().table
    for verb in (engine.store.check_table, engine.store.tag_table):
        with pytest.raises(Missing):
            verb(table, {"tallyroll": engine.prefix})


def test_a_half_made_table_is_protected_again(engine: Engine) -> None:
    spec = engine.made()
    if isinstance(engine.store, MemoryStore):
        engine.store.table(spec.table).protected = False
    else:
        make_client("dynamodb").update_table(TableName=spec.table, DeletionProtectionEnabled=False)
    engine.store.check_table(spec.table, {"tallyroll": engine.prefix})
    facts = engine.store.describe_table(spec.table)
    assert facts
    assert facts.protected


def test_a_table_that_an_earlier_pipeline_used_is_refused(engine: Engine) -> None:
    spec = engine.opened()
    tags = {"tallyroll": engine.prefix}
    with pytest.raises(Refused, match=f"{spec.table} is there, with gates"):
        engine.store.check_table(spec.table, tags)

    engine.store.shut_gates(spec)
    for verb in (engine.store.open_gates, lambda of: engine.store.check_table(of.table, tags)):
        with pytest.raises(Refused, match=f"{spec.table} is there, with gates") as refused:
            verb(spec)
        assert refused.value.code == "UsedBefore"


PROVISIONED = {"write": 50, "read": 20, "cold_write": 5, "cold_read": 2}


def test_provisioned_tables_are_cooled(engine: Engine) -> None:
    store, spec = engine.store, engine.spec()
    if isinstance(store, DynamoStore):
        settings = Settings(name=engine.prefix, provisioned=PROVISIONED)
        store = Pipeline(settings, engine.effects).store
    store.make_table(spec.table, {"tallyroll": engine.prefix})
    assert _is_cold(store, spec.table) is False
    store.reduce_capacity(spec.table)
    store.reduce_capacity(spec.table)
    assert _is_cold(store, spec.table) is True


def test_a_window_table_has_the_tags_and_the_key_of_the_settings(engine: Engine) -> None:
    """And one that was made before these settings stays usable."""
    if not isinstance(engine.store, DynamoStore):
        return  # the memory's tables have neither
    old, spec = engine.made(), replace(engine.spec(), table=f"{engine.prefix}-governed")
    tags = {"tallyroll": engine.prefix}
    settings = Settings(
        name=engine.prefix, tags={"team": "elections"}, kms_key=KEY, deny_drops=True
    )
    store = Pipeline(settings, engine.effects).store
    assert isinstance(store, DynamoStore)

    store.make_table(spec.table, tags)
    for table in (old.table, spec.table):
        store.check_table(table, tags)
    store.open_gates(old)
    assert commit(store, old, record(old, "k", "e1")).verdict is Verdict.COMMITTED

    found = make_client("dynamodb").describe_table(TableName=spec.table)["Table"]
    named = tags_of(store._caller, found["TableArn"])
    assert named in ({"team": "elections", **tags}, None)  # DynamoDB Local has no tags
    if "SSEDescription" in found:  # nor keys
        assert found["SSEDescription"]["KMSMasterKeyArn"] == KEY


def _is_cold(store: Store, table: str) -> bool:
    if isinstance(store, MemoryStore):
        return store.table(table).cooled
    described = make_client("dynamodb").describe_table(TableName=table)["Table"]
    units = described["ProvisionedThroughput"]
    found = units["WriteCapacityUnits"], units["ReadCapacityUnits"]
    return {(50, 20): False, (5, 2): True}[found]


@pytest.fixture
def tables() -> Any:
    """Window tables on moto, before which replies can be put."""
    with mock_aws():
        faults = Faults()
        made = DynamoTables(faults.caller, faults.effects, Settings(warm_units=20_000))
        made.make_table("t", {"tallyroll": "tallyroll"})
        yield made, faults


def test_warm_throughput_is_asked_for_and_point_in_time_recovery_switched_on(tables: Any) -> None:
    made, faults = tables
    made.recover_table("t")
    described = faults.client.describe_table(TableName="t")["Table"]
    assert described["WarmThroughput"]["WriteUnitsPerSecond"] == 20_000
    backups = faults.client.describe_continuous_backups(TableName="t")
    recovery = backups["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    assert recovery["PointInTimeRecoveryStatus"] == "ENABLED"


@pytest.mark.parametrize(
    ("reply", "tries", "told"),
    [
        ((200, {"ContributorInsightsStatus": "ENABLING"}), 1, False),
        (error_reply("AccessDeniedException"), 1, True),
        (error_reply("ResourceNotFoundException"), 1, True),
        (error_reply("LimitExceededException"), 4, True),
        (error_reply("InternalServerError", 500), 4, True),
        (error_reply("UnknownOperationException"), 1, False),  # of DynamoDB Local
    ],
)
def test_throttled_keys_are_noted_where_that_is_asked_for_and_nothing_waits_for_it(
    caplog: pytest.LogCaptureFixture, reply: Any, tries: int, *, told: bool
) -> None:
    asked: list[dict[str, Any]] = []
    with mock_aws():
        faults = Faults()
        faults.client.meta.events.register(
            "provide-client-params.dynamodb.UpdateContributorInsights",
            lambda params, **_: asked.append(params),
        )
        for table, settings in (("a", Settings()), ("b", Settings(contributor_insights=True))):
            made = DynamoTables(faults.caller, faults.effects, settings)
            made.make_table(table, {"tallyroll": "tallyroll"})
            faults.put(None, None, None)  # the table, its tags and its gates are looked at
            if settings.contributor_insights:
                faults.put(*[reply] * tries)
            made.check_table(table, {"tallyroll": "tallyroll"})
    assert asked == tries * [
        {
            "TableName": "b",
            "ContributorInsightsAction": "ENABLE",
            "ContributorInsightsMode": "THROTTLED_KEYS",
        }
    ]
    assert ("Contributor Insights of table b: " in caplog.text) is told


def test_keys_are_noted_until_the_gates_are_shut() -> None:
    asked: list[tuple[str, str]] = []
    with mock_aws():
        faults = Faults()
        faults.client.meta.events.register(
            "provide-client-params.dynamodb.UpdateContributorInsights",
            lambda params, **_: asked.append(
                (params["TableName"], params["ContributorInsightsAction"])
            ),
        )
        for settings in (Settings(), Settings(contributor_insights=True)):
            spec = spec_of(gates=1, table=f"tallyroll-{settings.contributor_insights}")
            store = DynamoStore(faults.caller, faults.effects, settings)
            store.make_table(spec.table, {})
            faults.put(None)  # the gate
            if settings.contributor_insights:
                faults.put(error_reply("AccessDeniedException"))
            store.shut_gates(spec)
    assert asked == [("tallyroll-True", "DISABLE")]


def test_tags_and_key_are_asked_for_when_a_table_is_made() -> None:
    asked: list[dict[str, Any]] = []
    with mock_aws():
        for settings in (Settings(), Settings(tags={"team": "elections"}, kms_key=KEY)):
            faults = Faults()
            faults.client.meta.events.register(
                "provide-client-params.dynamodb.CreateTable",
                lambda params, **_: asked.append(params),
            )
            table = f"t{len(asked)}"
            made = DynamoTables(faults.caller, faults.effects, settings)
            made.make_table(table, {"tallyroll": "tallyroll"})
            described = faults.client.describe_table(TableName=table)["Table"]
            found = described.get("SSEDescription", {}).get("KMSMasterKeyArn", "")
            assert found == settings.kms_key
    plain, governed = asked
    assert plain.keys() == {
        *("TableName", "KeySchema", "AttributeDefinitions", "BillingMode"),
        *("DeletionProtectionEnabled", "Tags"),
    }
    assert plain["Tags"] == [{"Key": "tallyroll", "Value": "tallyroll"}]
    assert governed["Tags"] == [
        {"Key": "team", "Value": "elections"},
        {"Key": "tallyroll", "Value": "tallyroll"},
    ]
    assert governed["SSESpecification"] == {
        "Enabled": True,
        "SSEType": "KMS",
        "KMSMasterKeyId": KEY,
    }


def test_backups_that_are_only_being_enabled_are_tried_again_later(tables: Any) -> None:
    made, faults = tables
    faults.put(error_reply(BACKUPS))
    with pytest.raises(Throttled, match=BACKUPS):
        made.recover_table("t")


def test_what_the_engine_does_not_know_is_passed_over(tables: Any) -> None:
    made, faults = tables
    faults.put(error_reply("UnknownOperationException"))
    made.recover_table("t")
    faults.put(None, error_reply("UnknownOperationException"))
    made.check_table("t", {"tallyroll": "another"})  # describes, lists tags, looks for gates
    faults.put(error_reply("AccessDeniedException"))
    with pytest.raises(Refused):
        made.recover_table("t")


def test_tags_come_by_pages(tables: Any) -> None:
    made, faults = tables
    first = {"Tags": [{"Key": "a", "Value": "1"}], "NextToken": "more"}
    faults.put(None, (200, first), (200, {"Tags": [{"Key": "tallyroll", "Value": "x"}]}))
    made.check_table("t", {"a": "1", "tallyroll": "x"})


def test_a_table_is_warmed_and_never_cooled(tables: Any) -> None:
    made, faults = tables
    assert made.describe_table("t") == TableFacts(TableStatus.ACTIVE, protected=True, warm=20_000)
    made.warm_table("t", 30_000)
    assert made.describe_table("t").warm == 30_000
    faults.put(error_reply("ValidationException"))  # as AWS; moto takes a lower one
    with pytest.raises(Refused):
        made.warm_table("t", 10_000)
    faults.put(error_reply("ResourceInUseException"))
    with pytest.raises(Throttled):
        made.warm_table("t", 40_000)
    assert made.describe_table("t").warm == 30_000


def test_a_table_that_is_being_warmed_says_so(tables: Any) -> None:
    made, faults = tables
    warm = {"WriteUnitsPerSecond": 30_000, "Status": "UPDATING"}
    on_demand = {"BillingMode": "PAY_PER_REQUEST"}
    table = {"TableStatus": "ACTIVE", "WarmThroughput": warm, "BillingModeSummary": on_demand}
    faults.put((200, {"Table": table}))
    facts = TableFacts(TableStatus.ACTIVE, protected=False, warm=30_000, warming=True)
    assert made.describe_table("t") == facts


def test_an_engine_that_tells_no_warm_throughput(tables: Any) -> None:
    """A table of DynamoDB without a billing mode is provisioned (API Reference, DescribeTable)."""
    made, faults = tables
    faults.put((200, {"Table": {"TableStatus": "ACTIVE"}}))
    facts = TableFacts(TableStatus.ACTIVE, protected=False, provisioned=True)
    assert made.describe_table("t") == facts
