"""A pipeline's alarms, its pages, the topics that they notify, and its dashboard."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from tallyroll.cdk.alarm_rules import ALARMS, COMPACTING, EVENTS, compacting_rules, rules_for
from tallyroll.cdk.alarm_values import AlarmRule, MetricNamespace, Watched
from tallyroll.cdk.annotations import acknowledge
from tallyroll.cdk.dashboard import make_dashboard
from tallyroll.cdk.existing_resources import check_topic
from tallyroll.cdk.functions import PipelineFunction
from tallyroll.cdk.ingest import Queues
from tallyroll.cdk.metrics import PipelineMetrics, computed, of_account
from tallyroll.cdk.pages import PAGES
from tallyroll.cdk.reads import Api
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError

RUNBOOK = "docs/operations.md"
KEY_ENTRY = "if-the-key-is-disabled"
# Source: AWS KMS API Reference, "Actions"; AWS KMS Developer Guide, "Key states of AWS KMS keys".
KEY_CALLS = (
    "DisableKey",
    "ScheduleKeyDeletion",
    "DeleteImportedKeyMaterial",
    "EnableKey",
    "CancelKeyDeletion",
)
# What KMS itself tells EventBridge. Source: Amazon EventBridge Events Reference, "AWS Key
# Management Service events".
KEY_LOSSES = ("KMS CMK Deletion", "KMS Imported Key Material Expiration")


class Observability(Construct):
    """One alarm for each of `ALARMS`, one composite alarm for each of `PAGES`, one dashboard.
    Without an API its alarm is left out; where Parquet is made, there are those of `COMPACTING`.

    Pages notify `topic`, alarms notify `tickets`, when they begin and when they are over. A `given`
    topic replaces both, `given_tickets` the latter.
    Topics that are made here have no key: a notification that the key is disabled must not need it.
    With a `key`, a rule tells `topic` when it is disabled or to be deleted.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        queues: Queues,
        functions: Sequence[PipelineFunction],
        api: Api | None,
        given: sns.ITopic | None = None,
        given_tickets: sns.ITopic | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self._options = options
        metrics = PipelineMetrics(options.name)
        self._published = _Published(metrics, queues, functions, api)
        self.topic = given or _new_topic(self, "Alarms", f"{options.name} alarms")
        self.tickets = (
            given_tickets or given or _new_topic(self, "Tickets", f"{options.name} tickets")
        )
        self._open_topics()
        if key:
            _watch_key(self, options, key, self.topic)
        rules = rules_for(options.settings(), queues.retention_seconds)
        assert rules.keys() == ALARMS.keys()
        if options.compacts:
            rules |= compacting_rules()
        if api is None:
            del rules["api-errors"]
        self.alarms = {id_: self._alarm(id_, rule) for id_, rule in rules.items()}
        self.pages = {id_: self._page(id_) for id_ in PAGES}
        shown = {**self.pages, **self.alarms}
        graphed = api.graphed if api else []
        self.dashboard = make_dashboard(self, options, metrics, queues, functions, shown, graphed)

    def _alarm(self, id_: str, rule: AlarmRule) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            _construct_id(id_),
            alarm_name=f"{self._options.name}-{id_}",
            alarm_description=self._described(id_, {**ALARMS, **COMPACTING}[id_]),
            metric=self._published.number(rule),
            threshold=rule.above,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=rule.evaluated,
            datapoints_to_alarm=rule.times if rule.within else None,
            treat_missing_data=(
                cloudwatch.TreatMissingData.BREACHING
                if rule.silence_is_bad
                else cloudwatch.TreatMissingData.NOT_BREACHING
            ),
        )
        _notify(alarm, self.tickets)
        return alarm

    def _page(self, id_: str) -> cloudwatch.CompositeAlarm:
        on = [
            cloudwatch.AlarmRule.from_alarm(self.alarms[one], cloudwatch.AlarmState.ALARM)
            for one in PAGES[id_].alarms
            if one in self.alarms
        ]
        page = cloudwatch.CompositeAlarm(
            self,
            _construct_id(id_),
            composite_alarm_name=f"{self._options.name}-{id_}",
            alarm_description=self._described(id_, PAGES[id_].text),
            alarm_rule=cloudwatch.AlarmRule.any_of(*on),
        )
        _notify(page, self.topic)
        return page

    def _described(self, id_: str, text: str) -> str:
        """The description of an alarm or a page, with the address of its entry in the runbook."""
        return f"{text}. What to do: {self._options.runbook_url or RUNBOOK}#{id_}"

    def _open_topics(self) -> None:
        """Let the account's alarms publish to the topics, and subscribe who is named."""
        options = self._options
        _open(self, self.topic, "alarm_topic", options.alarm_email)
        email = options.ticket_email or options.alarm_email
        if self.tickets is not self.topic:
            _open(self, self.tickets, "ticket_topic", email)
        elif email != options.alarm_email:
            raise OptionsError(
                f"tallyroll:ticket_email {email!r}: one topic was passed in for pages and tickets;"
                " pass in a ticket_topic, too, or leave the option out"
            )


