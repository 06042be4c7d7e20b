"""A pipeline's metrics, quotas and trigger on CloudWatch, Service Quotas and Lambda.

Sources: CloudWatch User Guide, "Amazon SQS metrics"; AWS Lambda Developer Guide, "Types of metrics
for Lambda functions"; Service Quotas API Reference, GetServiceQuota; the quotas' codes: AWS General
Reference, "Amazon DynamoDB endpoints and quotas" and "AWS Lambda endpoints and quotas".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.cloudwatch import EVENTS_COUNTED, OWN_NAMESPACE, QueueMetrics
from tallyroll.adapters.aws.sources import mappings
from tallyroll.errors import Missing, Refused
from tallyroll.ports.gauges import Gauge, Points, Quota, Trigger
from tallyroll.resources import declare, function_name
from tallyroll.settings import Settings

NO_SUCH_QUOTA = "NoSuchResourceException"
_LAMBDA, _SQS = "AWS/Lambda", "AWS/SQS"
# The names of `telemetry.add_report` and `add_read`.
_METRICS: Mapping[Gauge, tuple[str, str, str]] = {
    Gauge.COUNTED: (OWN_NAMESPACE, EVENTS_COUNTED, "Sum"),
    Gauge.COUNTED_SINGLE: (OWN_NAMESPACE, "SingleEventsCounted", "Sum"),
    Gauge.COUNTED_PACKED: (OWN_NAMESPACE, "PackedEventsCounted", "Sum"),
    Gauge.COUNTED_LOGGED: (OWN_NAMESPACE, "LoggedEventsCounted", "Sum"),
    Gauge.REQUESTS_SINGLE: (OWN_NAMESPACE, "StoreRequestsSingle", "Sum"),
    Gauge.REQUESTS_PACKED: (OWN_NAMESPACE, "StoreRequestsPacked", "Sum"),
    Gauge.REQUESTS_LOGGED: (OWN_NAMESPACE, "StoreRequestsLogged", "Sum"),
    Gauge.UNITS_LOGGED: (OWN_NAMESPACE, "WriteUnitsLogged", "Sum"),
    Gauge.MESSAGES: (OWN_NAMESPACE, "Messages", "Sum"),
    Gauge.THROTTLED: (OWN_NAMESPACE, "Throttles", "Sum"),
    Gauge.THROTTLED_KEY_RANGE: (OWN_NAMESPACE, "Throttles-key-range", "Sum"),
    Gauge.READS: (OWN_NAMESPACE, "Reads", "Sum"),
    Gauge.BATCHES: (_LAMBDA, "Invocations", "Sum"),
    Gauge.BATCH_MS: (_LAMBDA, "Duration", "Average"),
    Gauge.WRITERS: (_LAMBDA, "ConcurrentExecutions", "Maximum"),
    Gauge.WRITERS_THROTTLED: (_LAMBDA, "Throttles", "Sum"),
    Gauge.OLDEST_S: (_SQS, "ApproximateAgeOfOldestMessage", "Maximum"),
    Gauge.IN_FLIGHT: (_SQS, "ApproximateNumberOfMessagesNotVisible", "Maximum"),
}
_QUOTAS: Mapping[Quota, tuple[str, str]] = {
    Quota.TABLES: ("dynamodb", "L-F98FE922"),
    Quota.TABLE_WRITES: ("dynamodb", "L-AB614373"),
    Quota.FUNCTIONS: ("lambda", "L-B99A9384"),
}


@dataclass(frozen=True)
class AwsGauges:
    """The port of gauges on AWS; `queues` are the metrics of the pipeline's event queue."""

    queues: QueueMetrics
    quota_caller: Caller
    lambda_caller: Caller
    settings: Settings

    def points(self, gauge: Gauge, since: int) -> Points:
        namespace, name, statistic = _METRICS[gauge]
        period_s = self.queues.period_for(since)
        of = self._dimensions(gauge, namespace)
        found = self.queues.points(namespace, name, of, statistic, since, period_s)
        return Points(period_s * 1000, tuple(found.items()))

    def _dimensions(self, gauge: Gauge, namespace: str) -> dict[str, str]:
        name = self.settings.name
        if namespace == _SQS:
            url_end = self.settings.queue_url.rpartition("/")[2]
            return {"QueueName": url_end or declare(self.settings).queue.name}
        if namespace == _LAMBDA:
            return {"FunctionName": function_name(name, "writer")}
        return {"pipeline": name, "service": "aggregator" if gauge is Gauge.READS else "writer"}

    def quota(self, quota: Quota) -> float:
        service, code = _QUOTAS[quota]
        try:
            reply = self.quota_caller.read("GetServiceQuota", ServiceCode=service, QuotaCode=code)
        except Refused as error:
            if error.code == NO_SUCH_QUOTA:
                raise Missing(str(error), error.code) from error
            raise
        return float(reply["Quota"]["Value"])

    def trigger(self) -> Trigger | None:
        name = function_name(self.settings.name, "writer")
        for mapping in mappings(self.lambda_caller, name):
            most = (mapping.get("ScalingConfig") or {}).get("MaximumConcurrency")
            return Trigger(
                batch_size=int(mapping["BatchSize"]),
                batch_window_seconds=int(mapping.get("MaximumBatchingWindowInSeconds") or 0),
                max_concurrency=None if most is None else int(most),
            )
        return None
