"""Every file in `events/` is listed in its README with the answer that it gets, and gets it."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tallyroll.ingest.writer import BatchReport, Writer
from tallyroll.model.events import Event, decode, digest
from tallyroll.ports.catalog import Claim
from tests.functions.invocation import EVENTS, Invocations, load, rest_form
from tests.functions.test_schedules import sealed
from tests.harness.pipeline import NOW, TIME_LEFT, WINDOW, Pipeline, hour

ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
LISTED = {name: answer for name, _, answer in ROW.findall((EVENTS / "README.md").read_text())}
SQS_RECORD = {
    "messageId",
    "receiptHandle",
    "body",
    "attributes",
    "messageAttributes",
    "md5OfBody",
    "eventSource",
    "eventSourceARN",
    "awsRegion",
}
SQS_ATTRIBUTES = {
    "ApproximateReceiveCount",
    "SentTimestamp",
    "SenderId",
    "ApproximateFirstReceiveTimestamp",
}


CLAIMED = (hour(6), "video:aurora-over-tromso", "play-8f2c1")


def test_the_readme_lists_every_file_and_no_other() -> None:
    assert set(LISTED) == {path.name for path in EVENTS.iterdir()} - {"README.md"}


REST = "aggregator-rest-"


def named(kind: str) -> list[str]:
    return sorted(name for name in LISTED if name.startswith(kind))


def of_http_apis() -> list[str]:
    return [name for name in named("aggregator-") if not name.startswith(REST)]


def test_every_file_is_used_by_a_test() -> None:
    schedules = ("roller-", "cleanup-", "dropper-", "compactor-")
    used = {*(name for kind in schedules for name in named(kind)), "sample.jsonl"}
    assert {*used, *named("writer-"), *named("aggregator-")} == set(LISTED)


@pytest.mark.parametrize("name", named("writer-"))
def test_what_the_writer_answers(
    functions: Invocations, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    reports: list[BatchReport] = []
    write = Writer.write

    def noting(writer: Writer, *arguments: Any) -> BatchReport:
        reports.append(write(writer, *arguments))
        return reports[-1]

    monkeypatch.setattr(Writer, "write", noting)
    functions.pipeline.catalog.claim(CLAIMED, Claim(WINDOW, NOW))
    answer = functions.write(load(name))
    (report,) = reports
    assert len(answer["batchItemFailures"]) == len(report.failures)
    reasons = [f"{reason} {number}" for reason, number in sorted(report.rejected.items())]
    said = [
        f"counted {report.events}" if report.events else "",
        f"duplicates {report.duplicates}" if report.duplicates else "",
        f"handed back {len(report.failures)}" if report.failures else "",
        "rejected: " + ", ".join(reasons) if reasons else "",
    ]
    assert ("; ".join(filter(None, said)) or "nothing to do") == LISTED[name]


@pytest.mark.parametrize("name", named("aggregator-"))
def test_what_the_aggregator_answers(functions: Invocations, name: str) -> None:
    functions.write(load("writer-own-id.json"))
    functions.write(load("writer-packet.json"))
    answer = functions.ask(load(name))
    body = json.loads(answer["body"])
    said = _said(body) if answer["statusCode"] == 200 else body["detail"]
    assert f"{answer['statusCode']}: {said}" == LISTED[name].replace("\\", "")


def _said(body: dict[str, Any]) -> str:
    """An answer in short: a count, a listing, the largest keys, or an event."""
    if "counters" in body:
        counters = body["counters"]
        return f"{sum(one['events'] for one in counters)} events of {len(counters)} keys"
    if "windows" in body:
        return f"{body['events']} events"
    if "points" in body:
        return f"{body['events']} events in {len(body['points'])} {body['step']}"
    if isinstance(body.get("keys"), list):
        return f"{len(body['keys'])} key listed"
    if "top" in body:
        return f"{len(body['top'])} of {body['keys']} keys"
    if "id" in body:
        return f"event {body['id']}"
    return f"{len(body['events'])} events listed" + (", and a cursor" if "cursor" in body else "")


def dropping() -> Pipeline:
    pipeline = sealed()
    pipeline.effects.pass_by(1)
    pipeline.cleanup().run(TIME_LEFT)
    return pipeline


def dropped() -> Pipeline:
    pipeline = sealed()
    pipeline.settings = replace(pipeline.settings, archive="parquet")
    pipeline.effects.pass_by(1)
    pipeline.cleanup().run(TIME_LEFT)
    pipeline.dropper().run(TIME_LEFT)
    return pipeline


@pytest.mark.parametrize(
    ("function", "pipeline"),
    [("roller", Pipeline), ("cleanup", sealed), ("dropper", dropping), ("compactor", dropped)],
)
def test_what_the_schedules_do(
    functions: Invocations, function: str, pipeline: Callable[[], Pipeline]
) -> None:
    functions.pipeline = pipeline()
    functions.pipeline.effects.pass_by(1)
    runs = {
        "roller": functions.roll,
        "cleanup": functions.clean,
        "dropper": functions.drop,
        "compactor": functions.compact,
    }
    name = f"{function}-schedule.json"
    steps = runs[function](load(name))["steps"]
    assert ", ".join(f"{step} {number}" for step, number in steps.items()) == LISTED[name]


# --- the shapes are AWS's


@pytest.mark.parametrize("name", named("writer-"))
def test_sqs_events_are_as_aws_documents_them(name: str) -> None:
    """AWS Lambda Developer Guide, "Using Lambda with Amazon SQS"."""
    event = load(name)
    assert set(event) == {"Records"}
    for record in event["Records"]:
        assert set(record) == SQS_RECORD
        assert set(record["attributes"]) == SQS_ATTRIBUTES
        assert all(isinstance(value, str) for value in record["attributes"].values())
        body = hashlib.md5(record["body"].encode(), usedforsecurity=False)
        assert record["md5OfBody"] == body.hexdigest()
        assert record["eventSource"] == "aws:sqs"
    ids = [record["messageId"] for record in event["Records"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", of_http_apis())
def test_http_events_are_as_aws_documents_them(name: str) -> None:
    """API Gateway Developer Guide, "Create AWS Lambda proxy integrations for HTTP APIs", 2.0."""
    event = load(name)
    http = event["requestContext"]["http"]
    assert (event["version"], event["isBase64Encoded"]) == ("2.0", False)
    assert set(http) == {"method", "path", "protocol", "sourceIp", "userAgent"}
    assert event["rawPath"] == http["path"]
    assert event["routeKey"] == event["requestContext"]["routeKey"]
    assert ("queryStringParameters" in event) == bool(event["rawQueryString"])
    assert event["requestContext"]["timeEpoch"] == NOW


@pytest.mark.parametrize("name", named(REST))
def test_rest_events_are_those_of_an_http_api_in_the_form_of_a_rest_api(name: str) -> None:
    """API Gateway Developer Guide, "Lambda proxy integrations in API Gateway"."""
    assert load(name) == rest_form(load(name.replace(REST, "aggregator-")))


@pytest.mark.parametrize("name", of_http_apis())
def test_both_apis_answer_the_same(functions: Invocations, name: str) -> None:
    functions.write(load("writer-own-id.json"))
    functions.write(load("writer-packet.json"))
    told = functions.ask(load(name))
    answer = functions.ask(rest_form(load(name)))
    assert (answer["statusCode"], answer["body"]) == (told["statusCode"], told["body"])
    # A REST API takes several values of a header, and refuses an answer with other members.
    assert answer.keys() == {"statusCode", "body", "isBase64Encoded", "multiValueHeaders"}
    assert answer["multiValueHeaders"] == {name: [it] for name, it in told["headers"].items()}


@pytest.mark.parametrize("name", ["roller-schedule.json", "cleanup-schedule.json"])
def test_scheduled_events_are_as_aws_documents_them(name: str) -> None:
    """EventBridge Scheduler User Guide, "Templated targets": what Lambda gets without an input."""
    event = load(name)
    assert (event["source"], event["detail-type"]) == ("aws.scheduler", "Scheduled Event")
    assert event["detail"] == "{}"


# --- the sample


def sample() -> list[Event]:
    lines = (EVENTS / "sample.jsonl").read_text().splitlines()
    events = [decode(line) for line in lines]
    assert all(isinstance(event, Event) for event in events)
    return [event for event in events if isinstance(event, Event)]


def test_the_sample_is_as_its_readme_says() -> None:
    events = sample()
    repeated = Counter(event.id for event in events if event.id)
    days = {datetime.fromtimestamp(event.ts / 1000, UTC).date() for event in events if event.ts}
    twice = sum(number - 1 for number in repeated.values())
    keys = {event.key for event in events}
    said = f"{len(events)} events of {len(keys)} videos over {len(days)} days; {twice} sent twice"
    assert said == LISTED["sample.jsonl"]


def test_the_sample_shows_every_optional_field_left_out() -> None:
    lines = [json.loads(line) for line in (EVENTS / "sample.jsonl").read_text().splitlines()]
    for name in ("id", "ts", "value", "payload"):
        assert 0 < sum(name not in line for line in lines) < len(lines)
    assert {name for line in lines for name in line} == {"id", "key", "ts", "value", "payload"}


def test_what_the_sample_repeats_is_the_same_event() -> None:
    contents: dict[str, set[bytes]] = {}
    for event in sample():
        if event.id:
            contents.setdefault(event.id, set()).add(digest(event))
    assert all(len(digests) == 1 for digests in contents.values())
