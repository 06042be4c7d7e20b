"""HTTP API requests (payload v2) in, one exact number out.

GET /v1/counters?key=...&since=&until=&consistent=
"""

from __future__ import annotations

import json
import os
import time
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from functions.telemetry import add_read, metrics_of
from tallyroll import wiring
from tallyroll.counting import Aggregator
from tallyroll.queries import Answer, answer_counter, answer_error
from tallyroll.settings import Settings

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

logger = Logger(service="aggregator")
metrics = metrics_of("aggregator")
app = APIGatewayHttpResolver()


@cache
def use_case() -> Aggregator:
    """This sandbox's aggregator."""
    return wiring.aggregator(Settings.from_env(os.environ))


@app.get("/v1/counters")
def counters() -> Response[str]:
    """The count of one key over a range of windows."""
    parameters = app.current_event.query_string_parameters
    time_left_ms = app.lambda_context.get_remaining_time_in_millis()
    return _response(answer_counter(use_case(), parameters, time_left_ms))


def problem(error: Exception) -> Response[str]:
    """Any failure, as a problem; ours with its traceback in the log, a caller's in one line."""
    answer = answer_error(error)
    if _is_ours(answer.status):
        logger.error("request failed", exc_info=error)
    else:
        logger.info("request refused", extra=dict(answer.body))
    return _response(answer)


app.not_found(problem)
app.exception_handler(Exception)(problem)


def _is_ours(status: int) -> bool:
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _response(answer: Answer) -> Response[str]:
    return Response(answer.status, answer.content_type, json.dumps(answer.body))


@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one HTTP request."""
    began = time.monotonic()
    response = app.resolve(event, context)
    took_ms = (time.monotonic() - began) * 1000
    add_read(metrics, took_ms, failed=_is_ours(response["statusCode"]))
    return response
