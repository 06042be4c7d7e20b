"""The reader's HTTP interface: parses query parameters, gives JSON-ready answers and problems."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from tallyroll.errors import Rejected, UsageError
from tallyroll.model.amounts import shown
from tallyroll.model.formats.fields import check_key
from tallyroll.model.windows import WindowId, parse_instant, window_start
from tallyroll.reads.counts import COUNT_MS, Count, Gathering, counter_json, counters_json
from tallyroll.reads.described.problems import (
    MEDIA_TYPE,
    METHOD_NOT_ALLOWED,
    UNKNOWN_PATH,
    ProblemType,
    problem_of,
)
from tallyroll.reads.described.routes import (
    BY,
    CONSISTENT,
    DOCUMENT,
    DOCUMENT_FILE,
    EVENT_ID_BYTES_MAX,
    FROM_ARCHIVES,
    KEYS_LIMIT,
    LIMIT,
    ORDER,
    PACKED,
    READS,
    ROUTES,
    STEP,
    TZ,
    WINDOWS,
    N,
    Parameter,
)
from tallyroll.reads.jsonable import events_json, found_json, top_json
from tallyroll.reads.merge import BYTES_MAX
from tallyroll.reads.minutes import minutes_json
from tallyroll.reads.ranges.dated import event_shown, matches_json
from tallyroll.reads.ranges.keys import keys_page_json
from tallyroll.reads.ranges.largest import total_json
from tallyroll.reads.ranges.pages import events_page_json
from tallyroll.reads.ranges.spans import date_ms
from tallyroll.reads.reader import KEYS_MAX, PortReader
from tallyroll.reads.series import curve_json
from tallyroll.reads.steps import MINUTE, step_named, zone_named
from tallyroll.reads.validators import (
    CONFIRMED,
    NOT_KEPT,
    confirms,
    etag_of,
    kept_for,
    timeless,
)

PARAMETERS_MAX = 20


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP status, a JSON body and its content type; the `counts` that the body shows; and the
    headers that say whether it may be kept.
    """

    status: int
    body: dict[str, Any]
    content_type: str = "application/json"
    counts: Sequence[Count] = ()
    headers: Mapping[str, str] = field(default_factory=lambda: CONFIRMED)

    @property
    def gathering(self) -> Gathering | None:
        """What all live windows took together; None if none was read."""
        some = [count.gathering for count in self.counts if count.gathering]
        if not some:
            return None
        return Gathering(sum(one.stripes for one in some), max(one.took_ms for one in some))

    @property
    def is_settled(self) -> bool:
        """Whether it is of sealed windows alone, so that the time of its read says nothing."""
        return bool(self.counts) and not any(count.is_live for count in self.counts)

    @property
    def is_complete(self) -> bool:
        """Whether the answer holds everything that was asked for."""
        return bool(self.body.get("complete", True))


def parse_parameters(query: str) -> dict[str, str]:
    """The parameters in a URL's raw query string.

    Raises UsageError if one occurs twice (API Gateway would join the values with a comma) or is not
    UTF-8.
    """
    return _once(_pairs(query, PARAMETERS_MAX))


def parse_keys(query: str) -> tuple[list[str], dict[str, str]]:
    """The values of `key` in a URL's raw query string, in their order, and the other parameters,
    each at most once. Raises UsageError.
    """
    pairs = _pairs(query, KEYS_MAX + PARAMETERS_MAX)
    keys = [value for name, value in pairs if name == "key"]
    return keys, _once([pair for pair in pairs if pair[0] != "key"])


def _pairs(query: str, most: int) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=most)
    except ValueError as error:
        raise UsageError(f"query {shown(query)}: {error}") from None


