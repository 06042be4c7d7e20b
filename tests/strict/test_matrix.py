"""A window's whole life, from a message to the drop, with the roles of the synthesized template and
under every reading of AWS's documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tallyroll.adapters.dynamodb.exports import DynamoExports
from tallyroll.limits import QUEUE_MESSAGE_BYTES_MAX
from tallyroll.model.formats.references import Reference, object_key
from tallyroll.pipeline import Pipeline
from tests.faults.exactness import rolled_up, status_of
from tests.faults.lives import DAY_SEALED, NOW_WINDOW, event, live_on, queue_empty, turns
from tests.faults.world import BEGIN, _record
from tests.harness.pipeline import HOUR
from tests.infra.conftest import KEY, Synthesize
from tests.infra.templates import FUNCTIONS, Template
from tests.strict.gate import Asked, Gate
from tests.strict.roles import Role, Statement
from tests.strict.stage import Stage, staged
from tests.strict.values import READINGS, Account, Parts, Question, Reading, Refusal

pytestmark = pytest.mark.engine

Change = Callable[[Statement], Statement]
LARGE = "x" * (QUEUE_MESSAGE_BYTES_MAX - 99)  # with its reason too large for the queue
CALLED = {"a": (2, "3.5"), "b": (1, "1")}


def referring(stage: Stage) -> str:
    """An event whose payload is an uploaded object."""
    key = object_key(stage.settings.name, BEGIN, "0" * 64, "1")
    ref = Reference(stage.settings.bucket, key, 7, "0" * 64)
    return json.dumps({"v": 2, "key": "b", "id": "3", "ts": BEGIN, "payload_ref": ref.fields})


def noted(stage: Stage) -> None:
    """All that writers ever note, besides what they do in a life of some messages."""
    catalog, now = Pipeline(stage.settings, stage.time).catalog, stage.time.now()
    with stage.called_by("writer"):
        catalog.note_straggler(NOW_WINDOW, now)
        catalog.note_hot(NOW_WINDOW, ["a"])
        catalog.settle_mappings(now)


def read(stage: Stage) -> None:
    """Ask each route."""
    where = {"key": "a", "window": NOW_WINDOW}
    for path, parameters in (
        ("counters", {"key": "a"}),
        ("event", {**where, "id": "1"}),
        ("events", where),
        ("top", {"window": NOW_WINDOW}),
    ):
        status, answer = stage.ask(f"/v1/{path}", **parameters)
        assert status == 200, answer


def counted(stage: Stage) -> dict[str, tuple[int, str]]:
    """Each key's events and sum, as the API answers."""
    answers = {key: stage.ask("/v1/counters", key=key, consistent="true")[1] for key in CALLED}
    return {key: (answer["events"], answer["sum"]) for key, answer in answers.items()}


def written(stage: Stage) -> None:
    """Open a window, and have some messages counted and rejected."""
    turns(stage, lambda: status_of(stage, NOW_WINDOW) == "open", stage.roll)
    stage.send(event("a", "1", BEGIN), event("a", "2", BEGIN, value=2.5), referring(stage))
    stage.send("no JSON", LARGE)
    turns(stage, lambda: queue_empty(stage), stage.poll)


def lived(stage: Stage) -> None:
    """Let a window be opened, written, read, sealed, archived, proven and dropped, and its day be
    rolled up.
    """
    written(stage)
    noted(stage)
    read(stage)
    live_on(stage)
    assert status_of(stage, NOW_WINDOW) == "dropped"
    assert counted(stage) == CALLED


def export_keys(stage: Stage) -> set[str | None]:
    """The KMS keys of all objects that DynamoDB's exports left; None for S3's own key."""
    s3, bucket = stage.raw.s3, stage.settings.bucket
    left = [key for key in stage.raw.keys_in(bucket, "archive/") if "/AWSDynamoDB/" in key]
    assert len(left) >= 3, "data and two manifests"
    return {s3.head_object(Bucket=bucket, Key=key).get("SSEKMSKeyId") for key in left}


