"""The doctor's checks of a deployment, by what a test has put there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.memory import MemoryListing
from tallyroll.errors import Missing, Refused
from tallyroll.model.states import Status
from tallyroll.operations.doctor.alarm_checks import ASKED
from tallyroll.operations.doctor.checkup import Check, Level, Sign
from tallyroll.operations.doctor.examine import examine
from tallyroll.operations.doctor.policies import denials
from tallyroll.operations.doctor.rights import COMPACTOR, PACKAGES, SCHEDULED
from tallyroll.ports.stack import (
    AlarmCard,
    EventSource,
    FunctionCard,
    QueueRules,
    ScheduleCard,
    Subscription,
)
from tallyroll.ports.table_listing import TableCard
from tallyroll.resources import declare
from tests.docs.commands import check, of_sentences
from tests.harness.doctoring import CLEAN, FakeStack, case_of, grown, listing_of, states
from tests.harness.pipeline import HOUR, NOW, Pipeline, StillEffects

QUEUE, LETTERS = "https://sqs/1/tallyroll-events", "https://sqs/1/tallyroll-dead-letters"
ARN = "arn:aws:sqs:us-east-1:1:tallyroll-events"
LAMBDA = "arn:aws:lambda:us-east-1:1:function:tallyroll-"


def role(package: str) -> str:
    return f"arn:aws:iam::1:role/{package}"


def card(package: str, **changes: Any) -> FunctionCard:
    plain = FunctionCard(f"tallyroll-{package}", "Active", "", role(package))
    return replace(plain, **changes)


def schedule(package: str, **changes: Any) -> ScheduleCard:
    name = f"tallyroll-{package}"
    plain = ScheduleCard(name, True, "rate(1 minute)", LAMBDA + package, role("scheduler"))
    return replace(plain, **changes)


UUID = "12345678-1234-1234-1234-123456789012"
SOURCE = EventSource(UUID, ARN, "Enabled", "", reports_failures=True, filtered=False)

TOPICS = [f"arn:aws:sns:us-east-1:1:tallyroll-{kind}" for kind in ("tickets", "alarms")]
NAMES = [f"tallyroll-{id_}" for id_ in ASKED]
ALARMS = [AlarmCard(name, True, [topic]) for name, topic in zip(NAMES, TOPICS, strict=True)]
HEARD = Subscription("email", "night@example.org", confirmed=True)


def whole(**changes: Any) -> FakeStack:
    """A deployment that is well, but for these changes."""
    plain: dict[str, Any] = {
        "functions": {package: card(package) for package in PACKAGES},
        "schedules": {package: schedule(package) for package in SCHEDULED},
        "feeding": [SOURCE],
        "alarming": ALARMS,
        "hearing": {topic: [HEARD] for topic in TOPICS},
    }
    return FakeStack(**{**plain, **changes})


class Rights:
    """Roles whose calls of `refused` are denied."""

    def __init__(self, *refused: str, error: Exception | None = None) -> None:
        self._refused, self._error = refused, error

    def denied(self, identity: str, wanted: dict[str, Sequence[str]]) -> list[str]:
        if self._error:
            raise self._error
        return [
            f"{action} on {arn}"
            for arn, actions in wanted.items()
            for action in actions
            if action in self._refused
        ]


@pytest.fixture
def pipeline() -> Pipeline:
    return grown(2)


def looked(pipeline: Pipeline, stack: FakeStack | None, **changes: Any) -> dict[str, Check]:
    settings = replace(pipeline.settings, queue_url=QUEUE, dead_letters_url=LETTERS)
    facts = {"settings": settings, "stack": stack, "deployed": True, "rights": Rights(), **changes}
    for table in pipeline.store.tables():
        pipeline.store.recover_table(table)
    return {each.name: each for each in examine(case_of(pipeline, **facts))}


def only(found: dict[str, Check], name: str, level: Level = Level.FINDING) -> Sign:
    bad = [(each.name, sign) for each in found.values() for sign in each.bad]
    assert len(bad) == 1, bad
    [(where, sign)] = bad
    assert (where, sign.level) == (name, level), sign
    for command in of_sentences(name, sign.remedy):
        check(command)
    return sign


def test_a_deployment_that_is_well(pipeline: Pipeline) -> None:
    for stack, deployed in ((whole(), True), (FakeStack(), False), (None, None)):
        found = looked(pipeline, stack, deployed=deployed)
        assert {each.level for each in found.values()} == {Level.OK}


def test_a_deployment_of_which_nothing_is_known(pipeline: Pipeline) -> None:
    found = looked(pipeline, whole(), deployed=None)
    unseen = {name for name, each in found.items() if each.level is Level.UNCHECKED}
    assert unseen == {"functions", "trigger", "schedules", "roles", "subscriptions"}


@pytest.mark.parametrize(
    ("changes", "level", "says"),
    [
        ({"state": "Failed", "reason": "no image"}, Level.FINDING, "is Failed: no image"),
        ({"reserved": 0}, Level.FINDING, "reserved concurrency is 0"),
        ({"state": "Pending"}, Level.WARNING, "is being made"),
        ({"reserved": 4, "state": "Inactive"}, Level.OK, ""),
    ],
)
def test_a_function(pipeline: Pipeline, changes: dict[str, Any], level: Level, says: str) -> None:
    functions = {package: card(package) for package in PACKAGES}
    found = looked(pipeline, whole(functions={**functions, "writer": card("writer", **changes)}))
    assert found["functions"].level is level
    if says:
        assert says in only(found, "functions", level).text
    del functions["aggregator"]
    gone = only(looked(pipeline, whole(functions=functions)), "functions")
    assert "there is no function tallyroll-aggregator" in gone.text


def test_where_parquet_is_made_its_function_is_looked_for(pipeline: Pipeline) -> None:
    pipeline.settings = replace(pipeline.settings, archive="both")
    found = looked(pipeline, whole())
    for what in ("function", "schedule"):
        assert f"there is no {what} tallyroll-compactor" in found[f"{what}s"].bad[0].text
    functions = {package: card(package) for package in (*PACKAGES, COMPACTOR)}
    schedules = {package: schedule(package) for package in (*SCHEDULED, COMPACTOR)}
    found = looked(pipeline, whole(functions=functions, schedules=schedules))
    assert [each.name for each in found.values() if each.bad] == []


def test_a_deployment_of_a_release_without_the_dropper(pipeline: Pipeline) -> None:
    functions = {package: card(package) for package in PACKAGES if package != "dropper"}
    schedules = {package: schedule(package) for package in SCHEDULED if package != "dropper"}
    older = looked(pipeline, whole(functions=functions, schedules=schedules))
    sign = only(older, "functions", Level.WARNING)
    assert "no function tallyroll-dropper, and no schedule for it" in sign.text
    assert sign.remedy.startswith("Deploy this release")
    gone = looked(pipeline, whole(functions=functions))
    assert "there is no function tallyroll-dropper" in only(gone, "functions").text
    idle = looked(pipeline, whole(schedules=schedules))
    assert "there is no schedule tallyroll-dropper" in only(idle, "schedules").text


@pytest.mark.parametrize(
    ("changes", "level", "says", "command"),
    [
        ({"state": "Disabled", "reason": "User"}, Level.FINDING, "is disabled (User)", "--enabled"),
        ({"state": "Disabling"}, Level.FINDING, "is disabling", "--enabled"),
        ({"state": "Updating"}, Level.WARNING, "is updating", "Look again"),
        ({"reports_failures": False}, Level.FINDING, "fail in part", "ReportBatchItemFailures"),
        ({"filtered": True}, Level.FINDING, "has a filter", "--filter-criteria '{ }'"),
        ({"queue": "arn:aws:sqs:us-east-1:1:another"}, Level.FINDING, "nothing takes", "drift"),
    ],
)
def test_an_event_source(
    pipeline: Pipeline, changes: dict[str, Any], level: Level, says: str, command: str
) -> None:
    sign = only(looked(pipeline, whole(feeding=[replace(SOURCE, **changes)])), "trigger", level)
    assert says in sign.text
    assert command in sign.remedy


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (None, "there is no schedule tallyroll-cleanup"),
        ({"enabled": False}, "is disabled: cleanup does not run"),
        ({"target": LAMBDA + "another"}, "calls arn:aws:lambda"),
    ],
)
def test_a_schedule(pipeline: Pipeline, changed: dict[str, Any] | None, says: str) -> None:
    schedules = {package: schedule(package) for package in SCHEDULED if package != "cleanup"}
    schedules["roller"] = schedule("roller", target=LAMBDA + "roller:live")
    if changed is not None:
        schedules["cleanup"] = schedule("cleanup", **changed)
    sign = only(looked(pipeline, whole(schedules=schedules)), "schedules")
    assert says in sign.text


@pytest.mark.parametrize(
    ("changes", "level", "says"),
    [
        ({"visibility_seconds": 30}, Level.FINDING, "hides messages for 30 s"),
        ({"retention_seconds": 345_600}, Level.FINDING, "keeps messages for 345,600 s"),
        ({"max_receives": 5}, Level.FINDING, "after 5 receives"),
        ({"max_receives": None}, Level.WARNING, "has no dead-letter queue"),
    ],
)
def test_rules_of_the_queue(
    pipeline: Pipeline, changes: dict[str, Any], level: Level, says: str
) -> None:
    rules = replace(QueueRules(ARN, "", 900, 864_000, 1_000), **changes)
    found = looked(pipeline, whole(rules={"tallyroll-events": rules}))
    assert says in only(found, "queue-rules", level).text
    longer = QueueRules(ARN, "", 1_000, 1_209_600, 1_000)
    found = looked(pipeline, whole(rules={"tallyroll-events": longer}))
    assert found["queue-rules"].level is Level.OK
    assert looked(pipeline, whole(), queue=None)["queue-rules"].level is Level.OK


def policy(**statement: Any) -> str:
    return json.dumps({"Statement": {"Effect": "Deny", "Principal": "*", **statement}})


def test_policies_in_the_way(pipeline: Pipeline) -> None:
    denied = QueueRules(ARN, policy(Action="sqs:Rec*"), 900, 864_000, 1_000)
    sign = only(looked(pipeline, whole(rules={"tallyroll-events": denied})), "policies")
    assert sign.text == "tallyroll-events: its policy denies sqs:ReceiveMessage"
    table = looked(pipeline, whole(policies={"": policy(Action="dynamodb:Query")}))
    assert "its policy denies dynamodb:Query" in table["policies"].bad[0].text
    assert len(table["policies"].bad) == 2 + sum(
        not status.sealed for status in states(pipeline).values()
    )
    refused = whole(policies={"": Refused("GetResourcePolicy: AccessDenied", "AccessDenied")})
    assert looked(pipeline, refused)["policies"].level is Level.UNCHECKED


def test_roles_that_deny(pipeline: Pipeline) -> None:
    sign = only(looked(pipeline, whole(), rights=Rights("sqs:ReceiveMessage")), "roles")
    assert sign.text == f"tallyroll-writer: its role denies sqs:ReceiveMessage on {ARN}"
    gone = Rights(error=Missing("SimulatePrincipalPolicy: NoSuchEntity", "NoSuchEntity"))
    signs = looked(pipeline, whole(), rights=gone)["roles"].bad
    assert [sign.level for sign in signs] == [Level.UNCHECKED] * len(PACKAGES)
    lacking = Rights(error=Missing("SimulatePrincipalPolicy: InvalidAction", "InvalidAction"))
    assert looked(pipeline, whole(), rights=lacking)["roles"].level is Level.OK
    without = {package: card(package, role="") for package in PACKAGES}
    found = looked(pipeline, whole(functions=without), rights=Rights("sqs:ReceiveMessage"))
    assert found["roles"].level is Level.OK
    assert looked(pipeline, whole(), rights=None)["roles"].level is Level.OK


BOTH = ["s3:GetObject", "s3:PutObject"]


@pytest.mark.parametrize(
    ("statement", "denied"),
    [
        ({"Action": "s3:Get*"}, ["s3:GetObject"]),
        ({"Action": ["s3:*"]}, BOTH),
        ({"NotAction": "s3:GetObject"}, ["s3:PutObject"]),
        ({"Action": "*", "Principal": {"AWS": ["arn:a", "arn:b"]}}, BOTH),
        ({"Action": "*", "Principal": {"AWS": "arn:b"}}, []),
        ({"Action": "*", "Principal": {"AWS": "*"}}, BOTH),
        ({"Action": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}, []),
        ({"Action": "*", "Effect": "Allow"}, []),
        ({"Action": "*", "Principal": None, "NotPrincipal": {"AWS": "arn:a"}}, []),
        ({"Action": "*", "Principal": None, "NotPrincipal": {"AWS": "arn:b"}}, BOTH),
        ({"Action": {"no": "texts"}}, []),
    ],
)
def test_what_a_policy_denies(statement: dict[str, Any], denied: list[str]) -> None:
    assert denials(policy(**statement), BOTH, ["arn:a"]) == denied
    assert denials("", BOTH, ["arn:a"]) == []


def test_the_table_of_identities() -> None:
    """Its throttles, its policy and the rights to it are looked at, if it is declared."""
    pipeline = grown(2, Pipeline(replace(CLEAN, identity="key"), StillEffects(NOW - 2 * HOUR)))
    table, tables = "tallyroll-identities", "arn:aws:dynamodb:us-east-1:1:table/"

    class Listing(MemoryListing):
        def card(self, table: str) -> TableCard | None:
            found = super().card(table)
            return replace(found, arn=f"{tables}{table}") if found else None

    listing = Listing(pipeline.store, declare(pipeline.settings).permanent)
    assert {each.level for each in looked(pipeline, whole(), tables=listing).values()} == {Level.OK}
    busy = whole(throttles={table: [(at, 2) for at in range(5)]})
    sign = only(looked(pipeline, busy, tables=listing), "throttles")
    assert sign.text.startswith(f"{table}: 10 requests")
    barred = whole(policies={f"{tables}{table}": policy(Action="dynamodb:PutItem")})
    sign = only(looked(pipeline, barred, tables=listing), "policies")
    assert sign.text == f"{table}: its policy denies dynamodb:PutItem"
    rights = looked(pipeline, whole(), tables=listing, rights=Rights("dynamodb:BatchGetItem"))
    denied = [one.text for one in rights["roles"].bad if f"on {tables}{table}" in one.text]
    assert [text.partition(":")[0] for text in denied] == [
        "tallyroll-writer",
        "tallyroll-aggregator",
    ]


def test_messages_in_flight_by_the_metric(pipeline: Pipeline) -> None:
    full = only(looked(pipeline, whole(hidden=118_000)), "queue")
    assert "SQS delivers no others" in full.text
    near = only(looked(pipeline, whole(hidden=100_000)), "queue", Level.WARNING)
    assert "at 120,000 delivery stops" in near.text


def refused(code: str) -> Refused:
    return Refused(f"ListObjectsV2: {code}", code)


BARRED = policy(Action="s3:ListBucket")


class Barred:
    """A bucket that answers every call with an error."""

    name = "archive"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def list(self, prefix: str, after: str = "") -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "policies", "level", "says"),
    [
        (Missing("ListObjectsV2: NoSuchBucket", "NoSuchBucket"), {}, Level.FINDING, "no bucket"),
        (refused("KMS.DisabledException"), {}, Level.FINDING, "KMS.DisabledException"),
        (refused("AccessDenied"), {}, Level.UNCHECKED, "not be read"),
        (refused("AccessDenied"), {"archive": BARRED}, Level.FINDING, "denies s3:ListBucket"),
        (refused("Odd"), {}, Level.UNCHECKED, "could not be checked"),
    ],
)
def test_a_bucket_that_cannot_be_read(
    error: Exception, policies: dict[str, Any], level: Level, says: str
) -> None:
    young = grown(1)
    assert Status.PROVEN not in states(young).values()
    found = looked(young, whole(policies=policies), bucket=Barred(error))
    [sign] = found["bucket"].bad
    assert (sign.level, says in sign.text) == (level, True), sign
    for command in of_sentences("bucket", sign.remedy):
        check(command)
    assert looked(young, whole(), bucket=None)["bucket"].level is Level.OK


def test_the_newest_proof_is_read() -> None:
    pipeline = grown(8)
    proofs = [key for key in pipeline.bucket.list("archive/") if key.endswith("/proof.json")]
    del pipeline.bucket._objects[proofs[-1]]
    found = looked(pipeline, whole())
    assert found["bucket"].level is Level.OK
    assert found["archives"].level is Level.FINDING


def test_keys_of_tables(pipeline: Pipeline) -> None:
    tables = listing_of(pipeline)
    plain = tables.card
    changes: dict[str, Any] = {"kms_key": "arn:key", "arn": "arn:table"}

    def changed(table: str) -> TableCard | None:
        found = plain(table)
        return replace(found, **changes) if found and table.endswith("catalog") else found

    tables.card = changed  # type: ignore[method-assign]
    sign = only(looked(pipeline, whole(), tables=tables), "permanent", Level.WARNING)
    assert "is encrypted with arn:key, not with DynamoDB's own key" in sign.text
    changes["status"] = "INACCESSIBLE_ENCRYPTION_CREDENTIALS"
    lost = only(looked(pipeline, whole(), tables=tables), "permanent")
    assert "cannot use its key arn:key" in lost.text


def test_a_catalog_that_is_older_than_its_tables(pipeline: Pipeline) -> None:
    newest = max(pipeline.catalog._windows)
    del pipeline.catalog._windows[newest]
    signs = looked(pipeline, whole())["stray-tables"].bad
    assert "the catalog is older than this table" in signs[0].text
    assert "delete-table" not in signs[0].remedy