def _construct_id(id_: str) -> str:
    return "".join(word.capitalize() for word in id_.split("-"))


def _notify(alarm: cloudwatch.AlarmBase, topic: sns.ITopic) -> None:
    action = actions.SnsAction(topic)
    alarm.add_alarm_action(action)
    alarm.add_ok_action(action)


def _new_topic(scope: Construct, id_: str, shown: str) -> sns.ITopic:
    return sns.Topic(scope, id_, display_name=shown, enforce_ssl=True)


def _open(scope: Construct, topic: sns.ITopic, called: str, email: str) -> None:
    """Let the account's alarms publish to a topic, and subscribe an address, if there is one.

    A policy of a topic's own replaces the default one, which lets them. To a topic of another app
    nothing is added. Raises OptionsError for a topic that alarms cannot notify.
    """
    check_topic(scope, topic, called)
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            actions=["sns:Publish"],
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            resources=[topic.topic_arn],
            conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(scope).account}},
        )
    )
    if email:
        subscribed = topic.add_subscription(subscriptions.EmailSubscription(email))
        acknowledge(
            subscribed,
            {
                "Serverless-SNSRedrivePolicy": "a notification that no mail server takes is of no"
                " use later, and the alarm's own state stays"
            },
        )


def _watch_key(scope: Construct, options: Options, key: kms.IKey, topic: sns.ITopic) -> None:
    """Notify `topic` of calls that change the state of `key`, and of the loss of its material.

    EventBridge sees calls that a trail of CloudTrail records, in the key's account and Region.
    Source: Amazon EventBridge User Guide, "AWS service events delivered via AWS CloudTrail".
    """
    runbook = f"{options.runbook_url or RUNBOOK}#{KEY_ENTRY}"
    rule = events.CfnRule(
        scope,
        "KeyState",
        description=f"the key of the pipeline {options.name} is disabled or deleted",
        event_pattern={
            "source": ["aws.kms"],
            "$or": [
                {
                    "detail-type": ["AWS API Call via CloudTrail"],
                    "detail": {
                        "eventSource": ["kms.amazonaws.com"],
                        "eventName": list(KEY_CALLS),
                        "errorCode": [{"exists": False}],
                        "resources": {"ARN": [key.key_arn]},
                    },
                },
                {"detail-type": list(KEY_LOSSES), "resources": [key.key_arn]},
            ],
        },
        targets=[
            events.CfnRule.TargetProperty(
                id="pages",
                arn=topic.topic_arn,
                input_transformer=events.CfnRule.InputTransformerProperty(
                    input_paths_map={"call": "$.detail.eventName", "what": "$.detail-type"},
                    input_template=f'"{options.name}-key-state: <what> <call> of its key'
                    f' {key.key_arn}. What to do: {runbook}"',
                ),
            )
        ],
    )
    acknowledge(
        rule,
        {
            "Serverless-EventBusDLQ": "a notification that cannot be delivered for a day is of no"
            " use later, and the alarms tell by then that nothing is counted"
        },
    )
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            actions=["sns:Publish"],
            principals=[iam.ServicePrincipal("events.amazonaws.com")],
            resources=[topic.topic_arn],
            conditions={"ArnEquals": {"aws:SourceArn": rule.attr_arn}},
        )
    )


class _Published:
    """Makes CDK metrics of the metrics in rules."""

    def __init__(
        self,
        metrics: PipelineMetrics,
        queues: Queues,
        functions: Sequence[PipelineFunction],
        api: Api | None,
    ) -> None:
        self._metrics = metrics
        self._queues = queues
        self._api = api
        self._functions = {each.package: each.function for each in functions}

    def number(self, rule: AlarmRule) -> cloudwatch.IMetric:
        """The number that an alarm compares with its threshold."""
        metrics = {name: self._metric(watched) for name, watched in rule.metrics.items()}
        if not rule.expression:
            [metric] = metrics.values()
            return metric
        period = cdk.Duration.seconds(rule.period)
        return computed(rule.expression, metrics, rule.label, period)

    def _metric(self, watched: Watched) -> cloudwatch.IMetric:
        period = cdk.Duration.seconds(watched.period)
        if watched.source is MetricNamespace.PIPELINE:
            return self._metrics.of(watched.of, watched.name, watched.statistic, period=period)
        if watched.source is MetricNamespace.FUNCTION:
            function = self._functions[watched.of]
            return function.metric(watched.name, statistic=watched.statistic, period=period)
        if watched.source is MetricNamespace.USAGE:
            return of_account(watched.of, watched.name, watched.statistic, period)
        if watched.source is MetricNamespace.API:
            assert self._api
            return self._api.metric(watched.name, watched.statistic, period)
        queue = self._queues.events if watched.of == EVENTS else self._queues.dead_letters
        return queue.metric(watched.name, statistic=watched.statistic, period=period)
