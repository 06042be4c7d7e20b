"""A pipeline's alarms, the topic that they notify, and its dashboard."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from tallyroll.cdk.alarm_rules import EVENTS, Rule, Source, Watched, rules_for
from tallyroll.cdk.alarms import ALARMS, described
from tallyroll.cdk.dashboard import make_dashboard
from tallyroll.cdk.functions import PipelineFunction
from tallyroll.cdk.handed_in import check_topic
from tallyroll.cdk.ingest import Queues
from tallyroll.cdk.metrics import PipelineMetrics, computed
from tallyroll.cdk.options import Options


class Observability(Construct):
    """One alarm for each of `ALARMS`, one topic that they notify, one dashboard.

    A `given` topic replaces the topic.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        queues: Queues,
        functions: Sequence[PipelineFunction],
        given: sns.ITopic | None = None,
    ) -> None:
        super().__init__(scope, id_)
        metrics = PipelineMetrics(options.name)
        self._published = _Published(metrics, queues, functions)
        self.topic = _topic(self, options, given)
        rules = rules_for(options.settings(), queues.retention_seconds)
        assert rules.keys() == ALARMS.keys()
        self.alarms = {id_: self._alarm(options.name, id_, rule) for id_, rule in rules.items()}
        self.dashboard = make_dashboard(self, options, metrics, queues, functions, self.alarms)

    def _alarm(self, pipeline: str, id_: str, rule: Rule) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            "".join(word.capitalize() for word in id_.split("-")),
            alarm_name=f"{pipeline}-{id_}",
            alarm_description=described(id_),
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
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        return alarm


def _topic(scope: Construct, options: Options, given: sns.ITopic | None) -> sns.ITopic:
    topic: sns.ITopic
    if given is None:
        topic = sns.Topic(scope, "Alarms", display_name=f"{options.name} alarms", enforce_ssl=True)
    else:
        check_topic(scope, given)
        topic = given
    # A policy of a topic's own replaces the default one, which lets the account's alarms publish.
    # To a topic of another app nothing is added.
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            actions=["sns:Publish"],
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            resources=[topic.topic_arn],
            conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(scope).account}},
        )
    )
    if options.alarm_email:
        topic.add_subscription(subscriptions.EmailSubscription(options.alarm_email))
    return topic


class _Published:
    """Makes CDK metrics of the metrics in rules."""

    def __init__(
        self, metrics: PipelineMetrics, queues: Queues, functions: Sequence[PipelineFunction]
    ) -> None:
        self._metrics = metrics
        self._queues = queues
        self._functions = {each.package: each.function for each in functions}

    def number(self, rule: Rule) -> cloudwatch.IMetric:
        """The number that an alarm compares with its threshold."""
        metrics = {name: self._metric(watched) for name, watched in rule.metrics.items()}
        if not rule.expression:
            [metric] = metrics.values()
            return metric
        period = cdk.Duration.seconds(rule.period)
        return computed(rule.expression, metrics, rule.label, period)

    def _metric(self, watched: Watched) -> cloudwatch.IMetric:
        period = cdk.Duration.seconds(watched.period)
        if watched.source is Source.PIPELINE:
            return self._metrics.of(watched.of, watched.name, watched.statistic, period=period)
        if watched.source is Source.FUNCTION:
            function = self._functions[watched.of]
            return function.metric(watched.name, statistic=watched.statistic, period=period)
        queue = self._queues.events if watched.of == EVENTS else self._queues.dead_letters
        return queue.metric(watched.name, statistic=watched.statistic, period=period)
