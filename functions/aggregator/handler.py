"""API requests in, exact answers out: an HTTP API's (payload 2.0), or a REST API's (payload 1.0).

GET /v1/counters?key=...[&key=...]&since=&until=&consistent=&reads=&windows=
GET /v1/event?key=...&id=...[&window=|ts=|date=|since=&until=]&archived=
GET /v1/events?key=...&window=...|since=&until=&limit=&cursor=&packed=&order=&archived=
GET /v1/keys?since=&until=&prefix=&cursor=&limit=
GET /v1/openapi.json
GET /v1/series?key=...&since=&until=&step=&tz=
GET /v1/top?window=...|since=&until=&n=&by=
GET /v1/total?since=&until=
"""

from __future__ import annotations

import json
import os
import time
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import (
    APIGatewayHttpResolver,
    APIGatewayRestResolver,
    Response,
)
from aws_lambda_powertools.event_handler.api_gateway import Router

from tallyroll import pipeline
from tallyroll.adapters.aws.lambda_events import clear_disk, is_rest, query_of
from tallyroll.reads.http import (
    HttpAnswer,
    answer_counters,
    answer_error,
    answer_event,
    answer_events,
    answer_keys,
    answer_openapi,
    answer_series,
    answer_top,
    answer_total,
    answer_unrouted,
    conditional,
    parse_keys,
    parse_parameters,
)
from tallyroll.reads.reader import PortReader
from tallyroll.settings import Settings
from tallyroll.telemetry import (
    add_answer,
    add_gathering,
    add_kept,
    add_read,
    add_shared,
    metrics_of,
    trace_error,
    traced,
)

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

logger = Logger(service="aggregator")
metrics = metrics_of("aggregator")
routes = Router()  # type: ignore[no-untyped-call]


@cache
def use_case() -> PortReader:
    """This sandbox's aggregator."""
    settings = Settings.from_env(os.environ)
    if settings.read_archives:
        clear_disk()
    return pipeline.Pipeline(settings).reader


@routes.get("/v1/counters")
def counters() -> Response[str]:
    """The counts of one key, or of several, over a range of windows."""
    keys, others = parse_keys(_query())
    return _counted(answer_counters(use_case(), keys, others, _time_left_ms()))


@routes.get("/v1/series")
def series() -> Response[str]:
    """The counts of one key in the hours, days, weeks or months of a range."""
    return _counted(answer_series(use_case(), _parameters(), _time_left_ms()))


def _counted(answer: HttpAnswer) -> Response[str]:
    if gathering := answer.gathering:
        add_gathering(metrics, gathering)
    if use := use_case().shared_use():
        add_shared(metrics, use)
    missing = {window: why for count in answer.counts for window, why in count.why_missing.items()}
    if missing:
        logger.warning("windows not read", extra={"windows": missing})
    return _response(answer)


@routes.get("/v1/event")
def event() -> Response[str]:
    """One event by its id."""
    return _response(answer_event(use_case(), _parameters(), _time_left_ms()))


@routes.get("/v1/events")
def events() -> Response[str]:
    """The events of one key in a window, or a range of windows."""
    return _response(answer_events(use_case(), _parameters(), _time_left_ms()))


@routes.get("/v1/keys")
def keys() -> Response[str]:
    """All keys of a range, each with its count."""
    return _response(answer_keys(use_case(), _parameters(), _time_left_ms()))


@routes.get("/v1/top")
def top() -> Response[str]:
    """The largest keys of one window, or of a range."""
    return _response(answer_top(use_case(), _parameters(), _time_left_ms()))


@routes.get("/v1/total")
def total() -> Response[str]:
    """The total over all keys of a range."""
    return _response(answer_total(use_case(), _parameters(), _time_left_ms()))


@routes.get("/v1/openapi.json")
def openapi() -> Response[str]:
    """What describes this API."""
    return _response(answer_openapi(_parameters()))


def _parameters() -> dict[str, str]:
    return parse_parameters(_query())


def _query() -> str:
    return query_of(routes.current_event.raw_event)


def _time_left_ms() -> int:
    return int(routes.lambda_context.get_remaining_time_in_millis())


def problem(error: Exception) -> Response[str]:
    """Any failure, as a problem; ours with its traceback in the log, a caller's in one line."""
    answer = answer_error(error)
    if not _is_ours(answer.status):
        return _refused(answer)
    logger.error("request failed", exc_info=error)
    trace_error(error)
    return _response(answer)


def unrouted(_error: Exception) -> Response[str]:
    """A request for which there is no route, as a problem."""
    asked = routes.current_event
    return _refused(answer_unrouted(asked.http_method, asked.path))


def _refused(answer: HttpAnswer) -> Response[str]:
    logger.info("request refused", extra=dict(answer.body))
    return _response(answer)


http_api, rest_api = APIGatewayHttpResolver(), APIGatewayRestResolver()
for api in (http_api, rest_api):
    api.include_router(routes)
    api.not_found(unrouted)
    api.exception_handler(Exception)(problem)


def _is_ours(status: int) -> bool:
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _response(answer: HttpAnswer) -> Response[str]:
    add_answer(metrics, complete=answer.is_complete)
    told = conditional(answer, _header("if-none-match"))
    if told.status < HTTPStatus.BAD_REQUEST:
        add_kept(metrics, told.counts, confirmed=told.status == HTTPStatus.NOT_MODIFIED)
    body = json.dumps(told.body) if told.body else ""
    return Response(told.status, told.content_type, body, headers=dict(told.headers))


def _header(name: str) -> str | None:
    headers = routes.current_event.raw_event.get("headers") or {}
    found = [value for each, value in headers.items() if each.lower() == name]
    return found[0] if found else None


@traced("aggregator")
@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request, in the form of the API that it comes from."""
    began = time.monotonic()
    response = (rest_api if is_rest(event) else http_api).resolve(event, context)
    took_ms = (time.monotonic() - began) * 1000
    add_read(metrics, took_ms, failed=_is_ours(response["statusCode"]))
    return response