@dataclass(frozen=True)
class Lived:
    """What a life asked, the roles that it had, and the keys of DynamoDB's exports in it."""

    asked: set[Asked]
    refused: list[tuple[str, Refusal]]
    roles: dict[str, Role]
    export_keys: set[str | None] = field(default_factory=set)


def of_life(gate: Gate) -> Lived:
    return Lived(gate.asked, gate.refused, dict(gate.roles))


@pytest.fixture(scope="module")
def plain(dynamodb_endpoint: str, synthesize: Synthesize) -> Lived:
    """A life with notes of throttled keys, reads of archives and metrics, and a rolled-up day."""
    template = synthesize(contributor_insights="true", read_archives="true")
    chosen: dict[str, Any] = {"contributor_insights": True, "read_archives": True}
    with staged(dynamodb_endpoint, template, **chosen) as stage:
        lived(stage)
        status, answer = stage.ask("/v1/events", key="a", since=NOW_WINDOW, archived="true")
        assert (status, [one["id"] for one in answer["events"]]) == (200, ["1", "2"])
        stage.time.pass_by(max(0, DAY_SEALED - stage.time.now()))
        stage.publish_ages()
        turns(stage, lambda: rolled_up(stage, BEGIN), stage.roll)
        return of_life(stage.gate)


@pytest.fixture(scope="module")
def keyed(dynamodb_endpoint: str, governed: Template) -> Lived:
    """A life under a customer managed key, whose windows DynamoDB exports."""
    with staged(dynamodb_endpoint, governed, kms_key=KEY, exporter="native") as stage:
        lived(stage)
        return replace(of_life(stage.gate), export_keys=export_keys(stage))


@pytest.mark.parametrize("life", ["plain", "keyed"])
def test_no_request_of_a_life_is_refused(life: str, request: pytest.FixtureRequest) -> None:
    found: Lived = request.getfixturevalue(life)
    assert found.refused == []
    assert {function for function, _, _ in found.asked} == set(FUNCTIONS)


def test_exports_lie_under_the_pipelines_key(keyed: Lived) -> None:
    assert keyed.export_keys == {KEY}


