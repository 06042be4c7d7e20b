"""What was deployed, as AWS tells it: pages, what is missing, and every call that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from moto import mock_aws

from tallyroll.adapters.aws.client import Caller, make_client
from tallyroll.adapters.aws.cloudwatch import QueueMetrics
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.aws.stack import AwsStack, IamRights
from tallyroll.errors import Missing, Refused, StoreError, Throttled, Unknown
from tallyroll.pipeline import Pipeline
from tallyroll.ports.stack import ANY, AlarmCard, HotPart, Subscription, TableHeat
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.contract.engines import SteadyEffects
from tests.contract.scripted import DENIED, LOST, MISSING, THROTTLED, Scripted, failure

SETTINGS = Settings(name="votes", queue_url="https://sqs/1/votes-events")
ROLE = "arn:aws:iam::1:role/votes-writer"


def stack(script: Mapping[str, Any]) -> AwsStack:
    return stack_of(Scripted(script))


def stack_of(client: Scripted) -> AwsStack:
    one = Caller(client, SteadyEffects())
    metrics = QueueMetrics(one, SteadyEffects(), queue="votes-events", period_ms=60_000)
    return AwsStack(one, one, one, one, one, one, one, metrics, SETTINGS)


CALLS = {
    "GetFunctionConfiguration": lambda made: made.function("writer"),
    "GetFunctionConcurrency": lambda made: made.function("writer"),
    "ListEventSourceMappings": lambda made: made.sources(),
    "DescribeAlarms": lambda made: made.alarms(["votes-dead-letters"]),
    "ListSubscriptionsByTopic": lambda made: made.subscriptions("arn:aws:sns:us-east-1:1:votes"),
    "GetSchedule": lambda made: made.schedule("roller"),
    "GetQueueAttributes": lambda made: made.queue_rules("url"),
    "GetResourcePolicy": lambda made: made.table_policy("arn"),
    "GetBucketPolicy": lambda made: made.bucket_policy("bucket"),
    "GetMetricStatistics": lambda made: made.throttled("votes-totals", 0),
    "DescribeContributorInsights": lambda made: made.table_heat("votes-W", 0),
    "GetInsightRuleReport": lambda made: made.table_heat("votes-W", 0),
}
ASKED = "DescribeContributorInsights"
NOTING = {
    "ContributorInsightsStatus": "ENABLED",
    "ContributorInsightsRuleList": [
        "DynamoDBContributorInsights-SKT-votes-W-1795163400000",
        "DynamoDBContributorInsights-PKT-votes-W-1795163400000",
    ],
}


@pytest.mark.parametrize("operation", sorted(CALLS))
@pytest.mark.parametrize(
    ("code", "kind"), [(DENIED, Refused), (THROTTLED, Throttled), (LOST, Unknown)]
)
def test_a_call_that_fails_is_told(operation: str, code: str, kind: type[StoreError]) -> None:
    script = {
        "GetFunctionConfiguration": {},
        "DescribeContributorInsights": NOTING,
        operation: failure(code, operation),
    }
    with pytest.raises(kind) as told:
        CALLS[operation](stack(script))
    assert operation in str(told.value)


@pytest.mark.parametrize(
    ("operation", "empty"),
    [("GetFunctionConfiguration", None), ("ListEventSourceMappings", []), ("GetSchedule", None)],
)
def test_what_is_not_there(operation: str, empty: object) -> None:
    assert CALLS[operation](stack({operation: failure(MISSING, operation)})) == empty


def test_a_throttled_call_is_tried_again() -> None:
    script = {"GetSchedule": [failure(THROTTLED, "GetSchedule"), {"State": "DISABLED"}]}
    found = stack(script).schedule("roller")
    assert found
    assert not found.enabled


def test_all_pages_of_event_sources() -> None:
    def source(id_: str, **more: Any) -> dict[str, Any]:
        return {"UUID": id_, "EventSourceArn": "arn:aws:sqs:r:1:q", "State": "Enabled", **more}

    whole = {
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "FilterCriteria": {"Filters": [{"Pattern": "{}"}]},
        "StateTransitionReason": "User action",
    }
    pages = [
        {"EventSourceMappings": [source("1")], "NextMarker": "more"},
        {"EventSourceMappings": [], "NextMarker": "more"},
        {"EventSourceMappings": [source("2", **whole)]},
    ]
    first, second = stack({"ListEventSourceMappings": pages}).sources()
    assert (first.id, first.reports_failures, first.filtered) == ("1", False, False)
    assert (second.id, second.reports_failures, second.filtered) == ("2", True, True)
    assert second.reason == "User action"


def test_event_sources_of_the_alias_are_found_and_each_once() -> None:
    """A mapping of an alias is not sure to be among those of the function's name."""
    one, two = ({"UUID": id_, "EventSourceArn": "arn:aws:sqs:r:1:q"} for id_ in "12")
    client = Scripted(
        {
            "ListEventSourceMappings": [
                {"EventSourceMappings": [one]},
                {"EventSourceMappings": [one, two]},
            ]
        }
    )
    made = stack({})
    found = replace(made, lambda_caller=Caller(client, SteadyEffects())).sources()
    assert [each.id for each in found] == ["1", "2"]
    asked = [parameters["FunctionName"] for _, parameters in client.calls]
    assert asked == ["votes-writer", "votes-writer:live"]


