"""A preflight's checks, before an account that a test describes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Missing, Refused, UsageError
from tallyroll.model.windows import Grid
from tallyroll.operations.doctor.checkup import Level
from tallyroll.operations.preflight.checks import CHECKS
from tallyroll.operations.preflight.planned_deployment import QUALIFIER, PlannedDeployment, wish_of
from tallyroll.ports.account import BucketFacts
from tallyroll.ports.gauges import Quota
from tallyroll.ports.stack import FunctionCard, ScheduleCard
from tallyroll.settings import Settings
from tallyroll.settings.options import Options
from tests.docs.commands import check, of_sentences
from tests.harness.doctoring import FakeStack
from tests.unit.operations.accounts import DENIED, QUOTAS, FakeAccount, FakeRights, looked, only
from tests.unit.operations.canaries import FakeCanary


def test_an_account_that_is_ready() -> None:
    found = looked()
    assert list(found) == list(CHECKS)
    bad = {name: each.text for name, each in found.items() if each.level is not Level.OK}
    assert bad == {"tags": "whether policies see tables' tags was not tried"}
    assert "account 1, Region eu-west-1, as arn:aws:sts::1:assumed" in found["account"].text


@pytest.mark.parametrize(
    ("version", "deployed", "level", "says"),
    [
        (None, False, Level.FINDING, "not bootstrapped"),
        (None, True, Level.WARNING, "not bootstrapped"),
        (5, False, Level.FINDING, "version 5, and 6 is needed"),
        (DENIED, False, Level.UNCHECKED, "could not be checked"),
    ],
)
def test_the_bootstrap(version: Any, deployed: bool, level: Level, says: str) -> None:
    found = looked(FakeAccount(bootstrap=version), deployed=deployed)
    sign = only(found, "bootstrap", level)
    assert says in sign.text
    assert "cdk bootstrap" in sign.remedy or level is Level.UNCHECKED


def test_a_length_of_windows_to_which_there_is_no_way() -> None:
    assert looked(window="month")["window-length"].text == "windows of a month"
    hourly = looked(window="month", deployed=True, windows=Grid.of(3600))["window-length"]
    assert hourly.text == "windows of a month, from 2026-12-01T00:00:00.000Z on at the earliest"
    same = looked(window="week", deployed=True, windows=Grid.of("week"))["window-length"]
    assert same.text == "windows of a week"
    thursdays = looked(window="week", deployed=True, windows=Grid.of(7 * 86_400))
    sign = only(thursdays, "window-length", Level.FINDING)
    assert "make them of a day first (tallyroll:window=day)" in sign.text


def test_the_quota_of_tables() -> None:
    others = [f"other-{number}" for number in range(2_430)]
    assert "are needed" in only(looked(tables=others), "table-quota", Level.FINDING).text
    near = only(looked(tables=others[:2_000]), "table-quota", Level.WARNING)
    assert "request-service-quota-increase --service-code dynamodb" in near.remedy
    ours = ["tallyroll-20261120T080000Z", "tallyroll-20261120T090000Z", "tallyroll-eu-x"]
    assert looked(tables=ours)["table-quota"].level is Level.OK
    lower = {**QUOTAS, Quota.TABLES: 1_000.0}
    assert (
        "tallyroll:table_quota is 2,500"
        in only(looked(quotas=lower), "table-quota", Level.WARNING).text
    )
    denied = {**QUOTAS, Quota.TABLES: DENIED}
    unknown = only(looked(quotas=denied), "table-quota", Level.UNCHECKED)
    assert "AccessDenied" in unknown.text


def test_the_quota_of_tables_of_a_pipeline_in_keyspaces() -> None:
    """DynamoDB keeps room for its permanent tables, and for windows that are still there."""
    others = [f"other-{number}" for number in range(2_430)]
    full = looked(tables=others, store="keyspaces")
    near = only(full, "table-quota", Level.WARNING)
    assert near.text == "2,430 tables, 0 of windows to be kept, by a quota of 2,500"
    assert looked(store="keyspaces")["table-quota"].level is Level.OK
    long = only(looked(store="keyspaces", retention_seconds=800_000), "table-quota", Level.WARNING)
    assert long.text == "230 tables are needed in Keyspaces, of a quota of 256"
    assert "Amazon Keyspaces" in long.remedy


def test_a_suffix_that_spreads_unevenly() -> None:
    told = only(looked(suffix="product", shards=200), "throughput", Level.WARNING)
    assert "leave 55 of 200 suffixes empty" in told.text


def test_throughput() -> None:
    warm = only(looked(warm_units=50_000), "throughput", Level.FINDING)
    assert "50,000 write units" in warm.text
    unknown = {Quota.TABLES: 2_500.0}
    only(looked(quotas=unknown, warm_units=50_000), "throughput", Level.UNCHECKED)
    only(looked(quotas=unknown), "throughput", Level.UNCHECKED)
    rate = only(looked(write_rate=50_000), "throughput", Level.WARNING)
    assert "lets writers take 50,000" in rate.text
    units = {"write": 50_000, "read": 1, "cold_write": 1, "cold_read": 1}
    table, every = looked(provisioned=units)["throughput"].bad
    assert "of a table" in table.text
    assert "of all tables" in every.text
    units["write"] = 10_000
    assert looked(provisioned=units)["throughput"].level is Level.OK


def test_permissions() -> None:
    deploy = only(looked(rights=FakeRights(["AssumeRole"])), "permissions", Level.WARNING)
    assert "role/cdk-hnb659fds-deploy-role-1-eu-west-1" in deploy.text
    after = looked(rights=FakeRights(["AssumeRole"]), deployed=True)
    assert after["permissions"].level is Level.OK
    operate = only(looked(rights=FakeRights(["GetItem"])), "permissions", Level.WARNING)
    assert "dynamodb:GetItem on arn:aws:dynamodb:eu-west-1:1:table/tallyroll-cat" in operate.text
    none = FakeRights(error=Missing("SimulatePrincipalPolicy: NoSuchEntity", "NoSuchEntity"))
    for found in (
        looked(rights=none),
        looked(rights=FakeRights(error=DENIED)),
        looked(FakeAccount(role="")),
        looked(FakeAccount(role=DENIED)),
    ):
        assert found["permissions"].level is Level.UNCHECKED


def test_the_table_of_identities() -> None:
    """It may be there already, and operators and CloudFormation need some calls of it."""
    there = only(looked(tables=["tallyroll-identities"], identity="key"), "names", Level.FINDING)
    assert there.text == ("there is a table tallyroll-identities already: the deployment will fail")
    assert looked(tables=["tallyroll-identities"])["names"].level is Level.OK
    with pytest.raises(UsageError, match=r"^tallyroll:identity key: windows in Keyspaces have no"):
        wish_of({"tallyroll:identity": "key", "tallyroll:store": "keyspaces"}, {})
    rights = FakeRights()
    looked(rights=rights, identity="key")
    [ours] = [arn for arn in rights.asked if arn.endswith("table/tallyroll-identities")]
    assert rights.asked[ours] == ("dynamodb:BatchGetItem", "dynamodb:DescribeTable")


def test_names_that_are_taken() -> None:
    account = FakeAccount(
        stack="DELETE_FAILED",
        queues={"tallyroll-events": "https://sqs/1/tallyroll-events"},
        groups=[
            "/aws/lambda/tallyroll-log-role",
            "/aws/lambda/tallyroll-writer",
            "/aws/lambda/tallyroll-eu-writer",
        ],
    )
    stack = FakeStack(
        functions={"cleanup": FunctionCard("tallyroll-cleanup", "Active", "", "")},
        schedules={"cleanup": ScheduleCard("tallyroll-cleanup", True, "", "", "")},
    )
    found = looked(account, tables=["tallyroll-catalog"], stack=stack)["names"]
    texts = [sign.text.partition(" already")[0] for sign in found.bad]
    assert texts == [
        "the stack tallyroll is DELETE_FAILED",
        "there is a table tallyroll-catalog",
        "there is a queue tallyroll-events",
        "there is a log group /aws/lambda/tallyroll-writer",
        "there is a function tallyroll-cleanup",
        "there is a schedule tallyroll-cleanup",
    ]
    assert "--import-existing-resources" in found.bad[1].remedy
    for sign in found.bad:
        for command in of_sentences("names", sign.remedy):
            check(command)
    assert looked(account, tables=["tallyroll-catalog"], deployed=True)["names"].level is Level.OK
    unknown = looked(account, tables=["tallyroll-catalog"], deployed=None)
    assert "is not known" in only(unknown, "names", Level.UNCHECKED).text
    assert "tallyroll may be deployed" in unknown["account"].text


def test_only_what_will_be_made_has_names_that_are_taken() -> None:
    log_role, api = "/aws/lambda/tallyroll-log-role", "/aws/vendedlogs/apigateway/tallyroll"
    left = FakeAccount(groups=[log_role, api])
    stack = FakeStack(functions={"log-role": FunctionCard("tallyroll-log-role", "Active", "", "")})

    def taken(**options: Any) -> list[str]:
        found = looked(left, stack=stack, **options)["names"]
        return [sign.text.partition(" already")[0].rpartition(" ")[2] for sign in found.bad]

    assert taken() == [api]
    assert taken(api="none") == []
    assert taken(api="private", api_log_role="true") == [api]
    assert taken(api="private") == [log_role, api, "tallyroll-log-role"]
    left = FakeAccount(groups=["/aws/lambda/tallyroll-compactor"])
    assert taken() == []
    assert taken(archive="both") == ["/aws/lambda/tallyroll-compactor"]


def test_window_tables_without_a_catalog() -> None:
    sign = only(looked(tables=["tallyroll-20261120T080000Z"]), "names", Level.FINDING)
    assert "teardown --force" in sign.remedy
    assert "without a catalog" in sign.text


@pytest.mark.parametrize(
    ("status", "level"),
    [
        ("ROLLBACK_COMPLETE", Level.OK),
        ("CREATE_COMPLETE", Level.OK),
        ("CREATE_IN_PROGRESS", Level.WARNING),
        ("ROLLBACK_FAILED", Level.FINDING),
    ],
)
def test_a_stack_that_is_there(status: str, level: Level) -> None:
    assert looked(FakeAccount(stack=status))["names"].level is level


def test_a_bucket_that_is_passed_in() -> None:
    assert looked(bucket="b")["bucket"].level is Level.OK
    far = FakeAccount(held=BucketFacts("us-east-1", versioned=True))
    assert "is in us-east-1" in only(looked(far, bucket="b"), "bucket", Level.FINDING).text
    plain = FakeAccount(held=BucketFacts("eu-west-1", versioned=False))
    assert "keeps no versions" in only(looked(plain, bucket="b"), "bucket", Level.WARNING).text
    gone = FakeAccount(held=Missing("HeadBucket: 404", "404"))
    assert "there is no bucket b" in only(looked(gone, bucket="b"), "bucket", Level.FINDING).text
    foreign = FakeAccount(held=Refused("HeadBucket: 403", "403"))
    assert looked(foreign, bucket="b")["bucket"].level is Level.UNCHECKED


def test_a_deployment_afterwards() -> None:
    found = looked(deployed=True)
    assert "there is no function tallyroll-writer" in found["functions"].bad[0].text
    assert found["trigger"].level is Level.FINDING
    assert found["schedules"].level is Level.FINDING


# --- what is wished


def test_a_context_goes_before_the_environment() -> None:
    environment = {"TALLYROLL_WARM_UNITS": "5000", "TALLYROLL_RETENTION_MS": "1"}
    planned = wish_of(
        {
            "tallyroll:name": "votes",
            "tallyroll:retention_seconds": "60",
            "tallyroll:tags": {"team": "a"},
            "tallyroll:deny_drops": True,
            "cli-telemetry": False,
        },
        environment,
    )
    settings = Settings(
        name="votes", retention_ms=60_000, tags={"team": "a"}, deny_drops=True, warm_units=5_000
    )
    assert replace(planned, options=Options()) == PlannedDeployment(
        settings, writers=4, reserved=None
    )
    assert (planned.options.deny_drops, planned.options.api) == (True, "http")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("retention_seconds", "long"),
        ("max_concurrency", "many"),
        ("pollers", "two"),
        ("pollers", "[2]"),
        ("pollers", {"min": 2}),
        ("warm_units", "-1"),
    ],
)
def test_a_wrong_option(option: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"^tallyroll:{option} .*: give "):
        wish_of({f"tallyroll:{option}": value}, {})


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"^tallyroll:shard: .* nearest is tallyroll:shards$"):
        wish_of({"tallyroll:shard": 3}, {})


def test_a_wrong_qualifier() -> None:
    with pytest.raises(UsageError, match="bootstrapQualifier 'a/b': give 1 to 10 letters"):
        wish_of({QUALIFIER: "a/b"}, {})


def test_the_canary_is_one_of_the_checks() -> None:
    assert looked(canary=FakeCanary())["tags"].level is Level.OK
    denied = looked(canary=FakeCanary(broken={"make": DENIED}))["tags"]
    assert (denied.level, "AccessDenied" in denied.text) == (Level.UNCHECKED, True)
