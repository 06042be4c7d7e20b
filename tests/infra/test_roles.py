"""What each role is allowed, and what it is denied, judged as IAM would.

The requests are those that the functions really make, recorded on moto; and those that they must
not be able to make.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.client import BaseClient
from moto import mock_aws

from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.catalog_items import MONTHS_LIKE, month_key
from tallyroll.model.formats.references import PAYLOADS_PREFIX, Reference
from tallyroll.model.messages import Message
from tallyroll.model.states import Status
from tallyroll.model.windows import WindowId, iso
from tallyroll.pipeline import Pipeline
from tallyroll.ports.rate import RateLine, Turn
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.contract.engines import SteadyEffects
from tests.infra.conftest import Synthesize
from tests.infra.operations import needs
from tests.infra.policies import Context, Role, UnknownOperatorError, meets
from tests.infra.templates import FUNCTIONS, Template, actions, statements

MONTH = "2026-11"
OF_TRANSACTION = {"ConditionCheck": "ConditionCheckItem", "Put": "PutItem", "Update": "UpdateItem"}
IN_TRANSACTION = {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
TAGGED = {"aws:ResourceTag/proven": "an attempt"}
Asked = tuple[str, str, Context]
"""An action, where, and the condition keys of the request."""
Sent = tuple[str, str, dict[str, Any]]
"""A call as botocore has it: service, operation, parameters."""
SETTINGS = Settings(
    bucket="archives",
    shards=2,
    stripes_min=8,
    buckets=2,
    gates=2,
    retention_ms=0,
    settle_ms=0,
    transactions_at_once=1,
    export_segments=1,
    mapping={"key": "video"},
)


@pytest.fixture(scope="module")
def roles(template: Template) -> dict[str, Role]:
    return {name: Role(template, name) for name in FUNCTIONS}


# --- the requests that are made


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Sent]]:
    """The calls that botocore is asked for, on moto."""
    found: list[Sent] = []
    call = BaseClient._make_api_call  # type: ignore[attr-defined]

    def noted(self: BaseClient, operation: str, params: dict[str, Any]) -> Any:
        found.append((self.meta.service_model.service_name, operation, params))
        return call(self, operation, params)

    for name, value in (("AWS_DEFAULT_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "testing")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws():
        monkeypatch.setattr(BaseClient, "_make_api_call", noted)
        yield found


def lived(made: list[Sent], settings: Settings) -> dict[str, list[Sent]]:
    """Let a window be opened, written, sealed, archived and dropped; what each function called. The
    writer also marks an uploaded payload.
    """
    dynamodb = make_client("dynamodb")
    for table in declare(settings).permanent:
        dynamodb.create_table(**table_request(table))
    make_client("s3").create_bucket(Bucket=settings.bucket)
    url = make_client("sqs").create_queue(QueueName="events")["QueueUrl"]
    pipeline = Pipeline(replace(settings, queue_url=url, dead_letters_url=url), SteadyEffects())
    called: dict[str, list[Sent]] = {}

    def run(function: str, work: Any) -> None:
        made.clear()
        work()
        called.setdefault(function, []).extend(made)

    for _ in range(2):
        run("roller", lambda: pipeline.roller.run(60_000))
    now = pipeline.effects.now()
    body = json.dumps({"video": "a.b", "id": "1"})
    sent = (body, json.dumps(referring(now)), body)
    messages = [Message(f"m{n}", one, now, n, f"r{n}") for n, one in enumerate(sent, 1)]
    run("writer", lambda: pipeline.writer.write(messages, 60_000))
    open_ = pipeline.catalog.windows(0, now)[-1].id
    run("writer", lambda: _notes(pipeline, open_))
    [window] = [one for one in pipeline.catalog.windows(0, now) if one.status is Status.OPEN]
    times = {**window.times, Status.CLOSING: now}
    pipeline.catalog.advance(replace(window, status=Status.CLOSING, times=times))
    for _ in range(3):
        run("roller", lambda: pipeline.roller.run(60_000))
    run("cleanup", lambda: pipeline.cleanup.run(600_000))
    for _ in range(3):
        run("dropper", lambda: pipeline.dropper.run(60_000))
    run("aggregator", lambda: pipeline.reader.count("a.b", None, None, 60_000))
    state = pipeline.catalog.window(window.id)
    assert state
    assert state.status is Status.DROPPED
    return called


def referring(now: int) -> dict[str, Any]:
    """An event whose payload is an uploaded object."""
    sha256 = "0" * 64
    key = f"{PAYLOADS_PREFIX}/{SETTINGS.name}/{iso(now)[:10]}/{sha256}-1"
    ref = Reference(SETTINGS.bucket, key, 7, sha256)
    return {"v": 2, "key": "a.b", "id": "2", "payload_ref": ref.fields}


def _notes(pipeline: Pipeline, window: WindowId) -> None:
    """All that writers ever note."""
    catalog, now = pipeline.catalog, pipeline.effects.now()
    catalog.note_straggler(window, now)
    catalog.note_hot(window, ["a.b"], ["a.b"])
    catalog.settle_mappings(now)
    catalog.beat(now, finished=True)
    asked = now * 1_000
    for line in RateLine:
        catalog.take_turn(Turn(line, 1_000, asked, asked, asked + 10**9, asked + 10**10))


def requests_of(operation: str, params: dict[str, Any]) -> Iterator[Asked]:
    """What IAM is asked about one request of DynamoDB's items; nothing for all others."""
    if operation == "TransactWriteItems":
        parts = [part for action in params["TransactItems"] for part in action.items()]
        every = [key for _, given in parts for key in _of_item(given)["dynamodb:LeadingKeys"]]
        for part, given in parts:
            yield OF_TRANSACTION[part], _table(given["TableName"]), IN_TRANSACTION
            # Whatever the leading keys of a transaction are: nothing may depend on them.
            keyed = {**IN_TRANSACTION, **_of_item(given)}
            yield OF_TRANSACTION[part], _table(given["TableName"]), keyed
            if part == "ConditionCheck":  # AWS's reference lists no enclosing operation for it
                yield OF_TRANSACTION[part], _table(given["TableName"]), _of_item(given)
            together = {**keyed, "dynamodb:LeadingKeys": every}
            yield OF_TRANSACTION[part], _table(given["TableName"]), together
    elif operation == "BatchGetItem":
        for table, asked in params["RequestItems"].items():
            keys = [key["pk"]["S"] for key in asked["Keys"]]
            yield operation, _table(table), {"dynamodb:LeadingKeys": keys}
    elif operation == "Query":
        leading = [params["ExpressionAttributeValues"][":pk"]["S"]]
        yield operation, _table(params["TableName"]), {"dynamodb:LeadingKeys": leading}
    elif operation in ("DeleteItem", "GetItem", "PutItem", "UpdateItem"):
        yield operation, _table(params["TableName"]), _of_item(params)


