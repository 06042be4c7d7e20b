"""The aggregator's other reads over HTTP: one event, the events of a key, the largest keys."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from tallyroll.model.states import Attempt, Status
from tallyroll.reads.lookups import Lookups
from tests.functions.invocation import Invocations, load
from tests.harness.pipeline import NOW, TIME_LEFT, WINDOW, hour

KEY = "video:aurora-over-tromso"


@pytest.fixture
def counted(functions: Invocations) -> Invocations:
    """The functions after one single event and a packet of three."""
    functions.write(load("writer-own-id.json"))
    functions.write(load("writer-packet.json"))
    return functions


def ask(
    functions: Invocations, path: str, status: int = 200, left: int = TIME_LEFT, **query: object
) -> dict[str, Any]:
    """The body of an answer, whose status is as it should be."""
    return asked(functions, path, urlencode(query), status, left)


def asked(
    functions: Invocations, path: str, query: str, status: int, left: int = TIME_LEFT
) -> dict[str, Any]:
    event = load("aggregator-count.json")
    event |= {"rawPath": path, "rawQueryString": query}
    event["requestContext"]["http"]["path"] = path
    answer = functions.ask(event, left)
    body = json.loads(answer["body"])
    assert isinstance(body, dict)
    assert answer["statusCode"] == status, body
    return body


def test_an_event(counted: Invocations) -> None:
    body = ask(counted, "/v1/event", key=KEY, id="play-8f2c1", ts=NOW)
    assert body == {
        "key": KEY,
        "window": WINDOW,
        "state": "open",
        "id": "play-8f2c1",
        "ts": NOW - 2_000,
        "value": "2.5",
        "payload": {"country": "NO", "device": "phone"},
    }


def test_an_event_of_a_packet_and_the_packet(counted: Invocations) -> None:
    body = ask(counted, "/v1/event", key=KEY, id="batch-77:2", window=WINDOW)
    assert body == {
        "key": KEY,
        "window": WINDOW,
        "state": "open",
        "id": "batch-77:2",
        "packet": "batch-77",
        "index": 2,
        "ts": NOW - 17_700,
        "value": "1",
        "payload": {"device": "tv"},
    }
    packet = ask(counted, "/v1/event", key=KEY, id="batch-77", window=WINDOW)
    assert [event["value"] for event in packet["events"]] == ["1", "2.5", "1"]


def test_events_page_by_page(counted: Invocations) -> None:
    pages = [ask(counted, "/v1/events", key=KEY, window=WINDOW, limit=3)]
    pages.append(
        ask(counted, "/v1/events", key=KEY, window=WINDOW, limit=3, cursor=pages[0]["cursor"])
    )
    assert [[event["id"] for event in page["events"]] for page in pages] == [
        ["batch-77:0", "batch-77:1", "batch-77:2"],
        ["play-8f2c1"],
    ]
    assert all(page["complete"] for page in pages)
    assert "cursor" not in pages[1]
    assert {name: pages[0][name] for name in ("key", "window", "state", "as_of")} == {
        "key": KEY,
        "window": WINDOW,
        "state": "open",
        "as_of": "2026-11-20T08:30:00.000Z",
    }


def test_events_of_a_range_page_by_page(counted: Invocations) -> None:
    query: dict[str, Any] = {"key": KEY, "since": hour(7), "until": hour(9), "limit": 3}
    first = ask(counted, "/v1/events", **query)
    rest = ask(counted, "/v1/events", **query, cursor=first["cursor"])
    found = [(one["window"], one["id"]) for page in (first, rest) for one in page["events"]]
    assert found == [
        (WINDOW, each) for each in ("batch-77:0", "batch-77:1", "batch-77:2", "play-8f2c1")
    ]
    assert (first["until"], "cursor" in rest) == ("2026-11-20T09:00:00.000Z", False)
    counted.pipeline.move(Status.DROPPED, attempt=Attempt(archive="archive/tallyroll/w/1"))
    gone = ask(counted, "/v1/events", 410, **query)
    assert gone["archives"] == [{"window": WINDOW, "archive": "archive/tallyroll/w/1"}]
    assert "since" not in gone, "no window is left"


def test_events_with_packets_as_they_are(counted: Invocations) -> None:
    body = ask(counted, "/v1/events", key=KEY, window=WINDOW, packed="true")
    assert [event["id"] for event in body["events"]] == ["batch-77", "play-8f2c1"]
    assert [len(event.get("events", [])) for event in body["events"]] == [3, 0]


def test_the_largest_keys(counted: Invocations) -> None:
    assert ask(counted, "/v1/top", window=WINDOW) == {
        "window": WINDOW,
        "state": "open",
        "keys": 1,
        "events": 4,
        "sum": "7",
        "top": [{"key": KEY, "events": 4, "sum": "7"}],
        "as_of": "2026-11-20T08:30:00.000Z",
        "complete": True,
    }


def test_the_largest_keys_and_the_total_of_a_range(counted: Invocations) -> None:
    span: Any = {"since": "2026-11-20T08:00:00.000Z", "until": "2026-11-20T09:00:00.000Z"}
    whole = {"events": 4, "sum": "7", "as_of": "2026-11-20T08:30:00.000Z", "complete": True}
    assert ask(counted, "/v1/top", **span) == {
        **span,
        **whole,
        "keys": 1,
        "top": [{"key": KEY, "events": 4, "sum": "7"}],
    }
    assert ask(counted, "/v1/total", **span) == {**span, **whole}
    assert ask(counted, "/v1/total")["events"] == 4
    late = ask(counted, "/v1/total", left=0, **span)
    assert (late["events"], late["complete"], late["missing"]) == (0, False, [WINDOW])


def test_all_keys_of_a_range_page_by_page(counted: Invocations) -> None:
    counted.pipeline.write({"id": "x", "key": f"{KEY}/x", "ts": NOW})
    span: Any = {"since": "2026-11-20T08:00:00.000Z", "until": "2026-11-20T09:00:00.000Z"}
    first = ask(counted, "/v1/keys", **span, prefix="video:", limit=1)
    cursor = first.pop("cursor")
    assert first == {
        **span,
        "prefix": "video:",
        "keys": [{"key": KEY, "events": 4, "sum": "7"}],
        "as_of": "2026-11-20T08:30:00.000Z",
        "complete": True,
    }
    rest = ask(counted, "/v1/keys", prefix="video:", cursor=cursor)
    assert [key["key"] for key in rest["keys"]] == [f"{KEY}/x"]
    assert "cursor" not in rest
    assert len(ask(counted, "/v1/keys")["keys"]) == 2
    late = ask(counted, "/v1/keys", left=0, **span)
    assert (late["keys"], late["complete"], late["missing"]) == ([], False, [WINDOW])
    assert len(ask(counted, "/v1/keys", cursor=late["cursor"])["keys"]) == 2
    asked(counted, "/v1/keys", f"cursor={cursor}", 400)
    counted.pipeline.move(Status.DROPPED, attempt=Attempt(archive="archive/tallyroll/w/1"))
    assert ask(counted, "/v1/keys", 410, **span)["archive"] == "archive/tallyroll/w/1"


def test_reads_that_run_out_of_time_say_so(counted: Invocations) -> None:
    events = ask(counted, "/v1/events", left=0, key=KEY, window=WINDOW)
    assert (events["events"], events["complete"]) == ([], False)
    rest = ask(counted, "/v1/events", key=KEY, window=WINDOW, cursor=events["cursor"])
    assert len(rest["events"]) == 4
    top = ask(counted, "/v1/top", left=0, window=WINDOW)
    assert (top["top"], top["complete"], top["missing_buckets"]) == ([], False, 4)


def test_what_is_in_the_archive_is_gone_and_not_unknown(counted: Invocations) -> None:
    counted.pipeline.move(Status.DROPPED, attempt=Attempt(archive="archive/tallyroll/w/1"))
    for path, query in (
        ("/v1/event", f"key={KEY}&id=play-8f2c1&window={WINDOW}"),
        ("/v1/events", f"key={KEY}&window={WINDOW}"),
        ("/v1/top", f"window={WINDOW}"),
    ):
        body = asked(counted, path, query, 410)
        assert (body["status"], body["title"]) == (410, "Archived")
        assert body["archive"] == "archive/tallyroll/w/1"
        assert "its events are in the archive" in body["detail"]


@pytest.mark.parametrize(
    ("path", "query", "named"),
    [
        ("/v1/event", "", "key is missing"),
        ("/v1/event", "key=k", "id is missing"),
        ("/v1/event", f"key=k&id={'x' * 1001}&ts={NOW}", "1001 bytes, over 1000"),
        ("/v1/event", f"key=k&id=x&ts={NOW}&window={WINDOW}", "give one of them"),
        ("/v1/event", "key=k&id=x&ts=then", "time 'then'"),
        ("/v1/event", "key=k&id=x&window=now", "window 'now'"),
        ("/v1/event", "key=k&id=x", "give the event's date, ts or window"),
        ("/v1/event", "key=k&name=x", "known are key, id, window, ts"),
        ("/v1/events", f"window={WINDOW}", "key is missing"),
        ("/v1/events", "key=k", "window is missing"),
        ("/v1/events", "key=k&window=2026-11-20T08:00Z", "an id looks like"),
        ("/v1/events", f"key=k&window={WINDOW}&limit=0", "limit 0: must be from 1 to 1000"),
        ("/v1/events", f"key=k&window={WINDOW}&limit=-1", "limit '-1': must be a whole number"),
        ("/v1/events", f"key=k&window={WINDOW}&packed=1", "packed '1': must be true or false"),
        ("/v1/events", f"key=k&window={WINDOW}&cursor=é", "cursor 'é'"),
        (
            "/v1/events",
            "from=1",
            "known are key, window, since, until, limit, cursor, packed, order",
        ),
        ("/v1/top", "", "window is missing"),
        ("/v1/top", f"window={WINDOW}&n=1001", "n 1001: must be from 1 to 1000"),
        ("/v1/top", f"window={WINDOW}&n=1.5", "n '1.5'"),
        ("/v1/top", f"window={WINDOW}&by=name", "by 'name': must be events or sum"),
        ("/v1/top", "key=k", "known are window, since, until, n, by"),
        ("/v1/top", f"window={WINDOW}&since={WINDOW}", "window and since: give one of them"),
        ("/v1/keys", f"since={hour(9)}&until={hour(8)}", "is not before"),
        ("/v1/keys", "limit=0", "limit 0: must be from 1 to 1000"),
        ("/v1/keys", "prefix=~a", "must not start with '~'"),
        ("/v1/keys", "cursor=%C3%A9", "is none of this pipeline for a range"),
        ("/v1/keys", "key=k", "known are since, until, prefix, limit, cursor"),
        ("/v1/total", "key=k", "known are since, until"),
        ("/v1/top", "n=1&n=1", "parameter 'n' comes twice"),
        ("/v1/counters", "key=a&since=1&since=1", "parameter 'since' comes twice"),
        ("/v1/counters", "key=a&key=b&key=a", "key 'a' comes twice: give each key once"),
        ("/v1/counters", "key=a&key=", "key ''"),
        ("/v1/counters", "key=a&key=b&windows=true", "lists the windows of one key"),
        ("/v1/counters", "&".join(f"key={n}" for n in range(101)), "101 keys: one read counts"),
        ("/v1/counters", "key=%FF", "can't decode byte 0xff"),
        ("/v1/counters", "&".join(f"p{n}" for n in range(121)), "Max number of fields"),
        ("/v1/event", "&".join(f"p{n}" for n in range(21)), "Max number of fields"),
    ],
)
def test_wrong_questions_are_told_what_is_wrong(
    functions: Invocations, path: str, query: str, named: str
) -> None:
    assert named in asked(functions, path, query, 400)["detail"]


def test_a_key_with_a_comma_is_one_key(functions: Invocations) -> None:
    assert asked(functions, "/v1/counters", "key=a,b", 200)["key"] == "a,b"
    assert asked(functions, "/v1/counters", "key=a%26key%3Db+c%2B", 200)["key"] == "a&key=b c+"


def test_a_request_without_a_query(functions: Invocations) -> None:
    event = load("aggregator-missing-key.json")
    del event["rawQueryString"]
    assert functions.ask(event)["statusCode"] == 400


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_other_methods_are_not_there(functions: Invocations, method: str) -> None:
    event = load("aggregator-top.json")
    event["requestContext"]["http"]["method"] = method
    assert functions.ask(event)["statusCode"] == 405


def test_trouble_inside_is_not_shown_outside(
    functions: Invocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("arn:aws:x")

    monkeypatch.setattr(Lookups, "top", fail)
    body = ask(functions, "/v1/top", 500, window=WINDOW)
    assert "arn:aws" not in json.dumps(body)


def test_a_series(counted: Invocations) -> None:
    body = ask(counted, "/v1/series", key=KEY, since=WINDOW, tz="Europe/Berlin")
    assert body == {
        "key": KEY,
        "step": "hour",
        "tz": "Europe/Berlin",
        "until": "2026-11-20T10:00:00+01:00",
        "events": 4,
        "sum": body["points"][0]["sum"],
        "points": [{"start": "2026-11-20T09:00:00+01:00", "events": 4, "sum": body["sum"]}],
        "as_of": body["as_of"],
        "complete": True,
    }
    ask(counted, "/v1/series", 400, key=KEY, tz="Asia/Kathmandu")
    ask(counted, "/v1/series", 400, key=KEY, step="year")
