"""Every hour, where the setting `archive` asks for it: make Parquet of the archives of windows that
were dropped, and perhaps let those that it was made of expire.

It needs DuckDB, from a layer.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from tallyroll import pipeline
from tallyroll.adapters.aws.lambda_events import LambdaContext, clear_disk
from tallyroll.lifecycle.compactor import Compactor
from tallyroll.settings import Settings
from tallyroll.telemetry import add_rolled, metrics_of, traced

logger = Logger(service="compactor")
metrics = metrics_of("compactor")


@cache
def use_case() -> Compactor:
    """This sandbox's compactor."""
    clear_disk()
    return pipeline.Pipeline(Settings.from_env(os.environ)).compactor


@traced("compactor")
@logger.inject_lambda_context
@metrics.log_metrics
def handler(_event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Run the compactor once; answer what was done and what went wrong."""
    rolled = use_case().run(context.get_remaining_time_in_millis())
    add_rolled(metrics, rolled)
    for problem in rolled.problems:
        logger.error(problem)
    return {"steps": dict(rolled.steps), "problems": rolled.problems}