def _of_item(params: dict[str, Any]) -> Context:
    item = params.get("Item") or params["Key"]
    named = [*item, *params.get("ExpressionAttributeNames", {}).values()]
    context = {"dynamodb:LeadingKeys": [item["pk"]["S"]], "dynamodb:Attributes": named}
    answer = params.get("ReturnValues")
    return {**context, "dynamodb:ReturnValues": answer} if answer else context


def _table(name: str) -> str:
    kept = {each.name for each in declare(replace(SETTINGS, identity="pipeline")).permanent}
    return name.removeprefix(f"{SETTINGS.name}-") if name in kept else "windows"


@pytest.mark.parametrize("identity", ["window", "pipeline"])
def test_every_request_is_allowed(
    request: pytest.FixtureRequest, made: list[Sent], identity: str
) -> None:
    """Of items under its conditions, any other one by the action that AWS's reference names."""
    fixture = "template" if identity == "window" else "remembering"
    template: Template = request.getfixturevalue(fixture)
    roles = {name: Role(template, name) for name in FUNCTIONS}
    called = lived(made, replace(SETTINGS, identity=identity))

    assert called.keys() == set(FUNCTIONS)
    for function, calls in called.items():
        allowed = {action for one in statements(template, function) for action in actions(one)}
        for service, operation, _ in calls:
            assert needs(service, operation) <= allowed, (function, operation)
    sent = {(service, operation) for calls in called.values() for service, operation, _ in calls}
    assert {service for service, _ in sent} == {"dynamodb", "s3", "sqs"}
    assert len(sent) > 20
    found = {
        function: [one for _, operation, params in calls for one in requests_of(operation, params)]
        for function, calls in called.items()
    }
    for function, asked in found.items():
        for action, where, context in asked:
            assert roles[function].may(f"dynamodb:{action}", where, context), (function, action)
    updated = [
        leading
        for action, where, context in found["writer"]
        if (action, where) == ("UpdateItem", "catalog")
        for leading in context["dynamodb:LeadingKeys"]
    ]
    assert {"~catalog", "~writers"} < set(updated)
    assert ("PutItem", "catalog", IN_TRANSACTION) in found["writer"]
    put = ("PutItem", "identities", IN_TRANSACTION) in found["writer"]
    assert put is (identity == "pipeline")
    assert len(found["writer"]) > 20