def _once(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name in parameters:
            raise UsageError(f"parameter {name!r} comes twice: give it once")
        parameters[name] = value
    return parameters


def required_key(key: str | None) -> str:
    """`key`, if it is valid. Raises UsageError."""
    try:
        return check_key(key)
    except Rejected as rejected:
        raise UsageError(rejected.detail) from None


def required_window(window: str | None) -> WindowId:
    """`window`, if it is a valid window id. Raises UsageError."""
    if not window:
        raise UsageError("window is missing: an id looks like 20261120T080000Z")
    window_start(window)
    return window


def required_id(event_id: str | None) -> str:
    """`event_id`, if it is valid. Raises UsageError."""
    if not event_id:
        raise UsageError("id is missing: give the event's, or {packet id}:{index}")
    try:
        size = len(event_id.encode())
    except UnicodeEncodeError:
        raise UsageError(f"id {shown(event_id)}: holds a lone surrogate, no text") from None
    if size > EVENT_ID_BYTES_MAX:
        raise UsageError(f"id {shown(event_id)}: has {size} bytes, over {EVENT_ID_BYTES_MAX}")
    return event_id


def _check_names(parameters: Mapping[str, str], path: str) -> None:
    known = [each.name for each in ROUTES[path].parameters]
    if unknown := [name for name in parameters if name not in known]:
        takes = f"known are {', '.join(known)}" if known else "there are none"
        raise UsageError(f"parameter {unknown[0]!r}: {takes}")


def _check_one_of(parameters: Mapping[str, str], *groups: Sequence[str]) -> None:
    given = [group for group in groups if any(map(parameters.get, group))]
    if len(given) > 1:
        named = [next(filter(parameters.get, group)) for group in given]
        raise UsageError(f"{' and '.join(named)}: give one of them")


def _instant(text: str | None) -> int | None:
    return parse_instant(text) if text else None


def _flag(parameters: Mapping[str, str], of: Parameter) -> bool:
    text = parameters.get(of.name) or "false"
    if text not in ("true", "false"):
        raise UsageError(f"{of.name} {shown(text)}: must be true or false")
    return text == "true"


def _number(parameters: Mapping[str, str], of: Parameter) -> int:
    text = parameters.get(of.name) or str(of.default)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"{of.name} {shown(text)}: must be a whole number")
    return int(text)


def _text(parameters: Mapping[str, str], of: Parameter) -> str:
    return parameters.get(of.name) or str(of.default)


def _choice(parameters: Mapping[str, str], of: Parameter) -> str:
    text = _text(parameters, of)
    if text not in of.schema["enum"]:
        raise UsageError(f"{of.name} {shown(text)}: must be {' or '.join(of.schema['enum'])}")
    return text


def answer_counter(
    reader: PortReader, parameters: Mapping[str, str], time_left_ms: int
) -> HttpAnswer:
    """The answer to GET /v1/counters for one key. Raises UsageError and StoreError."""
    keys = [parameters["key"]] if "key" in parameters else []
    others = {name: value for name, value in parameters.items() if name != "key"}
    return answer_counters(reader, keys, others, time_left_ms)


def answer_counters(
    reader: PortReader, keys: Sequence[str], parameters: Mapping[str, str], time_left_ms: int
) -> HttpAnswer:
    """The answer to GET /v1/counters: of one key its count, of several `counters` with one each, in
    the order of the keys. Raises UsageError and StoreError.
    """
    _check_names(parameters, "/v1/counters")
    by_window = _flag(parameters, WINDOWS)
    if by_window and len(keys) > 1:
        raise UsageError("windows=true: lists the windows of one key; ask for each key by itself")
    consistent, eventual = _flag(parameters, CONSISTENT), _choice(parameters, READS) == "eventual"
    counts = reader.counts(
        [required_key(key) for key in keys] if keys else [required_key(None)],
        _instant(parameters.get("since")),
        _instant(parameters.get("until")),
        time_left_ms,
        consistent=consistent,
        by_window=by_window,
        eventual=eventual,
    )
    body = counter_json(counts[0]) if len(counts) == 1 else counters_json(counts)
    kept = NOT_KEPT if consistent or eventual else _kept(reader, counts)
    return HttpAnswer(200, body, counts=counts, headers=kept)


