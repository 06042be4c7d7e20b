"""SQS in, exact counts out.

The writer (`tallyroll.ingest.writer`) places each event in a window (`tallyroll.ingest.placement`),
calculates its shard, the suffix of its partition key (`tallyroll.model.sharding`), and commits the
record with its tally in one transaction (`tallyroll.ingest.transactions`). A message that was
neither counted, nor a duplicate, nor rejected is answered as a batch item failure.
"""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from tallyroll import pipeline
from tallyroll.adapters.aws.lambda_events import LambdaContext, batch_failures, sqs_messages
from tallyroll.ingest.writer import Writer
from tallyroll.settings import Settings
from tallyroll.telemetry import add_report, metrics_of, traced

logger = Logger(service="writer")
metrics = metrics_of("writer")


@cache
def use_case() -> Writer:
    """This sandbox's writer."""
    return pipeline.Pipeline(Settings.from_env(os.environ)).writer


@traced("writer")
@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Count the events of an SQS batch; answer which messages must be delivered again."""
    began = time.monotonic()
    writer = use_case()
    report = writer.write(sqs_messages(event), context.get_remaining_time_in_millis())
    add_report(metrics, report, (time.monotonic() - began) * 1000)
    if report.rejected:
        logger.warning("messages rejected", extra={"reasons": dict(report.rejected)})
    return batch_failures(report.failures)
