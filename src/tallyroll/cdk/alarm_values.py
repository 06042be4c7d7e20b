"""What an alarm is made of, as plain data: metrics, and a rule over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MINUTE = 60  # seconds


class MetricNamespace(StrEnum):
    """The namespace of a metric: who publishes it."""

    PIPELINE = "Tallyroll"  # our functions; dimensions: the pipeline and the function
    QUEUE = "AWS/SQS"  # dimension: the queue
    FUNCTION = "AWS/Lambda"  # dimension: the function
    API = "AWS/ApiGateway"  # dimension: the API
    USAGE = "AWS/Usage"  # dimensions: what DynamoDB counts of the account and Region


@dataclass(frozen=True, slots=True)
class Watched:
    """One metric as an alarm reads it: a statistic per `period` (seconds). `of` is its function,
    queue or API, or what is counted of the account.
    """

    source: MetricNamespace
    of: str
    name: str
    statistic: str = "Sum"
    period: int = MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """An alarm fires when its number is over `above` in `times` periods in a row or, if `within` is
    set, in `times` of the last `within` periods.

    The number is the only metric, or an `expression` of the `metrics`. A period without data is
    over if `silence_is_bad`, else below.
    """

    metrics: Mapping[str, Watched]
    expression: str = ""
    label: str = ""
    above: float = 0
    times: int = 1
    within: int = 0
    silence_is_bad: bool = False

    def __post_init__(self) -> None:
        if self.within and (self.within < self.times or self.silence_is_bad):
            raise ValueError(f"{self}: `within` is at least `times`, and silence is then good")

    @property
    def evaluated(self) -> int:
        """The number of periods that are evaluated."""
        return max(self.times, self.within)

    @property
    def period(self) -> int:
        """The length of a period in seconds, the same for all metrics."""
        [period] = {metric.period for metric in self.metrics.values()}
        return period
