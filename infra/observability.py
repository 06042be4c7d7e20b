"""What tells people how a pipeline does: its alarms, whom they tell, and its dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.alarms import ALARMS, described
from infra.dashboard import make_dashboard
from infra.functions import PipelineFunction
from infra.ingest import Queues
from infra.metrics import MINUTE, PipelineMetrics, computed
from infra.options import Options
from tallyroll.resources import DEAD_LETTERS_RETENTION_SECONDS
from tallyroll.settings import Settings

BEHIND_SECONDS = 2_400  # over twice the visibility timeout of a writer that crashed
SEAL_MINUTES = 30  # a slice of a sealing takes less than a run of the roller
EXPORT_MINUTES = 120  # a few attempts, each given up after its lease
# Tables that an account may have in a Region unless its quota was raised. Source: DynamoDB
# Developer Guide, "Quotas".
TABLES_SHARE = 0.8
FIVE_MINUTES = cdk.Duration.minutes(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """When an alarm fires: `metric` is over `above` in each of `times` periods in a row."""

    metric: cloudwatch.IMetric
    above: float = 0
    times: int = 1
    silence_is_bad: bool = False


class Observability(Construct):
    """One alarm of each in `ALARMS`, one topic that they tell, one dashboard."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: Options,
        queues: Queues,
        functions: Sequence[PipelineFunction],
    ) -> None:
        super().__init__(scope, id_)
        metrics = PipelineMetrics(options.name)
        self.topic = _topic(self, options)
        rules = {
            **_queue_rules(queues),
            **_writing_rules(metrics),
            **_window_rules(metrics, options.settings()),
            **_function_rules(functions),
        }
        assert rules.keys() == ALARMS.keys()
        self.alarms = {id_: self._alarm(options.name, id_, rule) for id_, rule in rules.items()}
        self.dashboard = make_dashboard(self, options, metrics, queues, functions, self.alarms)

    def _alarm(self, pipeline: str, id_: str, rule: _Rule) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            "".join(word.capitalize() for word in id_.split("-")),
            alarm_name=f"{pipeline}-{id_}",
            alarm_description=described(id_),
            metric=rule.metric,
            threshold=rule.above,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=rule.times,
            treat_missing_data=(
                cloudwatch.TreatMissingData.BREACHING
                if rule.silence_is_bad
                else cloudwatch.TreatMissingData.NOT_BREACHING
            ),
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        return alarm


def _topic(scope: Construct, options: Options) -> sns.Topic:
    topic = sns.Topic(scope, "Alarms", display_name=f"{options.name} alarms", enforce_ssl=True)
    # A policy of its own takes the place of the one that let the account's alarms publish.
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


def _queue_rules(queues: Queues) -> Mapping[str, _Rule]:
    waiting = queues.events.metric_approximate_age_of_oldest_message(
        period=MINUTE, statistic="Maximum"
    )
    dead = queues.dead_letters
    return {
        "dead-letters": _Rule(
            metric=dead.metric_approximate_number_of_messages_visible(
                period=MINUTE, statistic="Maximum"
            )
        ),
        "dead-letters-expire": _Rule(
            metric=dead.metric_approximate_age_of_oldest_message(
                period=FIVE_MINUTES, statistic="Maximum"
            ),
            above=DEAD_LETTERS_RETENTION_SECONDS / 2,
        ),
        "falling-behind": _Rule(metric=waiting, above=BEHIND_SECONDS, times=5),
        "events-expire": _Rule(metric=waiting, above=queues.retention_seconds / 2),
    }


def _writing_rules(metrics: PipelineMetrics) -> Mapping[str, _Rule]:
    return {
        # The age of the oldest message leaves out what was received three times or more.
        "handed-back": _Rule(
            metric=metrics.of("writer", "HandedBack", period=FIVE_MINUTES), times=12
        ),
        "events-await-window": _Rule(metric=metrics.of("writer", "AwaitingWindow"), times=5),
        "store-throttles": _Rule(metric=metrics.of("writer", "Throttles"), times=15),
        "reads-failing": _Rule(
            metric=metrics.of("aggregator", "ReadsFailed", period=FIVE_MINUTES), times=2
        ),
    }


def _window_rules(metrics: PipelineMetrics, settings: Settings) -> Mapping[str, _Rule]:
    def both(name: str) -> cloudwatch.MathExpression:
        parts = {
            f"m{number}": metrics.of(function, name, period=FIVE_MINUTES)
            for number, function in enumerate(("roller", "cleanup"))
        }
        return computed("FILL(m0, 0) + FILL(m1, 0)", parts, name, FIVE_MINUTES)

    def stuck(function: str, minutes: int) -> _Rule:
        """A window has not got on for that long, as two runs in a row found."""
        return _Rule(
            metric=metrics.of(function, "StuckFor", "Maximum", period=FIVE_MINUTES),
            above=minutes * 60,
            times=2,
        )

    length_ms = settings.window_seconds * 1000
    opened_ms = settings.freeze_lead_ms + length_ms + settings.accept_for_ms
    open_at_once = -(-opened_ms // length_ms)

    return {
        "next-window-missing": _Rule(
            metric=metrics.of("roller", "NextWindowMissing", "Maximum"),
            times=5,
            silence_is_bad=True,
        ),
        # The least number that was there in five minutes: windows that come and go do not count.
        "close-stuck": _Rule(
            metric=metrics.of("roller", "Windows-open", "Minimum", period=FIVE_MINUTES),
            above=open_at_once + SEAL_MINUTES * 60 // settings.window_seconds,
            times=SEAL_MINUTES // 5,
        ),
        "seal-stuck": stuck("roller", SEAL_MINUTES),
        "export-stuck": stuck("cleanup", EXPORT_MINUTES),
        "cleanup-silent": _Rule(
            metric=computed(
                "0 - runs",
                {"runs": metrics.of("cleanup", "Steps", "SampleCount", period=FIVE_MINUTES)},
                "runs of cleanup, negative",
                FIVE_MINUTES,
            ),
            above=-1,
            times=6,
            silence_is_bad=True,
        ),
        "proof-mismatch": _Rule(metric=both("ProofFailures")),
        "steps-failing": _Rule(metric=both("Problems"), times=3),
        "window-tables": _Rule(
            metric=metrics.of("roller", "WindowTables", "Maximum", period=FIVE_MINUTES),
            above=TABLES_SHARE * settings.table_quota,
        ),
    }


def _function_rules(functions: Sequence[PipelineFunction]) -> Mapping[str, _Rule]:
    throttles = {
        f"m{number}": each.function.metric_throttles(period=FIVE_MINUTES)
        for number, each in enumerate(functions)
    }
    total = computed(f"SUM([{', '.join(throttles)}])", throttles, "throttles", FIVE_MINUTES)
    return {
        "function-throttles": _Rule(metric=total, times=3),
        **{
            f"{each.package}-errors": _Rule(
                metric=each.function.metric_errors(period=FIVE_MINUTES), times=2
            )
            for each in functions
        },
    }