def test_the_roller_warms_a_table_by_the_rights_that_it_has_anyway(
    synthesize: Synthesize, template: Template, made: list[Sent]
) -> None:
    """The option changes no role: metrics are read, and tables changed, for other reasons too."""
    warming = synthesize(warm_units_max=9_000)
    for function in FUNCTIONS:
        assert statements(warming, function) == statements(template, function)
    settings = replace(SETTINGS, warm_units_max=9_000)
    for declared in declare(settings).permanent:
        make_client("dynamodb").create_table(**table_request(declared))
    url = make_client("sqs").create_queue(QueueName="events")["QueueUrl"]
    pipeline = Pipeline(replace(settings, queue_url=url), SteadyEffects())
    for _ in range(2):
        pipeline.roller.run(60_000)
    now = pipeline.effects.now()
    [window] = [one for one in pipeline.catalog.windows(0, now) if one.status is Status.OPEN]
    for name, value in (("WriteThrottleEvents", 9), ("ConsumedWriteCapacityUnits", 230_000)):
        make_client("cloudwatch").put_metric_data(
            Namespace="AWS/DynamoDB",
            MetricData=[
                {
                    "MetricName": name,
                    "Dimensions": [{"Name": "TableName", "Value": window.table}],
                    "Timestamp": datetime.fromtimestamp(now / 1000 - 120, UTC),
                    "Value": value,
                }
            ],
        )
    made.clear()
    rolled = pipeline.roller.run(60_000)

    assert (rolled.steps["warm"], rolled.problems) == (1, [])
    facts = pipeline.store.describe_table(window.table)
    assert facts
    assert facts.warm == 8_000
    allowed = {action for one in statements(template, "roller") for action in actions(one)}
    asked = {(service, operation) for service, operation, _ in made}
    assert {("cloudwatch", "GetMetricStatistics"), ("dynamodb", "UpdateTable")} <= asked
    assert {need for one in asked for need in needs(*one)} <= allowed


def test_the_pattern_of_months_is_the_one_of_their_keys() -> None:
    assert meets({"StringLike": {"key": MONTHS_LIKE}}, {"key": month_key("20261120T080000Z")})


# --- the requests that must not be


def item(pk: str, *attributes: str, **more: str) -> Context:
    """The condition keys of a single write."""
    named = ["pk", "sk", *attributes]
    return {"dynamodb:LeadingKeys": [pk], "dynamodb:Attributes": named, **more}


@pytest.mark.parametrize(
    ("action", "where", "context"),
    [
        ("PutItem", "windows", item("a.b.1")),
        ("UpdateItem", "windows", item("~g.1", "open")),
        ("UpdateItem", "windows", item("~t.1", "n", "v")),
        ("DeleteItem", "windows", item("a.b.1")),
        ("UpdateItem", "catalog", item("~periods", "at")),
        ("UpdateItem", "catalog", item("~claim#20261120T080000Z#k", "at")),
        ("UpdateItem", "catalog", item("~catalog", "lengths")),
        ("UpdateItem", "catalog", item(MONTH, "status", "version")),
        ("UpdateItem", "catalog", item(MONTH, "shards")),
        ("UpdateItem", "catalog", item(MONTH, "at", **{"dynamodb:ReturnValues": "ALL_NEW"})),
        ("UpdateItem", "catalog", {}),
        ("PutItem", "catalog", item(MONTH)),
        ("PutItem", "catalog", {}),
        ("PutItem", "catalog", item("~payloads.2026-11-20")),
        ("PutItem", "catalog", {**IN_TRANSACTION, **item(MONTH)}),
        ("PutItem", "catalog", {**IN_TRANSACTION, **item("~catalog")}),
        ("DeleteItem", "catalog", item("~claim#20261120T080000Z#k")),
        ("Query", "catalog", {"dynamodb:LeadingKeys": [MONTH]}),
        ("BatchGetItem", "totals", {"dynamodb:LeadingKeys": ["k"]}),
        ("PutItem", "totals", item("k")),
        ("UpdateItem", "totals", item("k", "n")),
    ],
)
def test_the_writer_is_kept_to_its_items(
    roles: dict[str, Role], action: str, where: str, context: Context
) -> None:
    assert not roles["writer"].may(f"dynamodb:{action}", where, context)


def test_an_identity_is_put_with_its_record_alone_and_never_changed(remembering: Template) -> None:
    writer, key = Role(remembering, "writer"), {"dynamodb:LeadingKeys": ["a hash"]}
    assert writer.may("dynamodb:PutItem", "identities", {**IN_TRANSACTION, **key})
    assert not writer.may("dynamodb:PutItem", "identities", key)
    for verb in ("UpdateItem", "DeleteItem"):
        for context in (key, {**IN_TRANSACTION, **key}):
            assert not writer.may(f"dynamodb:{verb}", "identities", context)
    for name in FUNCTIONS:
        for verb in ("DeleteTable", "UpdateTable", "UpdateTimeToLive", "Scan", "Query"):
            assert not Role(remembering, name).may(f"dynamodb:{verb}", "identities", TAGGED)