def test_policies_that_are_not_there() -> None:
    none = {
        "GetResourcePolicy": failure("PolicyNotFoundException", "GetResourcePolicy"),
        "GetBucketPolicy": failure("NoSuchBucketPolicy", "GetBucketPolicy", 404),
    }
    assert stack(none).table_policy("arn") == ""
    assert stack(none).bucket_policy("bucket") == ""
    gone = {"GetBucketPolicy": failure("NoSuchBucket", "GetBucketPolicy", 404)}
    with pytest.raises(Missing):
        stack(gone).bucket_policy("bucket")


def test_throttled_keys_are_read_from_the_rule_on_partition_keys() -> None:
    """The other rule, on partition and sort keys, has events' ids, and is not asked."""
    contributors = [
        {"Keys": [name], "ApproximateAggregateValue": value}
        for name, value in (("candidate.7.31", 812.4), ("~g.2", 3.0))
    ]
    report = {"Contributors": contributors, "KeyLabels": ["PartitionKey"]}
    client = Scripted({"DescribeContributorInsights": NOTING, "GetInsightRuleReport": report})
    since = SteadyEffects().now() - 900_000
    heat = stack_of(client).table_heat("votes-W", since)
    assert heat == TableHeat(
        "ENABLED",
        "",
        [HotPart("candidate.7.31", "candidate.7", 31, 812), HotPart("~g.2", "", 0, 3)],
    )
    [described, (_, asked)] = client.calls
    assert described[1] == {"TableName": "votes-W"}
    assert asked["RuleName"] == NOTING["ContributorInsightsRuleList"][1]
    assert (asked["EndTime"] - asked["StartTime"]).total_seconds() == 900


@pytest.mark.parametrize(
    ("script", "heat"),
    [
        # The rule is made after the table is said to have it, and goes with its table.
        ({"GetInsightRuleReport": failure(MISSING, "GetInsightRuleReport", 404)}, ("ENABLED", "")),
        ({"GetInsightRuleReport": {}}, ("ENABLED", "")),
        (
            {ASKED: {"ContributorInsightsStatus": "ENABLING"}},
            ("ENABLING", ""),
        ),
        (
            {ASKED: {"ContributorInsightsStatus": "DISABLED"}},
            ("DISABLED", ""),
        ),
        (
            {
                ASKED: {
                    "ContributorInsightsStatus": "FAILED",
                    "FailureException": {
                        "ExceptionName": "LimitExceededException",
                        "ExceptionDescription": "rule limit reached",
                    },
                }
            },
            ("FAILED", "LimitExceededException: rule limit reached"),
        ),
        (
            {ASKED: failure(MISSING, ASKED)},
            ("", ""),
        ),
        (
            {ASKED: failure("UnknownOperationException", ASKED)},
            ("", ""),
        ),
    ],
)
def test_a_table_of_which_nothing_is_noted(
    script: Mapping[str, Any], heat: tuple[str, str]
) -> None:
    made = stack({ASKED: NOTING, **script})
    assert made.table_heat("votes-W", 0) == TableHeat(*heat, [] if heat[0] else ())


