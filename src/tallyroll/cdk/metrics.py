"""The metrics that the functions publish, as `functions/telemetry.py` names them."""

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
        """Sums by the minute of what the writer publishes."""
        return [self.of("writer", name) for name in names]

    def by(self, name: str, kinds: Iterable[str]) -> list[cloudwatch.IMetric]:
        """What the writer publishes one by one for each kind: sums by the minute."""
        return [self.of("writer", f"{name}-{kind}", label=kind) for kind in kinds]

    def windows(self, *states: str) -> list[cloudwatch.IMetric]:
        """How many windows are in these states."""
        return [self.of("roller", f"Windows-{state}", "Maximum", label=state) for state in states]

    def write_units(self, period: cdk.Duration) -> dict[str, cloudwatch.IMetric]:
        """The write units that events consumed, single and packed apart."""
        return {
            "single": self.of("writer", "WriteUnitsSingle", period=period),
            "packed": self.of("writer", "WriteUnitsPacked", period=period),
        }


def computed(
    expression: str,
    metrics: Mapping[str, cloudwatch.IMetric],
    label: str,
    period: cdk.Duration = MINUTE,
) -> cloudwatch.MathExpression:
    """A number that CloudWatch computes from metrics, each named as in the expression."""
    return cloudwatch.MathExpression(
        expression=expression, using_metrics=dict(metrics), label=label, period=period
    )
