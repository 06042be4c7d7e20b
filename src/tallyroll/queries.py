"""The aggregator's HTTP interface as values: query parameters in, JSON-ready answers and problems
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from tallyroll.amounts import format_amount, shown
from tallyroll.counting import Aggregator, Count
from tallyroll.errors import Rejected, StoreError, UsageError
from tallyroll.events import check_key
from tallyroll.windows import iso, parse_instant


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status, a JSON body and its content type."""

    status: int
    body: dict[str, Any]
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class CounterQuery:
    """GET /v1/counters: a key, a range [since, until) in ms with open sides None, and whether to
    bypass the cache.
    """

    key: str
    since: int | None
    until: int | None
    consistent: bool


def counter_query(parameters: Mapping[str, str]) -> CounterQuery:
    """The query in an URL's parameters. Raises UsageError, naming the parameter and its value."""
    known = ("key", "since", "until", "consistent")
    if unknown := [name for name in parameters if name not in known]:
        raise UsageError(f"parameter {unknown[0]!r}: known are {', '.join(known)}")
    try:
        key = check_key(parameters.get("key"))
    except Rejected as rejected:
        raise UsageError(rejected.detail) from None
    consistent = parameters.get("consistent") or "false"
    if consistent not in ("true", "false"):
        raise UsageError(f"consistent {shown(consistent)}: must be true or false")
    return CounterQuery(
        key,
        _instant(parameters.get("since")),
        _instant(parameters.get("until")),
        consistent == "true",
    )


def _instant(text: str | None) -> int | None:
    return parse_instant(text) if text else None


def answer_counter(
    aggregator: Aggregator, parameters: Mapping[str, str], time_left_ms: int
) -> Answer:
    """The answer to GET /v1/counters. Raises UsageError and StoreError."""
    query = counter_query(parameters)
    count = aggregator.count(
        query.key, query.since, query.until, time_left_ms, consistent=query.consistent
    )
    return Answer(200, counter_json(count))


def counter_json(count: Count) -> dict[str, Any]:
    """A count as JSON; sums are strings, since they may have more digits than a double holds."""
    answer: dict[str, Any] = {
        "key": count.key,
        "events": count.events,
        "sum": format_amount(count.amount),
        "windows": [
            {
                "window": window.window,
                "events": window.events,
                "sum": format_amount(window.amount),
                "state": window.status,
            }
            for window in count.windows
        ],
        "as_of": iso(count.as_of),
        "complete": count.complete,
    }
    if count.missing:
        answer["missing"] = list(count.missing)
    return answer


def answer_error(error: Exception) -> Answer:
    """A failure as a problem (RFC 9457, application/problem+json): 400, 404, 503 or 500."""
    if isinstance(error, UsageError):
        status, title, detail = 400, "Bad request", str(error)
    elif isinstance(error, StoreError):
        status, title, detail = 503, "Store unavailable", "a read failed: try again"
    elif getattr(error, "status_code", None) == HTTPStatus.NOT_FOUND:
        status, title, detail = 404, "Not found", "known is GET /v1/counters?key=..."
    else:
        status, title, detail = 500, "Internal error", "see the function's log"
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return Answer(status, body, "application/problem+json")