def test_a_queue_without_dead_letters() -> None:
    found = {"QueueArn": "arn", "VisibilityTimeout": "30", "MessageRetentionPeriod": "60"}
    rules = stack({"GetQueueAttributes": {"Attributes": found}}).queue_rules("url")
    assert (rules.policy, rules.max_receives) == ("", None)
    found["RedrivePolicy"] = json.dumps({"maxReceiveCount": "7"})  # as CloudFormation sets it
    assert stack({"GetQueueAttributes": {"Attributes": found}}).queue_rules("url").max_receives == 7


@pytest.fixture
def deployed() -> Iterator[AwsStack]:
    with mock_aws():
        yield Pipeline(SETTINGS, SteadyEffects()).stack


def test_policies_of_tables_and_buckets_on_moto(deployed: AwsStack) -> None:
    dynamodb, s3 = make_client("dynamodb"), make_client("s3")
    table = declare(SETTINGS).totals
    arn = dynamodb.create_table(**table_request(table))["TableDescription"]["TableArn"]
    s3.create_bucket(Bucket="votes")
    assert (deployed.table_policy(arn), deployed.bucket_policy("votes")) == ("", "")
    policy = json.dumps({"Version": "2012-10-17", "Statement": []})
    dynamodb.put_resource_policy(ResourceArn=arn, Policy=policy)
    s3.put_bucket_policy(Bucket="votes", Policy=policy)
    assert (deployed.table_policy(arn), deployed.bucket_policy("votes")) == (policy, policy)
    assert deployed.sources() == []
    assert deployed.throttled("votes-totals", SteadyEffects().now() - 60_000) == []


def test_alarms_of_both_kinds_and_the_topics_that_they_notify() -> None:
    topic = "arn:aws:sns:us-east-1:1:votes"
    other = "arn:aws:ssm:us-east-1:1:opsitem:1"
    caller = Scripted(
        {
            "DescribeAlarms": {
                "MetricAlarms": [{"AlarmName": "a", "AlarmActions": [other, topic]}],
                "CompositeAlarms": [{"AlarmName": "b", "ActionsEnabled": False}],
            }
        }
    )
    assert stack_of(caller).alarms(["a", "b"]) == [
        AlarmCard("a", True, [topic]),
        AlarmCard("b", False, []),
    ]
    [(_, asked)] = caller.calls
    assert asked["AlarmTypes"] == ["MetricAlarm", "CompositeAlarm"]


def test_all_alarms_are_those_of_the_pipeline_alone() -> None:
    """Another pipeline's name may begin with this one's."""
    says = "messages stand there. What to do: docs/operations.md#dead-letters"
    own = {"AlarmName": "votes-dead-letters", "AlarmDescription": says, "StateValue": "ALARM"}
    pages = [
        {"MetricAlarms": [own], "NextToken": "more"},
        {"MetricAlarms": [{**own, "AlarmName": "votes-eu-dead-letters"}]},
    ]
    caller = Scripted({"DescribeAlarms": pages})
    assert stack_of(caller).all_alarms() == [
        AlarmCard("votes-dead-letters", True, [], "ALARM", says)
    ]
    assert [asked.get("NextToken") for _, asked in caller.calls] == [None, "more"]
    assert {asked["AlarmNamePrefix"] for _, asked in caller.calls} == {"votes-"}


def test_all_pages_of_subscriptions() -> None:
    def subscription(arn: str) -> dict[str, str]:
        return {"SubscriptionArn": arn, "Protocol": "email", "Endpoint": "night@example.org"}

    topic = "arn:aws:sns:us-east-1:1:votes"
    pages = [
        {"Subscriptions": [subscription("PendingConfirmation")], "NextToken": "more"},
        {"Subscriptions": [subscription(f"{topic}:1"), subscription("Deleted")]},
    ]
    found = stack({"ListSubscriptionsByTopic": pages}).subscriptions("arn")
    assert [one.confirmed for one in found] == [False, True, False]
    assert found[0] == Subscription("email", "night@example.org", confirmed=False)
    gone = failure("NotFound", "ListSubscriptionsByTopic", 404)
    with pytest.raises(Missing):
        stack({"ListSubscriptionsByTopic": gone}).subscriptions("arn")


