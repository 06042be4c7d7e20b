"""Every few minutes: delete the tables whose archives are proven, which cleanup has tagged."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from tallyroll import pipeline
from tallyroll.adapters.aws.lambda_events import LambdaContext
from tallyroll.lifecycle.dropper import Dropper
from tallyroll.settings import Settings
from tallyroll.telemetry import add_steps, metrics_of, traced

logger = Logger(service="dropper")
metrics = metrics_of("dropper")


@cache
def use_case() -> Dropper:
    """This sandbox's dropper."""
    return pipeline.Pipeline(Settings.from_env(os.environ)).dropper


@traced("dropper")
@logger.inject_lambda_context
@metrics.log_metrics
def handler(_event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Run the dropper once; answer what was done and what went wrong."""
    rolled = use_case().run(context.get_remaining_time_in_millis())
    add_steps(metrics, rolled)
    for problem in rolled.problems:
        logger.error(problem)
    return {"steps": dict(rolled.steps), "problems": rolled.problems}