def _kept(reader: PortReader, counts: Sequence[Count]) -> Mapping[str, str]:
    """Counts of live windows may be kept as long as the reader keeps them."""
    if any(count.is_live for count in counts):
        return kept_for(reader.age_ms(counts), reader.kept_ms)
    return CONFIRMED


def conditional(answer: HttpAnswer, if_none_match: str | None) -> HttpAnswer:
    """The answer with its ETag; a 304 without a body, if the request names that tag. Counts of
    sealed windows alone lose the time of their read, so that they stay the same byte for byte. An
    answer that is not complete, or an error, has no tag, and no cache may keep it.
    """
    if answer.status != HTTPStatus.OK:
        return answer
    if not answer.is_complete:
        return replace(answer, headers=NOT_KEPT)
    if answer.is_settled:
        answer = replace(answer, body=timeless(answer.body))
    etag = etag_of(answer.body)
    headers = {**answer.headers, "ETag": etag}
    if confirms(if_none_match, etag):
        return replace(answer, status=int(HTTPStatus.NOT_MODIFIED), body={}, headers=headers)
    return replace(answer, headers=headers)


def answer_event(
    reader: PortReader, parameters: Mapping[str, str], time_left_ms: int = COUNT_MS
) -> HttpAnswer:
    """The answer to GET /v1/event. Raises UsageError, Absent, Archived and StoreError."""
    _check_names(parameters, "/v1/event")
    key, event_id = required_key(parameters.get("key")), required_id(parameters.get("id"))
    _check_one_of(parameters, ("window",), ("ts",), ("date",), ("since", "until"))
    archived = _flag(parameters, FROM_ARCHIVES)
    day = date_ms(date) if (date := parameters.get("date")) else None
    span = (_instant(parameters.get("since")), _instant(parameters.get("until")))
    if day is not None or span != (None, None):
        place = (reader, key, event_id, day, *span, time_left_ms)
        return HttpAnswer(200, matches_json(event_shown(*place, archived=archived), BYTES_MAX))
    window, ts = parameters.get("window"), _instant(parameters.get("ts"))
    chosen = required_window(window) if window else None
    found = reader.event(key, event_id, chosen, ts, time_left_ms, archived=archived)
    return HttpAnswer(200, found_json(found))


def answer_events(
    reader: PortReader, parameters: Mapping[str, str], time_left_ms: int
) -> HttpAnswer:
    """The answer to GET /v1/events. Raises UsageError, Absent, Archived and StoreError."""
    _check_names(parameters, "/v1/events")
    _check_one_of(parameters, ("window",), ("since", "until"))
    key, packed = required_key(parameters.get("key")), _flag(parameters, PACKED)
    limit = _number(parameters, LIMIT)
    cursor = parameters.get("cursor") or None
    order, archived = _choice(parameters, ORDER), _flag(parameters, FROM_ARCHIVES)
    if archived and (parameters.get("window") or order == "time"):
        raise UsageError("archived true: give since and until, without window and order time")
    if not (parameters.get("since") or parameters.get("until")):
        if order == "time":
            raise UsageError("order time: give since and until instead of window")
        window = required_window(parameters.get("window"))
        events = reader.events(key, window, time_left_ms, limit=limit, cursor=cursor, packed=packed)
        return HttpAnswer(200, events_json(events))
    span = (_instant(parameters.get("since")), _instant(parameters.get("until")))
    if order == "time":
        if cursor or parameters.get("limit"):
            raise UsageError("order time: takes no limit and no cursor, its answer has all events")
        page = reader.events_by_time(key, *span, time_left_ms, packed=packed)
    else:
        page = reader.events_page(
            *(key, *span, time_left_ms),
            limit=limit,
            cursor=cursor,
            packed=packed,
            archived=archived,
        )
    return HttpAnswer(200, events_page_json(page))