def decision(action: str, decided: str, *missing: str, **more: Any) -> dict[str, Any]:
    return {
        "EvalActionName": action,
        "EvalDecision": decided,
        "MissingContextValues": [*missing],
        **more,
    }


def of_resource(*missing: str) -> dict[str, Any]:
    """The result for the one resource that was asked for, where IAM tells what is missing."""
    only = {"EvalResourceName": "arn", "EvalResourceDecision": "implicitDeny"}
    return {"ResourceSpecificResults": [{**only, "MissingContextValues": [*missing]}]}


def rights(reply: object) -> IamRights:
    return IamRights(Caller(Scripted({"SimulatePrincipalPolicy": reply}), SteadyEffects()))


def test_rights_by_simulation() -> None:
    organization = {"OrganizationsDecisionDetail": {"AllowedByOrganizations": False}}
    pages = [
        {
            "EvaluationResults": [
                decision("a:Allowed", "allowed"),
                decision("a:Denied", "explicitDeny", "aws:ResourceTag/x"),
                decision("a:Tagged", "implicitDeny", "aws:ResourceTag/x"),
            ],
            "IsTruncated": True,
            "Marker": "more",
        },
        {
            "EvaluationResults": [
                decision("a:Missing", "implicitDeny"),
                decision("a:Keyed", "implicitDeny", **of_resource("dynamodb:LeadingKeys")),
                decision("a:Nowhere", "implicitDeny", **of_resource()),
                decision("a:Forbidden", "allowed", **organization),
            ]
        },
    ]
    found = rights(pages).denied(ROLE, {"arn": ["a:Allowed"]})
    assert found == [
        *("a:Denied on arn", "a:Missing on arn", "a:Nowhere on arn"),
        "a:Forbidden on arn",
    ]


def test_a_simulation_is_told_the_region() -> None:
    pages = [{"EvaluationResults": [], "IsTruncated": True, "Marker": "more"}, {}]
    client = Scripted({"SimulatePrincipalPolicy": pages})
    made = IamRights(Caller(client, SteadyEffects()), "eu-west-1")
    assert made.denied(ROLE, {"arn": ["a:b"]}) == []
    asked = [params for _, params in client.calls]
    told = {
        "ContextKeyName": "aws:RequestedRegion",
        "ContextKeyType": "string",
        "ContextKeyValues": ["eu-west-1"],
    }
    assert [one["ContextEntries"] for one in asked] == [[told], [told]]
    assert [one.get("Marker") for one in asked] == [None, "more"]


def test_actions_that_are_refused_together_are_asked_for_alone() -> None:
    refused = failure("InvalidInput", "SimulatePrincipalPolicy")
    alone = [{"EvaluationResults": [decision(one, "implicitDeny")]} for one in ("a:B", "a:C")]
    client = Scripted({"SimulatePrincipalPolicy": [refused, *alone, refused]})
    made = IamRights(Caller(client, SteadyEffects()))
    assert made.denied(ROLE, {"arn": ["a:B", "a:C"]}) == ["a:B on arn", "a:C on arn"]
    assert [asked["ActionNames"] for _, asked in client.calls] == [["a:B", "a:C"], ["a:B"], ["a:C"]]
    with pytest.raises(Refused):
        made.denied(ROLE, {"arn": ["a:B"]})


def test_an_action_without_resources_is_asked_for_without_an_arn() -> None:
    client = Scripted({"SimulatePrincipalPolicy": {}})
    IamRights(Caller(client, SteadyEffects())).denied(ROLE, {ANY: ["a:B"]})
    assert "ResourceArns" not in client.calls[0][1]


def test_a_store_that_simulates_nothing() -> None:
    with pytest.raises(Missing):
        rights(failure("InvalidAction", "SimulatePrincipalPolicy")).denied(ROLE, {"arn": ["a:b"]})
    with pytest.raises(Refused):
        rights(failure(DENIED, "SimulatePrincipalPolicy")).denied(ROLE, {"arn": ["a:b"]})
