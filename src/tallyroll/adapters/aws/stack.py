"""A pipeline's deployment on AWS: functions, event sources, schedules, policies, throttles.

Sources: AWS Lambda API Reference, GetFunctionConfiguration, GetFunctionConcurrency;
EventBridge Scheduler API Reference, GetSchedule; Amazon SQS API Reference,
GetQueueAttributes; DynamoDB API Reference, GetResourcePolicy; Amazon S3 API Reference,
GetBucketPolicy; Amazon CloudWatch API Reference, DescribeAlarms; Amazon SNS API Reference,
ListSubscriptionsByTopic; DynamoDB Developer Guide, "DynamoDB metrics and dimensions" and
"CloudWatch contributor insights for DynamoDB: How it works", with the names of rules; IAM API
Reference, SimulatePrincipalPolicy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.cloudwatch import QueueMetrics
from tallyroll.adapters.aws.sources import mappings
from tallyroll.errors import Missing, Refused
from tallyroll.ports.stack import (
    ANY,
    AlarmCard,
    EventSource,
    FunctionCard,
    HotPart,
    QueueRules,
    ScheduleCard,
    Subscription,
    TableHeat,
)
from tallyroll.ports.table_listing import TableLoad
from tallyroll.resources import THROTTLED_KEYS_RULE, declare, function_name
from tallyroll.settings import Settings

_NO_TABLE_POLICY = frozenset({"PolicyNotFoundException", "UnknownOperationException"})
_NO_BUCKET_POLICY = "NoSuchBucketPolicy"
_UNKNOWN = frozenset({"InvalidAction", "NotImplemented", "UnknownOperationException"})
_INVALID = "InvalidInput"
_CONTRIBUTORS_MAX = 100  # AWS's own; without it a report names ten
_HEAT_PERIOD_S = 60  # of the rules' datapoints, which are not looked at
_ALARM_TYPES = ("MetricAlarm", "CompositeAlarm")
_FORBIDDEN, _ALLOWED = "explicitDeny", "allowed"
_QUEUE_ATTRIBUTES = (
    "MessageRetentionPeriod",
    "Policy",
    "QueueArn",
    "RedrivePolicy",
    "VisibilityTimeout",
)


@dataclass(frozen=True)
class AwsStack:
    """The stack port on AWS."""

    lambda_caller: Caller
    scheduler_caller: Caller
    sqs_caller: Caller
    dynamodb_caller: Caller
    s3_caller: Caller
    cloudwatch_caller: Caller
    sns_caller: Caller
    metrics: QueueMetrics
    settings: Settings

    def function(self, package: str) -> FunctionCard | None:
        name = function_name(self.settings.name, package)
        try:
            found = self.lambda_caller.read("GetFunctionConfiguration", FunctionName=name)
            kept = self.lambda_caller.read("GetFunctionConcurrency", FunctionName=name)
        except Missing:
            return None
        reserved = kept.get("ReservedConcurrentExecutions")
        return FunctionCard(
            name=name,
            state=str(found.get("State", "Active")),
            reason=str(found.get("StateReason", "")),
            role=str(found.get("Role", "")),
            reserved=None if reserved is None else int(reserved),
        )

    def sources(self) -> Sequence[EventSource]:
        name = function_name(self.settings.name, "writer")
        return list(map(_source, mappings(self.lambda_caller, name)))

    def schedule(self, package: str) -> ScheduleCard | None:
        name = function_name(self.settings.name, package)
        try:
            found = self.scheduler_caller.read("GetSchedule", Name=name)
        except Missing:
            return None
        target = found.get("Target", {})
        return ScheduleCard(
            name=name,
            enabled=found.get("State", "ENABLED") == "ENABLED",
            expression=str(found.get("ScheduleExpression", "")),
            target=str(target.get("Arn", "")),
            role=str(target.get("RoleArn", "")),
        )

    def alarms(self, names: Sequence[str]) -> Sequence[AlarmCard]:
        return self._alarms(AlarmNames=[*names])

    def all_alarms(self) -> Sequence[AlarmCard]:
        begin = f"{self.settings.name}-"
        found = self._alarms(AlarmNamePrefix=begin)
        # Another pipeline's name may begin so. Each alarm names its own entry in the runbook.
        return [one for one in found if one.says.endswith(f"#{one.name.removeprefix(begin)}")]

    def _alarms(self, **which: object) -> list[AlarmCard]:
        found: list[AlarmCard] = []
        while True:
            # Without the types there are no composite alarms in the reply.
            reply = self.cloudwatch_caller.read(
                "DescribeAlarms", AlarmTypes=[*_ALARM_TYPES], **which
            )
            for kind in _ALARM_TYPES:
                found += map(_alarm, reply.get(f"{kind}s", ()))
            if not reply.get("NextToken"):
                return found
            which["NextToken"] = reply["NextToken"]

    def subscriptions(self, topic: str) -> Sequence[Subscription]:
        found: list[Subscription] = []
        more: dict[str, str] = {}
        while True:
            reply = self.sns_caller.read("ListSubscriptionsByTopic", TopicArn=topic, **more)
            found += [
                # One that is not confirmed, or is deleted, has a word in the place of its ARN.
                Subscription(
                    str(one["Protocol"]),
                    str(one.get("Endpoint", "")),
                    str(one["SubscriptionArn"]).startswith("arn:"),
                )
                for one in reply.get("Subscriptions", ())
            ]
            if not reply.get("NextToken"):
                return found
            more = {"NextToken": reply["NextToken"]}

    def queue_rules(self, url: str) -> QueueRules:
        reply = self.sqs_caller.read(
            "GetQueueAttributes", QueueUrl=url, AttributeNames=[*_QUEUE_ATTRIBUTES]
        )
        found = reply["Attributes"]
        redrive = json.loads(found.get("RedrivePolicy") or "{}")
        most = redrive.get("maxReceiveCount")
        return QueueRules(
            arn=found["QueueArn"],
            policy=found.get("Policy", ""),
            visibility_seconds=int(found["VisibilityTimeout"]),
            retention_seconds=int(found["MessageRetentionPeriod"]),
            max_receives=None if most is None else int(most),
        )

    def table_policy(self, arn: str) -> str:
        try:
            reply = self.dynamodb_caller.read("GetResourcePolicy", ResourceArn=arn)
        except Refused as error:
            if error.code in _NO_TABLE_POLICY:
                return ""
            raise
        return str(reply.get("Policy", ""))

    def bucket_policy(self, bucket: str) -> str:
        try:
            return str(self.s3_caller.read("GetBucketPolicy", Bucket=bucket)["Policy"])
        except (Missing, Refused) as error:
            if error.code == _NO_BUCKET_POLICY:
                return ""
            raise

    def throttled(self, table: str, since: int) -> Sequence[tuple[int, int]]:
        sums: dict[int, float] = {}
        for name in ("ReadThrottleEvents", "WriteThrottleEvents"):
            of = {"TableName": table}
            period_s = self.metrics.period_for(since)
            found = self.metrics.points("AWS/DynamoDB", name, of, "Sum", since, period_s)
            for at, number in found.items():
                sums[at] = sums.get(at, 0.0) + number
        return [(at, round(number)) for at, number in sorted(sums.items())]

    def table_load(self, table: str, since: int) -> TableLoad:
        return self.metrics.table_load(table, since)

    def table_heat(self, table: str, since: int) -> TableHeat:
        try:
            found = self.dynamodb_caller.read("DescribeContributorInsights", TableName=table)
        except Missing:
            return TableHeat("")  # dropped meanwhile
        except Refused as error:
            if error.code in _UNKNOWN:
                return TableHeat("")
            raise
        failed = found.get("FailureException", {})
        rules = found.get("ContributorInsightsRuleList", ())
        return TableHeat(
            str(found.get("ContributorInsightsStatus", "")),
            ": ".join(filter(None, map(failed.get, ("ExceptionName", "ExceptionDescription")))),
            [
                part
                for rule in rules
                if rule.startswith(THROTTLED_KEYS_RULE)
                for part in self._reported(rule, since)
            ],
        )

    def _reported(self, rule: str, since: int) -> Iterator[HotPart]:
        """What a rule notes; nothing if it is not there yet, or no more."""
        until = self.metrics.now() // 1000
        try:
            found = self.cloudwatch_caller.read(
                "GetInsightRuleReport",
                RuleName=rule,
                StartTime=datetime.fromtimestamp(since // 1000, UTC),
                EndTime=datetime.fromtimestamp(until, UTC),
                Period=_HEAT_PERIOD_S,
                MaxContributorCount=_CONTRIBUTORS_MAX,
            )
        except Missing:
            return
        for one in found.get("Contributors", ()):
            name = str(one["Keys"][0])
            key, shard = _key_and_shard(name)
            yield HotPart(name, key, shard, round(one["ApproximateAggregateValue"]))

    def in_flight(self, since: int) -> int:
        queue = self.settings.queue_url.rpartition("/")[2] or declare(self.settings).queue.name
        found = self.metrics.points(
            "AWS/SQS",
            "ApproximateNumberOfMessagesNotVisible",
            {"QueueName": queue},
            "Maximum",
            since,
            self.metrics.period_for(since),
        )
        return round(max(found.values(), default=0))


def _key_and_shard(pk: str) -> tuple[str, int]:
    """The key and the shard in a partition key of records; ("", 0) in another one."""
    key, _, shard = pk.rpartition(".")
    of_records = key and not key.startswith("~") and shard.isdecimal()
    return (key, int(shard)) if of_records else ("", 0)


def _source(found: Mapping[str, Any]) -> EventSource:
    return EventSource(
        id=str(found["UUID"]),
        queue=str(found.get("EventSourceArn", "")),
        state=str(found.get("State", "")),
        reason=str(found.get("StateTransitionReason") or ""),
        reports_failures="ReportBatchItemFailures" in (found.get("FunctionResponseTypes") or ()),
        filtered=bool((found.get("FilterCriteria") or {}).get("Filters")),
    )


@dataclass(frozen=True)
class IamRights:
    """The port of rights: IAM simulates a call by the identity's own policies, its boundary and the
    organization's; a resource's own policy is not part of it.

    IAM refuses actions that it cannot simulate together (`InvalidInput`: they "require different
    authorization information"). No document says which; each is then asked for alone.
    """

    caller: Caller
    region: str = ""

    def denied(self, identity: str, wanted: Mapping[str, Sequence[str]]) -> Sequence[str]:
        found: list[str] = []
        for resource, actions in wanted.items():
            results = self._together_or_alone(identity, resource, actions)
            refused = [result["EvalActionName"] for result in results if _refused(result)]
            found += [f"{action} on {resource}" for action in refused]
        return found

    def _together_or_alone(
        self, identity: str, resource: str, actions: Sequence[str]
    ) -> Sequence[Mapping[str, Any]]:
        try:
            return list(self._simulated(identity, resource, actions))
        except Refused as error:
            if error.code != _INVALID or len(actions) == 1:
                raise
        return [
            result for action in actions for result in self._simulated(identity, resource, [action])
        ]

    def _simulated(
        self, identity: str, resource: str, actions: Sequence[str]
    ) -> Iterator[Mapping[str, Any]]:
        more: dict[str, Any] = {"ContextEntries": _facts(self.region)}
        if resource != ANY:  # which is the default, and no ARN
            more["ResourceArns"] = [resource]
        while True:
            try:
                reply = self.caller.read(
                    "SimulatePrincipalPolicy",
                    PolicySourceArn=identity,
                    ActionNames=[*actions],
                    **more,
                )
            except Refused as error:
                if error.code in _UNKNOWN:
                    raise Missing(str(error), error.code) from error
                raise
            yield from reply.get("EvaluationResults", ())
            if not reply.get("IsTruncated"):
                return
            more["Marker"] = reply["Marker"]


def _facts(region: str) -> list[dict[str, Any]]:
    """What a simulation does not know by itself: organizations often deny all Regions but some."""
    if not region:
        return []
    name, kind = "aws:RequestedRegion", "string"
    return [{"ContextKeyName": name, "ContextKeyType": kind, "ContextKeyValues": [region]}]


def _refused(result: Mapping[str, Any]) -> bool:
    organization = result.get("OrganizationsDecisionDetail") or {}
    if organization.get("AllowedByOrganizations") is False:
        return True
    decision = result.get("EvalDecision")
    if decision == _FORBIDDEN:
        return True
    # Of a named resource, what is missing is told in its own result.
    of_resources = result.get("ResourceSpecificResults") or ()
    lacks = any(one.get("MissingContextValues") for one in (result, *of_resources))
    return decision != _ALLOWED and not lacks


def _alarm(alarm: Mapping[str, Any]) -> AlarmCard:
    return AlarmCard(
        name=str(alarm["AlarmName"]),
        enabled=alarm.get("ActionsEnabled") is not False,
        topics=[arn for arn in alarm.get("AlarmActions", ()) if arn.split(":")[2] == "sns"],
        state=str(alarm.get("StateValue", "")),
        says=str(alarm.get("AlarmDescription", "")),
    )