def answer_series(
    reader: PortReader, parameters: Mapping[str, str], time_left_ms: int
) -> HttpAnswer:
    """The answer to GET /v1/series. Raises UsageError, Absent and StoreError."""
    _check_names(parameters, "/v1/series")
    key, zone = required_key(parameters.get("key")), zone_named(_text(parameters, TZ))
    span = (_instant(parameters.get("since")), _instant(parameters.get("until")))
    if parameters.get("step") == MINUTE:
        return HttpAnswer(200, minutes_json(reader.minutes(key, *span, zone, time_left_ms)))
    step = step_named(_text(parameters, STEP))
    curve = reader.series(key, *span, step, zone, time_left_ms)
    counts = [curve.count]
    return HttpAnswer(200, curve_json(curve), counts=counts, headers=_kept(reader, counts))


def answer_top(reader: PortReader, parameters: Mapping[str, str], time_left_ms: int) -> HttpAnswer:
    """The answer to GET /v1/top. Raises UsageError, Absent, Archived and StoreError."""
    _check_names(parameters, "/v1/top")
    _check_one_of(parameters, ("window",), ("since", "until"))
    n, by_amount = _number(parameters, N), _choice(parameters, BY) == "sum"
    since, until = _instant(parameters.get("since")), _instant(parameters.get("until"))
    if since is not None or until is not None:
        found = reader.top_within(since, until, n, time_left_ms, by_amount=by_amount)
        return HttpAnswer(200, total_json(found))
    window = required_window(parameters.get("window"))
    return HttpAnswer(200, top_json(reader.top(window, n, time_left_ms, by_amount=by_amount)))


def answer_total(
    reader: PortReader, parameters: Mapping[str, str], time_left_ms: int
) -> HttpAnswer:
    """The answer to GET /v1/total. Raises UsageError, Absent, Archived and StoreError."""
    _check_names(parameters, "/v1/total")
    since, until = _instant(parameters.get("since")), _instant(parameters.get("until"))
    return HttpAnswer(200, total_json(reader.total(since, until, time_left_ms)))


def answer_keys(reader: PortReader, parameters: Mapping[str, str], time_left_ms: int) -> HttpAnswer:
    """The answer to GET /v1/keys. Raises UsageError, Absent, Archived and StoreError."""
    _check_names(parameters, "/v1/keys")
    page = reader.keys_page(
        _instant(parameters.get("since")),
        _instant(parameters.get("until")),
        parameters.get("prefix", ""),
        time_left_ms,
        limit=_number(parameters, KEYS_LIMIT),
        cursor=parameters.get("cursor") or None,
    )
    return HttpAnswer(200, keys_page_json(page))


def answer_openapi(parameters: Mapping[str, str]) -> HttpAnswer:
    """The answer to GET /v1/openapi.json: what describes this API. Raises UsageError."""
    _check_names(parameters, DOCUMENT)
    return HttpAnswer(200, json.loads(DOCUMENT_FILE.read_text(encoding="utf-8")))


def answer_error(error: Exception) -> HttpAnswer:
    """An error as a problem: 400, 404, 410, 500 or 503.

    An archived window gives 410; the member `archive` is its prefix. Of a range `archives` has all
    its dropped windows, and `since` is from when on none was.
    """
    return _problem(*problem_of(error))


def answer_unrouted(method: str, path: str) -> HttpAnswer:
    """The problem of a request for which there is no route: 404, or 405 if the path has one."""
    if path in ROUTES:
        detail = f"{method} {path}: the path takes GET alone"
        return _problem(METHOD_NOT_ALLOWED, detail, {}, {"Allow": "GET"})
    return _problem(UNKNOWN_PATH, f"known are GET {', '.join(ROUTES)}", {})


def _problem(
    kind: ProblemType,
    detail: str,
    more: Mapping[str, Any],
    headers: Mapping[str, str] = NOT_KEPT,
) -> HttpAnswer:
    told = {"type": kind.uri, "title": kind.title, "status": kind.status, "detail": detail, **more}
    return HttpAnswer(kind.status, told, MEDIA_TYPE, headers={**headers, **NOT_KEPT})