def test_an_export_that_names_no_key_lies_under_s3s_own(
    dynamodb_endpoint: str, governed: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the bucket's default is: DynamoDB API Reference, ExportTableToPointInTime."""
    monkeypatch.setattr(DynamoExports, "_encryption", lambda _: {})
    with staged(dynamodb_endpoint, governed, kms_key=KEY, exporter="native") as stage:
        lived(stage)
        assert export_keys(stage) == {None}


@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_each_reading_asks_otherwise(plain: Lived, reading: Reading) -> None:
    """Or the life would prove nothing about it."""

    def asked(reading: Reading) -> set[tuple[str, Question]]:
        return {(function, one) for function, its, one in plain.asked if its == reading}

    others = [
        replace(reading, checks_enclosed=not reading.checks_enclosed),
        *(replace(reading, parts=parts) for parts in Parts if parts is not reading.parts),
    ]
    if reading.parts is not Parts.NONE:  # then parts have no attributes
        others.append(replace(reading, conditions_count=not reading.conditions_count))
    assert all(asked(other) != asked(reading) for other in others)


# --- planted violations


def without(action: str) -> Change:
    """A role that lost an action."""
    return lambda one: {**one, "Action": [each for each in one["Action"] if each != action]}


def where(action: str, *texts: str, **condition: Any) -> Change:
    """A role whose statements with this action, and with these texts in their condition, have
    another condition.
    """

    def changed(one: Statement) -> Statement:
        said = json.dumps(one["Condition"])
        meant = action in one["Action"] and all(text in said for text in texts)
        return {**one, "Condition": condition} if meant else one

    return changed


ENCLOSED = {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
MARKS = {"dynamodb:LeadingKeys": ["~payloads.*"]}
OF_ALL, OF_ANY = ("~payloads", "ForAllValues"), ("~payloads", "ForAnyValue:StringLike")


@dataclass(frozen=True)
class Planted:
    """A change of a function's role, which actions are refused then, and under which readings."""

    life: str
    function: str
    change: Change
    refused: str  # separated by blanks
    under: Callable[[Reading], bool] = lambda _: True


PLANTED = {
    "single items: an attribute is not named": Planted(
        "plain",
        "writer",
        where(
            "dynamodb:UpdateItem",
            "dynamodb:Attributes",
            **{"ForAllValues:StringEquals": {"dynamodb:Attributes": ["pk", "sk", "at", "keys"]}},
        ),
        "dynamodb:UpdateItem",
    ),
    "single items: one that returns attributes": Planted(
        "plain",
        "writer",
        where("dynamodb:Query", StringEqualsIfExists={"dynamodb:ReturnValues": "NONE"}),
        "dynamodb:UpdateItem",
    ),
    "transactions: a check must be enclosed": Planted(
        "plain",
        "writer",
        where("dynamodb:ConditionCheckItem", **{"ForAnyValue:StringEquals": ENCLOSED}),
        "dynamodb:ConditionCheckItem",
        lambda reading: not reading.checks_enclosed,
    ),
    "transactions: marks have leading keys": Planted(
        "plain",
        "writer",
        where("dynamodb:PutItem", *OF_ALL, **{"ForAnyValue:StringLike": MARKS}),
        "dynamodb:PutItem",
        lambda reading: reading.parts is Parts.NONE,
    ),
    "transactions: all leading keys are those of marks": Planted(
        "plain",
        "writer",
        where("dynamodb:PutItem", *OF_ANY, **{"ForAllValues:StringLike": MARKS}),
        "dynamodb:PutItem",
        lambda reading: reading.parts is Parts.ALL,
    ),
    "many items: other partition keys": Planted(
        "plain",
        "aggregator",
        where("dynamodb:BatchGetItem", **{"ForAllValues:StringLike": MARKS}),
        "dynamodb:BatchGetItem dynamodb:GetItem dynamodb:Query",
    ),
    "tables: another tag": Planted(
        "plain",
        "dropper",
        where("dynamodb:DeleteTable", Null={"aws:ResourceTag/other": "false"}),
        "dynamodb:DeleteTable dynamodb:UpdateTable",
    ),
    "new tables: no tags": Planted(
        "plain", "roller", without("dynamodb:TagResource"), "dynamodb:TagResource"
    ),
    "tagging: another tag": Planted(
        "plain",
        "cleanup",
        where("dynamodb:TagResource", **{"ForAllValues:StringEquals": {"aws:TagKeys": ["other"]}}),
        "dynamodb:TagResource",
    ),
    "exports: no access control lists": Planted(
        "keyed", "cleanup", without("s3:PutObjectAcl"), "s3:PutObjectAcl"
    ),
    "messages: none is deleted": Planted(
        "plain", "writer", without("sqs:DeleteMessage"), "sqs:DeleteMessage"
    ),
    "objects: none is listed": Planted(
        "plain", "cleanup", without("s3:ListBucket"), "s3:ListBucket"
    ),
    "archives: a reader cannot get": Planted(
        "plain", "aggregator", without("s3:GetObject"), "s3:GetObject"
    ),
    "objects: notes get no tag": Planted(
        "plain", "cleanup", without("s3:PutObjectTagging"), "s3:PutObjectTagging"
    ),
    "metrics: on a resource": Planted(
        "plain",
        "roller",
        lambda one: {
            **one,
            "Resource": [f"arn:{each}" if each == "*" else each for each in one["Resource"]],
        },
        "cloudwatch:GetMetricStatistics",
    ),
    "chosen keys: no grant": Planted(
        "keyed", "roller", without("kms:CreateGrant"), "kms:CreateGrant"
    ),
    "chosen keys: a grant of one's own": Planted(
        "keyed",
        "roller",
        where("kms:CreateGrant", Bool={"kms:GrantIsForAWSResource": "false"}),
        "kms:CreateGrant",
    ),
    "chosen keys: no key without plain text": Planted(
        "keyed",
        "roller",
        without("kms:GenerateDataKeyWithoutPlaintext"),
        "kms:GenerateDataKeyWithoutPlaintext",
    ),
    "table keys: a reader cannot decrypt": Planted(
        "keyed", "aggregator", without("kms:Decrypt"), "kms:Decrypt"
    ),
    "table keys: a dropper cannot decrypt": Planted(
        "keyed", "dropper", without("kms:Decrypt"), "kms:Decrypt"
    ),
    "queue keys: a producer cannot generate": Planted(
        "keyed", "writer", without("kms:GenerateDataKey"), "kms:GenerateDataKey"
    ),
    "object keys: an archive is not encrypted": Planted(
        "keyed", "cleanup", without("kms:GenerateDataKey"), "kms:GenerateDataKey"
    ),
}


def refused_by(found: Lived, function: str, change: Change) -> tuple[set[str], set[Reading]]:
    """What a changed role would have refused of a life: actions, and under which readings."""
    changed = Role(tuple(map(change, found.roles[function].statements)))
    refused = [
        (reading, one.action)
        for caller, reading, one in found.asked
        if caller == function and not changed.may(one)
    ]
    return {action for _, action in refused}, {reading for reading, _ in refused}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_caught(name: str, request: pytest.FixtureRequest) -> None:
    plant = PLANTED[name]
    found: Lived = request.getfixturevalue(plant.life)

    actions, readings = refused_by(found, plant.function, plant.change)

    assert actions == set(plant.refused.split())
    assert readings == {its for its in READINGS if plant.under(its)}


# --- refusals that the functions meet


def test_without_tag_control_a_window_stays_and_the_doctor_says_why(
    dynamodb_endpoint: str, template: Template, capsys: pytest.CaptureFixture[str]
) -> None:
    with staged(dynamodb_endpoint, template, Account(tag_control=False)) as stage:
        written(stage)
        live_on(stage, "sealed")
        turns(stage, lambda: status_of(stage, NOW_WINDOW) == "dropping", stage.clean)
        stage.time.pass_by(2 * HOUR)
        stage.clean()
        stage.clean()

        assert {refusal.code for _, refusal in stage.gate.refused} == {"AccessDeniedException"}
        assert {function for function, _ in stage.gate.refused} == {"dropper"}
        assert status_of(stage, NOW_WINDOW) == "dropping"
        assert counted(stage) == CALLED
        capsys.readouterr()
        stage.command("--json", "doctor")
        lines = map(json.loads, capsys.readouterr().out.splitlines())
        checks = {one["check"]: one for one in lines}
        assert checks["stuck"]["level"] == "finding"
        assert "attribute-based access control" in json.dumps(checks["stuck"])
        found = of_life(stage.gate)
        asking_for_tags = where("dynamodb:TagResource", Null={"aws:TagKeys": "false"})
        assert refused_by(found, "roller", asking_for_tags)[0] == {"dynamodb:TagResource"}

        stage.gate.account = replace(stage.gate.account, tag_control=True)
        turns(stage, lambda: status_of(stage, NOW_WINDOW) == "dropped", stage.clean)


def test_a_writer_that_may_not_decrypt_counts_nothing_and_loses_nothing(
    dynamodb_endpoint: str, governed: Template
) -> None:
    def blind(roles: dict[str, Role]) -> dict[str, Role]:
        change = without("kms:Decrypt")
        return {**roles, "writer": Role(tuple(map(change, roles["writer"].statements)))}

    with staged(dynamodb_endpoint, governed, changed=blind, kms_key=KEY) as stage:
        turns(stage, lambda: status_of(stage, NOW_WINDOW) == "open", stage.roll)
        stage.send(event("a", "1", BEGIN))
        with pytest.raises(ClientError, match="KmsAccessDenied"):
            stage.poll()
        received = stage.raw.sqs.receive_message(
            QueueUrl=stage.settings.queue_url, MessageSystemAttributeNames=["All"]
        )
        record = _record(received["Messages"][0])
        answer = stage.invoke("writer", {"Records": [record]})
        assert answer
        assert [one["itemIdentifier"] for one in answer["batchItemFailures"]] == [
            record["messageId"]
        ]
        assert "KMS key access denied" in stage.gate.refused[-1][1].message
        assert counted(stage)["a"] == (0, "0")
