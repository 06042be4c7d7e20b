from __future__ import annotations

import ast
import json
import logging
from typing import Any

import pytest

from functions.aggregator.handler import logger
from tallyroll.errors import Throttled
from tallyroll.reads.reader import PortReader
from tests.functions.invocation import EVENTS, Invocations, load
from tests.harness.pipeline import SMALL
from tests.harness.shared_cache import HeldCache

KEY = "video:aurora-over-tromso"


def asked(functions: Invocations, name: str, status: int) -> dict[str, Any]:
    """The body of an answer whose status and content type are as they should be."""
    answer = functions.ask(load(name))
    kind = "application/json" if status == 200 else "application/problem+json"
    assert (answer["statusCode"], answer["isBase64Encoded"]) == (status, False)
    assert answer["headers"]["Content-Type"] == kind
    body = json.loads(answer["body"])
    assert isinstance(body, dict)
    if status != 200:
        assert set(body) == {"type", "title", "status", "detail"}
        assert body["status"] == status
    return body


def test_a_count(functions: Invocations) -> None:
    functions.write(load("writer-own-id.json"))
    functions.write(load("writer-packet.json"))
    body = asked(functions, "aggregator-count.json", 200)
    assert body == {
        "key": KEY,
        "events": 4,
        "sum": "7",
        "windows": [
            {"window": "20261120T060000Z", "events": 0, "sum": "0", "state": "open"},
            {"window": "20261120T070000Z", "events": 0, "sum": "0", "state": "open"},
            {"window": "20261120T080000Z", "events": 4, "sum": "7", "state": "open"},
        ],
        "as_of": "2026-11-20T08:30:00.000Z",
        "complete": True,
    }


def test_a_caller_that_invokes_the_function_itself_needs_no_more_than_the_guide_says(
    functions: Invocations,
) -> None:
    guide = (EVENTS.parent / "docs" / "deploy.md").read_text()
    event = ast.literal_eval(guide.partition("\nevent = ")[2].partition("\nanswer = ")[0])
    functions.write(load("writer-own-id.json"))
    answer = functions.ask({**event, "rawQueryString": f"key={KEY}"})
    assert (answer["statusCode"], json.loads(answer["body"])["events"]) == (200, 1)
    assert json.loads(functions.ask(event)["body"])["events"] == 0


def test_a_range(functions: Invocations) -> None:
    functions.write(load("writer-mixed-keys-and-windows.json"))
    assert asked(functions, "aggregator-count.json", 200)["events"] == 2
    body = asked(functions, "aggregator-range.json", 200)
    assert [window["window"] for window in body["windows"]] == ["20261120T080000Z"]
    assert body["events"] == 1


@pytest.mark.parametrize("name", ["aggregator-keys.json", "aggregator-rest-keys.json"])
def test_several_keys_have_what_each_has_alone(functions: Invocations, name: str) -> None:
    functions.write(load("writer-own-id.json"))
    body = json.loads(functions.ask(load(name))["body"])
    alone = [asked(functions, f"aggregator-{one}.json", 200) for one in ("count", "unknown-key")]
    counters = body["counters"]
    assert [one["key"] for one in counters] == [KEY, "nobody"]
    for one in alone:
        assert one.pop("windows")
    assert counters[0] == alone[0]
    assert {**counters[1], "key": ""} == {**alone[1], "key": ""}
    assert (body["as_of"], body["complete"]) == ("2026-11-20T08:30:00.000Z", True)


def test_several_keys_that_run_out_of_time_say_so(functions: Invocations) -> None:
    functions.write(load("writer-own-id.json"))
    body = json.loads(functions.ask(load("aggregator-keys.json"), time_left_ms=0)["body"])
    assert body["complete"] is False
    assert all("20261120T080000Z" in one["missing"] for one in body["counters"])
    assert functions.values()["ReadsIncomplete"] == 1


@pytest.mark.parametrize("name", ["aggregator-count.json", "aggregator-rest-count.json"])
def test_an_answer_that_has_not_changed_is_confirmed(functions: Invocations, name: str) -> None:
    functions.write(load("writer-own-id.json"))
    first = functions.ask(load(name))
    headers = first.get("headers") or {
        each: values[0] for each, values in first["multiValueHeaders"].items()
    }
    assert headers["Cache-Control"] == "private, max-age=1"
    assert (functions.values()["NotModified"], functions.values()["CountsRead"]) == (0, 1)
    again = load(name)
    again["headers"]["If-None-Match"] = headers["ETag"]
    answer = functions.ask(again)
    assert (answer["statusCode"], answer["body"]) == (304, "")
    assert functions.values()["NotModified"] == 1
    functions.write(load("writer-packet.json"))
    assert functions.ask(again)["statusCode"] == 200


