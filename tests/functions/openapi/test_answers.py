"""Real answers are as the OpenAPI document says, and all that it says is answered."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import ValidationError

from tallyroll.errors import Archived
from tallyroll.model.formats.references import Reference
from tallyroll.model.retractions import RetractionNote
from tallyroll.model.states import Attempt, Status
from tallyroll.model.stored import StoredEvent, StoredPacket
from tallyroll.model.tallies import ReadCost
from tallyroll.model.totals import Corrections, Listed
from tallyroll.model.windows import Span, iso
from tallyroll.reads.counts import Count, PeriodCount, WindowCount, counter_json, counters_json
from tallyroll.reads.described.problems import MEDIA_TYPE, PROBLEMS
from tallyroll.reads.described.routes import ALWAYS, ROUTES
from tallyroll.reads.found import Events, FoundEvent
from tallyroll.reads.http import answer_error
from tallyroll.reads.jsonable import events_json, top_json
from tallyroll.reads.minutes import MinutePoint, Minutes, minutes_json
from tallyroll.reads.ranges.cursors import KeysQuery, RangeQuery
from tallyroll.reads.ranges.dated import EventMatches, matches_json
from tallyroll.reads.ranges.keys import KeysPage, keys_page_json
from tallyroll.reads.ranges.largest import TopOfRange, TotalOfAll, total_json
from tallyroll.reads.ranges.pages import EventsPage, events_page_json
from tallyroll.reads.series import Curve, Point, curve_json
from tallyroll.reads.steps import zone_named
from tallyroll.reads.top import Top
from tests.functions.invocation import Invocations, load
from tests.functions.openapi.conforming import Contract, Json
from tests.functions.openapi.document import document
from tests.functions.test_events import of_http_apis
from tests.harness.pipeline import HOUR, MINUTE, NOW, START, WINDOW, hour

SPAN = Span(START, START + HOUR)
NOTE = RetractionNote("ann", "a test", NOW)
PACKED = StoredEvent("p:0", NOW, -500_000, "1", "p", 0, retracted=NOTE)
UPLOADED = StoredEvent(
    "e", NOW, 1, None, reference=Reference("b", "k", 9, "0" * 64), retracted=NOTE
)
WHATS = (PACKED, UPLOADED, StoredPacket("p", (PACKED, UPLOADED)))
FOUND = tuple(FoundEvent("k", WINDOW, Status.OPEN, what) for what in WHATS)
LARGEST = (Listed("k", 3, -1, corrections=Corrections(before=(1, 1))),)
COUNT = Count(
    "k",
    7,
    10**30,
    (WindowCount(WINDOW, 3, 5, Status.OPEN, ReadCost(9, 3), (1, 1)),),
    NOW,
    {hour(7): "slow"},
    (PeriodCount("day#20261119", 24, 4, 7, (1, 1)),),
)
ZONE = zone_named("Europe/Berlin")
POINTS = tuple(
    Point(START + n * HOUR, START + (n + 1) * HOUR, 1, 1, (1, 1), n > 0) for n in range(2)
)


def fullest() -> Iterator[tuple[str, Json]]:
    """Answers with every member that one may have."""
    yield "/v1/counters", counter_json(COUNT)
    yield "/v1/counters", counter_json(replace(COUNT, source="eventual"))
    yield "/v1/counters", counters_json([COUNT, replace(COUNT, source="eventual")])
    for one in FOUND:
        matches = EventMatches((one, *FOUND), {hour(6): "archive/w"})
        yield "/v1/event", matches_json(matches)
        yield "/v1/event", matches_json(matches, 0)
    yield "/v1/events", events_json(Events("k", WINDOW, Status.OPEN, WHATS, "c", False, NOW))
    page = EventsPage(RangeQuery("k", SPAN), FOUND, None, False, NOW, "c")
    yield "/v1/events", events_page_json(page)
    yield "/v1/keys", keys_page_json(KeysPage(KeysQuery(SPAN, "k"), LARGEST, "c", (WINDOW,), NOW))
    yield "/v1/series", curve_json(Curve(COUNT, "hour", ZONE, POINTS))
    minutes = (MinutePoint(START, 1), MinutePoint(START + MINUTE, 0, False))
    yield "/v1/series", minutes_json(Minutes("k", ZONE, minutes, NOW, {WINDOW: "slow"}))
    yield "/v1/top", top_json(Top(WINDOW, Status.SEALED, LARGEST, 1, 3, -1, 2, NOW, (1, 1)))
    yield "/v1/top", total_json(TopOfRange(SPAN, 3, -1, (hour(7),), NOW, (1, 1), LARGEST, 1))
    yield "/v1/total", total_json(TotalOfAll(SPAN, 3, -1, (hour(7),), NOW, (1, 1)))


def test_what_a_route_may_answer_is_what_the_document_lists() -> None:
    contract = Contract()
    check_all(contract)
    unseen = contract.listed() - contract.seen
    assert {name for name, _ in unseen} == {"OpenApi", "Refused"}, "neither is made by a read"
    assert {path for path, _ in fullest()} == {*ROUTES} - {"/v1/openapi.json"}


@pytest.mark.parametrize("name", of_http_apis())
def test_the_samples_are_answered_as_the_document_says(functions: Invocations, name: str) -> None:
    functions.write(load("writer-own-id.json"))
    functions.write(load("writer-packet.json"))
    event = load(name)
    answer = functions.ask(event)
    body = json.loads(answer["body"])
    kind = answer["headers"]["Content-Type"]
    if event["rawPath"] in ROUTES and event["requestContext"]["http"]["method"] == "GET":
        Contract().check(event["rawPath"], answer["statusCode"], kind, body)
    else:
        assert kind == MEDIA_TYPE
        assert body["type"] in [each.uri for each in PROBLEMS if each.status in (404, 405)]


def test_the_document_is_served_and_confirmed(functions: Invocations) -> None:
    event = load("aggregator-count.json") | {"rawPath": "/v1/openapi.json", "rawQueryString": ""}
    event["requestContext"]["http"]["path"] = "/v1/openapi.json"
    answer = functions.ask(event)
    assert json.loads(answer["body"]) == document()
    Contract().check("/v1/openapi.json", 200, "application/json", document())
    assert answer["headers"]["Cache-Control"] == "private, no-cache"
    event["headers"]["if-none-match"] = answer["headers"]["ETag"]
    again = functions.ask(event)
    Contract().check("/v1/openapi.json", again["statusCode"], "", again["body"])
    event["rawQueryString"] = "key=k"
    refused = json.loads(functions.ask(event)["body"])
    assert refused["detail"] == "parameter 'key': there are none"


def test_each_problem_is_as_the_document_says(functions: Invocations) -> None:
    contract = Contract()
    whole = answer_error(
        Archived("w", "archive/w", archives={WINDOW: "archive/w"}, since=iso(START))
    )
    for path, route in ROUTES.items():
        for kind in (*ALWAYS, *route.problems):
            told: Json = {"type": kind.uri, "title": kind.title, "status": kind.status}
            more = whole.body if kind.status == 410 else {}
            contract.check(path, kind.status, MEDIA_TYPE, {**more, **told, "detail": "d"})
    with pytest.raises(AssertionError, match=r"/v1/counters does not say that it answers 410"):
        contract.check("/v1/counters", 410, MEDIA_TYPE, whole.body)
    functions.pipeline.move(Status.DROPPED, attempt=Attempt(archive="archive/tallyroll/w/1"))
    event = load("aggregator-events-range.json")
    answer = functions.ask(event)
    assert answer["statusCode"] == 410
    contract.check("/v1/events", 410, MEDIA_TYPE, json.loads(answer["body"]))


def without(node: Any, name: str) -> Iterator[Json]:
    """A copy of a document for each place where a member is listed, without it there."""
    found = [path for path in _places(node) if path[-1] == name]
    for path in found:
        made = copy.deepcopy(node)
        inner = made
        for each in path[:-1]:
            inner = inner[each]
        del inner[path[-1]]
        yield made


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members = node.items() if isinstance(node, dict) else enumerate(node)
    for name, each in members:
        if path and path[-1] == "properties":
            yield (*path, name)
        if isinstance(each, dict | list):
            yield from _places(each, (*path, name))


@pytest.mark.parametrize("member", ["missing", "rolled_up", "also", "payload_ref", "index", "at"])
def test_a_document_that_leaves_a_member_out_is_caught(member: str) -> None:
    described = document()
    schemas = described["components"]["schemas"]
    lesser = list(without(schemas, member))
    assert lesser
    for each in lesser:
        components = {**described["components"], "schemas": each}
        with pytest.raises(ValidationError):
            check_all(Contract({**described, "components": components}))


def check_all(contract: Contract) -> None:
    for path, body in fullest():
        contract.check(path, 200, "application/json", body)
