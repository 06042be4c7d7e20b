"""The metrics that the functions publish, by their names in `src/tallyroll/telemetry.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch

NAMESPACE = "Tallyroll"
MINUTE = cdk.Duration.minutes(1)
# Source: the price list of DynamoDB, us-east-1, on demand, November 2026.
DOLLARS_PER_MILLION_WRITE_UNITS = 0.625


class PipelineMetrics:
    """The metrics of one pipeline."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline

    def of(
        self,
        function: str,
        name: str,
        statistic: str = "Sum",
        *,
        label: str | None = None,
        period: cdk.Duration = MINUTE,
    ) -> cloudwatch.Metric:
        """One metric that a function publishes."""
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map={"pipeline": self._pipeline, "service": function},
            statistic=statistic,
            label=label or name,
            period=period,
        )

    def writer(self, *names: str) -> list[cloudwatch.IMetric]:
        """The writer's metrics with these names: sums per minute."""
        return [self.of("writer", name) for name in names]

    def by(self, name: str, kinds: Iterable[str]) -> list[cloudwatch.IMetric]:
        """The writer's metric of each kind: sums per minute."""
        return [self.of("writer", f"{name}-{kind}", label=kind) for kind in kinds]

    def windows(self, *states: str) -> list[cloudwatch.IMetric]:
        """The number of windows in each state."""
        return [self.of("roller", f"Windows-{state}", "Maximum", label=state) for state in states]

    def of_kinds(
        self, name: str, kinds: Iterable[str], period: cdk.Duration = MINUTE
    ) -> dict[str, cloudwatch.IMetric]:
        """The writer's metric of each kind of events, by the kind in small letters."""
        return {kind.lower(): self.of("writer", f"{name}{kind}", period=period) for kind in kinds}


def of_account(resource: str, name: str, statistic: str, period: cdk.Duration) -> cloudwatch.Metric:
    """What DynamoDB publishes of the account and Region. Source: Amazon DynamoDB Developer Guide,
    "DynamoDB Metrics and dimensions", at "Usage metrics".
    """
    return cloudwatch.Metric(
        namespace="AWS/Usage",
        metric_name=name,
        dimensions_map={
            "Service": "DynamoDB",
            "Type": "Resource",
            "Resource": resource,
            "Class": "None",
        },
        statistic=statistic,
        period=period,
    )


def computed(
    expression: str,
    metrics: Mapping[str, cloudwatch.IMetric],
    label: str,
    period: cdk.Duration = MINUTE,
) -> cloudwatch.MathExpression:
    """A number that CloudWatch computes from metrics, by their names in the expression."""
    return cloudwatch.MathExpression(
        expression=expression, using_metrics=dict(metrics), label=label, period=period
    )
