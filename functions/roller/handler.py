"""Every minute: make windows ahead of time, open them, close and seal those that are over."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from tallyroll import pipeline
from tallyroll.adapters.aws.lambda_events import LambdaContext
from tallyroll.lifecycle.roller import Roller
from tallyroll.settings import Settings
from tallyroll.telemetry import add_rolled, add_windows, metrics_of, traced

logger = Logger(service="roller")
metrics = metrics_of("roller")


@cache
def use_case() -> Roller:
    """This sandbox's roller."""
    return pipeline.Pipeline(Settings.from_env(os.environ)).roller


@traced("roller")
@logger.inject_lambda_context
@metrics.log_metrics
def handler(_event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Run roller once; answer what was done and what went wrong."""
    rolled = use_case().run(context.get_remaining_time_in_millis())
    add_rolled(metrics, rolled)
    add_windows(metrics, rolled)
    for problem in rolled.problems:
        logger.error(problem)
    return {"steps": dict(rolled.steps), "problems": rolled.problems}