def test_a_key_is_decoded(functions: Invocations) -> None:
    assert asked(functions, "aggregator-encoded-key.json", 200)["key"] == "video:årsmøte & more"


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("aggregator-missing-key.json", "key is missing"),
        ("aggregator-bad-key.json", "key '~t.1'"),
        ("aggregator-bad-range.json", "the nearest bound is 2026-11-20T08:00:00.000Z"),
        ("aggregator-backward-range.json", "is not before until"),
        ("aggregator-bad-time.json", "time 'yesterday'"),
        ("aggregator-unknown-parameter.json", "parameter 'from'"),
    ],
)
def test_bad_requests_are_told_what_is_wrong(functions: Invocations, name: str, named: str) -> None:
    assert named in asked(functions, name, 400)["detail"]


def test_what_is_not_there(functions: Invocations) -> None:
    body = asked(functions, "aggregator-unknown-path.json", 404)
    assert body["type"] == "urn:tallyroll:problem-type:unknown-path"
    assert "GET /v1/counters, /v1/event" in body["detail"]


@pytest.mark.parametrize(
    "name", ["aggregator-wrong-method.json", "aggregator-rest-wrong-method.json"]
)
def test_another_method_is_told_which_one_there_is(functions: Invocations, name: str) -> None:
    answer = functions.ask(load(name))
    assert answer["statusCode"] == 405
    found = answer.get("headers") or {
        each: values[0] for each, values in answer["multiValueHeaders"].items()
    }
    assert (found["Allow"], found["Content-Type"]) == ("GET", "application/problem+json")
    assert json.loads(answer["body"])["type"] == "urn:tallyroll:problem-type:method-not-allowed"


@pytest.mark.parametrize(
    ("error", "status"), [(Throttled("table arn:aws:x"), 503), (KeyError("arn:aws:x"), 500)]
)
def test_trouble_inside_is_not_shown_outside(
    functions: Invocations, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(PortReader, "counts", fail)
    assert "arn:aws" not in json.dumps(asked(functions, "aggregator-count.json", status))


def test_a_read_that_runs_out_of_time_says_so(functions: Invocations) -> None:
    functions.write(load("writer-own-id.json"))
    answer = functions.ask(load("aggregator-count.json"), time_left_ms=0)
    body = json.loads(answer["body"])
    assert (answer["statusCode"], body["complete"], body["events"]) == (200, False, 0)
    assert "20261120T080000Z" in body["missing"]
    assert functions.values()["ReadsIncomplete"] == 1


def test_reads_are_measured(functions: Invocations, monkeypatch: pytest.MonkeyPatch) -> None:
    functions.ask(load("aggregator-bad-key.json"))
    assert functions.metrics["service"] == "aggregator"
    assert (functions.values()["Reads"], functions.values()["ReadsFailed"]) == (1, 0)
    assert functions.values()["ReadsIncomplete"] == 0
    assert functions.units() == {
        "Reads": "Count",
        "ReadsFailed": "Count",
        "ReadsIncomplete": "Count",
        "ReadLatency": "Milliseconds",
    }

    def fail(*_: object, **__: object) -> None:
        raise Throttled("slow down")

    monkeypatch.setattr(PortReader, "counts", fail)
    functions.ask(load("aggregator-count.json"))
    assert functions.values()["ReadsFailed"] == 1


def test_a_shared_cache_is_measured_where_there_is_one(functions: Invocations) -> None:
    pipeline = functions.pipeline
    functions.ask(load("aggregator-count.json"))
    assert not [name for name in functions.values() if name.startswith("Shared")]
    ports = (pipeline.store, pipeline.catalog, pipeline.totals, pipeline.effects)
    cache = HeldCache(pipeline.effects)

    def ask() -> list[float]:
        reader = PortReader(SMALL, *ports, cache=cache)
        functions.patch.setattr(pipeline, "reader", lambda: reader)
        functions.ask(load("aggregator-count.json"))
        return [functions.values()[f"Shared{name}"] for name in ("Hits", "Misses", "Errors")]

    assert [ask(), ask()] == [[0, 1, 0], [1, 0, 0]]
    cache.fails = True
    assert ask() == [0, 1, 1]


def test_gathering_is_measured(functions: Invocations) -> None:
    """Three live windows, each with a key's eight stripes."""
    functions.ask(load("aggregator-count.json"))
    assert functions.values()["GatherWidth"] == 3 * SMALL.stripes_min
    units = functions.units()
    assert (units["GatherLatency"], units["GatherWidth"]) == ("Milliseconds", "Count")


@pytest.mark.parametrize(
    ("name", "error", "level", "traced"),
    [
        ("aggregator-bad-key.json", None, "INFO", False),
        ("aggregator-unknown-path.json", None, "INFO", False),
        ("aggregator-count.json", Throttled("slow down"), "ERROR", True),
    ],
)
def test_only_our_own_failures_are_logged_as_errors(
    functions: Invocations,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    error: Exception | None,
    level: str,
    traced: bool,
) -> None:
    def fail(*_: object, **__: object) -> None:
        assert error
        raise error

    logged: list[logging.LogRecord] = []
    monkeypatch.setattr(logger._logger, "handle", logged.append)
    if error:
        monkeypatch.setattr(PortReader, "counts", fail)
    functions.ask(load(name))
    assert [(record.levelname, bool(record.exc_info)) for record in logged] == [(level, traced)]