@pytest.mark.parametrize("tags", [{}, TAGGED], ids=["untagged", "tagged"])
def test_the_one_that_proves_deletes_nothing(roles: dict[str, Role], tags: Context) -> None:
    for verb in ("DeleteTable", "UpdateTable", "UntagResource", "DeleteResourcePolicy"):
        assert not roles["cleanup"].may(f"dynamodb:{verb}", "windows", tags)


def test_the_one_that_proves_tags_and_writes_archives(roles: dict[str, Role]) -> None:
    proving = roles["cleanup"]
    assert proving.may("dynamodb:TagResource", "windows", {"aws:TagKeys": ["proven"]})
    assert not proving.may("dynamodb:TagResource", "windows", {"aws:TagKeys": ["proven", "a"]})
    assert proving.may("s3:PutObject", "objects")


def test_the_one_that_deletes_needs_the_tag(roles: dict[str, Role]) -> None:
    for verb in ("DeleteTable", "UpdateTable"):
        assert roles["dropper"].may(f"dynamodb:{verb}", "windows", TAGGED)
        assert not roles["dropper"].may(f"dynamodb:{verb}", "windows")


def test_the_one_that_deletes_proves_nothing(roles: dict[str, Role]) -> None:
    dropping = roles["dropper"]
    assert dropping.may("s3:GetObject", "objects")
    for verb in ("PutObject", "DeleteObject", "AbortMultipartUpload"):
        assert not dropping.may(f"s3:{verb}", "objects")
    for keys in (["proven"], []):
        assert not dropping.may("dynamodb:TagResource", "windows", {"aws:TagKeys": keys})
    for verb in ("UntagResource", "PutItem", "UpdateItem", "DeleteItem", "Scan"):
        assert not dropping.may(f"dynamodb:{verb}", "windows", {**TAGGED, **item("k.1")})


@pytest.mark.parametrize("name", ["cleanup", "dropper"])
@pytest.mark.parametrize("pk", ["~catalog", "~writers", "~periods", "~claim#20261120T080000Z#k"])
def test_cleanup_and_dropper_write_states_of_windows_alone(
    roles: dict[str, Role], name: str, pk: str
) -> None:
    assert roles[name].may("dynamodb:PutItem", "catalog", item(MONTH))
    for verb in ("PutItem", "UpdateItem", "DeleteItem"):
        assert not roles[name].may(f"dynamodb:{verb}", "catalog", item(pk))
    assert not roles[name].may("dynamodb:PutItem", "catalog")


# --- the judge itself


@pytest.mark.parametrize(
    ("conditions", "context", "met"),
    [
        ({}, {}, True),
        ({"StringEquals": {"k": "a"}}, {"k": "a"}, True),
        ({"StringEquals": {"k": "a"}}, {"k": "ab"}, False),
        ({"StringEquals": {"k": "a"}}, {}, False),
        ({"StringEqualsIfExists": {"k": "a"}}, {}, True),
        ({"StringEqualsIfExists": {"k": ["a", "b"]}}, {"k": "c"}, False),
        ({"StringLike": {"k": "a?c*"}}, {"k": "abcde"}, True),
        ({"StringLike": {"k": "a?c"}}, {"k": "ac"}, False),
        ({"StringLike": {"k": "[a]"}}, {"k": "a"}, False),
        ({"ForAllValues:StringLike": {"k": "a*"}}, {"k": ["a", "ab"]}, True),
        ({"ForAllValues:StringLike": {"k": "a*"}}, {"k": ["a", "b"]}, False),
        ({"ForAllValues:StringLike": {"k": "a*"}}, {}, True),
        ({"ForAnyValue:StringEquals": {"k": ["a"]}}, {"k": ["b", "a"]}, True),
        ({"ForAnyValue:StringEquals": {"k": ["a"]}}, {}, False),
        ({"Null": {"k": "false"}}, {}, False),
        ({"Null": {"k": "false"}}, {"k": "a"}, True),
        ({"Null": {"k": "true"}}, {}, True),
        ({"Null": {"k": "true"}}, {"k": ["a"]}, False),
        ({"StringEquals": {"k": "a", "l": "b"}}, {"k": "a"}, False),
    ],
)
def test_conditions_are_judged_as_by_iam(
    conditions: dict[str, dict[str, Any]], context: Context, *, met: bool
) -> None:
    assert meets(conditions, context) is met


@pytest.mark.parametrize("operator", ["NumericEquals", "ForNoValue:StringEquals"])
def test_a_condition_that_the_judge_does_not_know_is_no_answer(operator: str) -> None:
    with pytest.raises(UnknownOperatorError):
        meets({operator: {"k": "a"}}, {"k": "a"})
