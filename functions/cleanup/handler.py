"""Every few minutes: export cold windows, prove the archives whole, tag the tables as proven; once
a day, delete uploaded payloads that no record references.

It deletes no table: that is the dropper's, by a role of its own.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from tallyroll import pipeline
from tallyroll.adapters.aws.lambda_events import LambdaContext
from tallyroll.lifecycle.cleanup import Cleanup
from tallyroll.settings import Settings
from tallyroll.telemetry import add_rolled, metrics_of, traced

logger = Logger(service="cleanup")
metrics = metrics_of("cleanup")


@cache
def use_case() -> Cleanup:
    """This sandbox's cleanup."""
    return pipeline.Pipeline(Settings.from_env(os.environ)).cleanup


@traced("cleanup")
@logger.inject_lambda_context
@metrics.log_metrics
def handler(_event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Run cleanup once; answer what was done and what went wrong."""
    rolled = use_case().run(context.get_remaining_time_in_millis())
    add_rolled(metrics, rolled)
    for problem in rolled.problems:
        logger.error(problem)
    return {"steps": dict(rolled.steps), "problems": rolled.problems}
