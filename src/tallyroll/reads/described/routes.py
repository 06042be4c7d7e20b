"""The routes of the HTTP API, their parameters, and the problems of each.

The aggregator checks requests by these tables, the constructs make a route of each path, and the
OpenAPI document is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tallyroll import limits
from tallyroll.reads.described.problems import (
    ABSENT,
    ARCHIVED,
    BAD_REQUEST,
    INTERNAL,
    NOT_READY,
    UNAVAILABLE,
    ProblemType,
)
from tallyroll.reads.described.problems import DAMAGED_PAYLOAD as DAMAGED
from tallyroll.reads.lookups import TOP_MAX
from tallyroll.reads.merge import EVENTS_MAX
from tallyroll.reads.ranges.keys import KEYS_PAGE_MAX
from tallyroll.reads.reader import KEYS_MAX
from tallyroll.reads.steps import MINUTE, STEPS

# All other paths, as API Gateway writes it: the answer is a problem that names the routes. Source:
# API Gateway Developer Guide, "Create routes for HTTP APIs in API Gateway", of greedy paths.
OTHER_PATHS = "/{proxy+}"
DOCUMENT = "/v1/openapi.json"
DOCUMENT_FILE = Path(__file__).with_name("openapi.json")
EVENT_ID_BYTES_MAX = 1_000  # a packet's id and an index; sort keys have at most 1,024 bytes


class Parameter(NamedTuple):
    """A parameter of a query: its JSON schema with bounds and default, and what it is. One that is
    given without a value counts as left out. It may come up to `most` times.
    """

    name: str
    schema: Mapping[str, Any]
    text: str
    required: bool = False
    most: int = 1

    @property
    def default(self) -> Any:
        """Its value if it is left out."""
        return self.schema["default"]


class Route(NamedTuple):
    """A GET route: what it answers with, its parameters, and its problems beside `ALWAYS`."""

    text: str
    parameters: Sequence[Parameter]
    problems: Sequence[ProblemType]


_CONTROL = "\\u0000-\\u001f\\u007f-\\u009f"
_TIME = {
    "type": "string",
    "examples": ["2026-11-20T08:00Z", "20261120T080000Z", "1795161600000"],
}
_FLAG = {"type": "boolean", "default": False}
_KEY = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.KEY_BYTES_MAX,
    "pattern": f"^[^{limits.KEY_RESERVED_PREFIX}{_CONTROL}][^{_CONTROL}]*$",
    "examples": ["video-42"],
}
_KEY_TEXT = f"at most {limits.KEY_BYTES_MAX} bytes of UTF-8"

KEY = Parameter("key", _KEY, f"The key, {_KEY_TEXT}", required=True)
KEYS = Parameter(
    "key",
    _KEY,
    f"A key, {_KEY_TEXT}; several are one read, and none may come twice",
    required=True,
    most=KEYS_MAX,
)
ID = Parameter(
    "id",
    {"type": "string", "minLength": 1, "maxLength": EVENT_ID_BYTES_MAX},
    "The event's id, or `{packet id}:{index}`",
    required=True,
)
SINCE = Parameter(
    "since", _TIME, "Begin of the range: an ISO time, a window's id, or ms since the epoch"
)
UNTIL = Parameter("until", _TIME, "End of the range, which is not part of it")
WINDOW = Parameter(
    "window",
    {"type": "string", "pattern": "^([0-9]{8}T[0-9]{6}Z)?$", "examples": ["20261120T080000Z"]},
    "A window's id, instead of a range",
)
TS = Parameter("ts", _TIME, "The event's time, instead of its window")
DATE = Parameter(
    "date",
    {"type": "string", "pattern": "^([0-9]{4}-[0-9]{2}-[0-9]{2})?$", "examples": ["2026-11-20"]},
    "The event's day in UTC, instead of its window",
)
CONSISTENT = Parameter("consistent", _FLAG, "Whether to bypass all that the function keeps")
READS = Parameter(
    "reads",
    {"type": "string", "enum": ["consistent", "eventual"], "default": "consistent"},
    "Whether what is read may be a moment old, for half the read units; not with `consistent`",
)
WINDOWS = Parameter("windows", _FLAG, "Whether to read window by window; of one key")
LIMIT = Parameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": EVENTS_MAX, "default": 100},
    "The most events of an answer",
)
PREFIX = Parameter("prefix", {"type": "string"}, "With what the keys begin")
KEYS_LIMIT = Parameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": KEYS_PAGE_MAX, "default": 100},
    "The most keys of an answer",
)
CURSOR = Parameter("cursor", {"type": "string"}, "Where to go on: an earlier answer's `cursor`")
PACKED = Parameter("packed", _FLAG, "Whether packets stay whole")
ORDER = Parameter(
    "order",
    {"type": "string", "enum": ["id", "time"], "default": "id"},
    "`time` sorts a range, in one answer without `limit` and `cursor`",
)
FROM_ARCHIVES = Parameter(
    "archived", _FLAG, "Whether dropped windows of a range are read from their archives"
)
ARCHIVED_EVENT = Parameter(
    "archived", _FLAG, "Whether dropped windows are read from their archives"
)
STEP = Parameter(
    "step",
    {"type": "string", "enum": [MINUTE, *STEPS], "default": "hour"},
    "How long a point is; `minute` is for windows that are not sealed",
)
TZ = Parameter(
    "tz",
    {"type": "string", "default": "UTC", "examples": ["Europe/Berlin"]},
    "The time zone of the steps, by its name in IANA's database",
)
N = Parameter(
    "n", {"type": "integer", "minimum": 1, "maximum": TOP_MAX, "default": 10}, "How many keys"
)
BY = Parameter(
    "by", {"type": "string", "enum": ["events", "sum"], "default": "events"}, "What is compared"
)

ALWAYS = (BAD_REQUEST, INTERNAL)
ROUTES: Mapping[str, Route] = {
    "/v1/counters": Route(
        "The exact number of events of a key, or of several, and the sum of their values",
        (KEYS, SINCE, UNTIL, CONSISTENT, READS, WINDOWS),
        (UNAVAILABLE,),
    ),
    "/v1/event": Route(
        "One event by its id, and by its date, window, time or a range",
        (KEY, ID, WINDOW, TS, DATE, SINCE, UNTIL, ARCHIVED_EVENT),
        (ABSENT, ARCHIVED, DAMAGED, UNAVAILABLE),
    ),
    "/v1/events": Route(
        "The events of a key in a window, or in a range of windows, page by page",
        (KEY, WINDOW, SINCE, UNTIL, LIMIT, CURSOR, PACKED, ORDER, FROM_ARCHIVES),
        (ABSENT, ARCHIVED, DAMAGED, NOT_READY, UNAVAILABLE),
    ),
    "/v1/keys": Route(
        "All keys of a range of windows, each with its count, page by page",
        (SINCE, UNTIL, PREFIX, KEYS_LIMIT, CURSOR),
        (ABSENT, ARCHIVED, NOT_READY, UNAVAILABLE),
    ),
    DOCUMENT: Route("This document", (), ()),
    "/v1/series": Route(
        "A key's counts by the minute, hour, day, week or month of a time zone",
        (KEY, SINCE, UNTIL, STEP, TZ),
        (ABSENT, UNAVAILABLE),
    ),
    "/v1/top": Route(
        "The largest keys of a window, or of a range of windows",
        (WINDOW, SINCE, UNTIL, N, BY),
        (ABSENT, ARCHIVED, UNAVAILABLE),
    ),
    "/v1/total": Route(
        "The total over all keys",
        (SINCE, UNTIL),
        (ABSENT, ARCHIVED, UNAVAILABLE),
    ),
}
