"""`cdk deploy`, then the deployed zip under AWS's own runtime client: from the queue to the count.

The CDK's command bootstraps a moto server, builds and uploads the asset, and creates the stack.
What runs is what was uploaded, with the handlers and the environment that Lambda would be given,
called as the deployed event source mapping, routes and schedules say. DynamoDB Local keeps the
tables.

    pytest tests/e2e --log-cli-level=info

tells what each part took.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from local.runtime.api import FunctionFailed
from tallyroll.adapters.dynamodb.throughput import OF_KEY, OF_TABLE
from tallyroll.reads.described.routes import OTHER_PATHS, ROUTES
from tallyroll.reasons import Reason
from tests.e2e.conftest import BRIEF, NAME
from tests.e2e.deployment import Deployment
from tests.e2e.lambda_runtime import DeployedFunction
from tests.e2e.lifetimes import (
    HASTE,
    NOT_MADE,
    WAIT_S,
    body,
    count,
    dropped,
    ids,
    now_ms,
    window_of,
)
from tests.e2e.pipeline import DeployedPipeline
from tests.e2e.triggers import Batch
from tests.strict.gate import Gate
from tests.strict.relay import OTHERS, relayed
from tests.strict.values import READINGS

pytestmark = [pytest.mark.e2e, pytest.mark.engine, pytest.mark.slow]

SINGLES, PACKED = 40, 100
ADA = {"events": SINGLES + 1 + PACKED, "sum": "122"}


@dataclass
class Waiting:
    """A batch before the first window: one event that cannot count yet, one that never can."""

    early: str
    bad: str
    batch: Batch
    hidden: int
    dead: list[dict[str, Any]]


@pytest.fixture(scope="session")
def waiting(pipeline: DeployedPipeline) -> Waiting:
    # Ahead of its sending, so that it happens in no window before the roller's first.
    early, bad = pipeline.send(body("early", now_ms() + 200_000), "not JSON")
    batch = pipeline.events.poll()
    return Waiting(early, bad, batch, pipeline.events.in_flight(), pipeline.dead_letters())


@pytest.fixture(scope="session")
def opened(pipeline: DeployedPipeline, waiting: Waiting) -> dict[str, Any]:
    """The response to the roller's first run; the windows are open from here on."""
    response: dict[str, Any] = pipeline.schedules.fire(pipeline.arns["roller"])
    return response


@dataclass
class Counted:
    """A batch of events of `ada` and `bob`, some of them sent twice."""

    batch: Batch
    sent: list[str]
    window: str
    id: str


@pytest.fixture(scope="session")
def counted(pipeline: DeployedPipeline, opened: dict[str, Any]) -> Counted:
    at = now_ms()
    # An hour may have begun since the roller's first run: this one opens its window.
    assert pipeline.schedules.fire(pipeline.arns["roller"])["problems"] == []
    bodies = [body("ada", at, 0.5) for _ in range(SINGLES)]
    twice, other = body("ada", at, 2, "twice"), body("bob", at)
    packet = {"v": 1, "id": "p1", "key": "ada", "t0": at, "events": [[0]] * PACKED}
    sent = pipeline.send(*bodies, twice, twice, other, json.dumps(packet))
    batch = pipeline.events.poll()
    window = time.strftime("%Y%m%dT%H0000Z", time.gmtime(at / 1000))
    return Counted(batch, sent, window, "twice")


@pytest.fixture(scope="session")
def awaited(pipeline: DeployedPipeline, waiting: Waiting, counted: Counted) -> Batch:
    """The batch in which the event that came early comes again; it leaves the queue empty.

    The event may happen in the next hour, whose window a run of the roller opens.
    """
    batch = counted.batch  # on a slow machine it may have come with these
    if waiting.early not in ids(batch):
        [early] = [one for one in waiting.batch.records if one["messageId"] == waiting.early]
        pipeline.events.show(early)
    deadline = time.monotonic() + WAIT_S
    while waiting.early not in ids(batch) - batch.left and time.monotonic() < deadline:
        assert pipeline.schedules.fire(pipeline.arns["roller"])["problems"] == []
        batch = pipeline.events.poll()
        time.sleep(0.2)
    return batch


@pytest.fixture(scope="session")
def brief(
    pipeline: DeployedPipeline, brief_gate: Gate, dynamodb_endpoint: str, awaited: Batch
) -> Iterator[DeployedPipeline]:
    """The same functions on tables of their own, with windows that live for seconds."""
    engines = {"dynamodb": dynamodb_endpoint, OTHERS: pipeline.deployment.endpoint}
    with relayed(brief_gate, engines) as relay:
        addresses = dict.fromkeys(pipeline.addresses, relay)
        made = DeployedPipeline(pipeline.deployment, pipeline.folder, addresses, HASTE)
        with closing(made):
            made.make_tables(lambda name: name.replace(NAME, BRIEF))
            assert made.schedules.fire(made.arns["roller"])["problems"] == []
            yield made


def test_everything_in_the_template_is_made(deployment: Deployment) -> None:
    resources = deployment.template["Resources"]
    missing = {found["Type"] for id_, found in resources.items() if id_ not in deployment.made}

    assert missing == NOT_MADE
    assert len(deployment.made) > 50


def test_all_functions_run_one_zip_that_anyone_may_read(pipeline: DeployedPipeline) -> None:
    hashes = {found["CodeSha256"] for found in pipeline.deployment.functions.values()}
    code = pipeline.deployment.zip_of(pipeline.arns["roller"])

    assert hashes == {base64.b64encode(hashlib.sha256(code).digest()).decode()}
    assert len(code) < 5 << 20
    entries = [one for one in zipfile.ZipFile(io.BytesIO(code)).infolist() if not one.is_dir()]
    # Lambda runs as another user than the one who unpacked.
    assert [one.filename for one in entries if not one.external_attr >> 16 & 0o004] == []


def test_no_deployed_variable_is_lambdas_own(pipeline: DeployedPipeline) -> None:
    for package, arn in pipeline.arns.items():
        variables = pipeline.deployment.functions[arn]["Environment"]["Variables"]
        assert variables["TALLYROLL_NAME"] == NAME
        assert not variables.keys() & pipeline.functions[package].reserved.keys()


def test_only_the_zip_and_lambdas_runtime_can_be_imported(
    pipeline: DeployedPipeline, tmp_path: Path
) -> None:
    configuration = pipeline.deployment.functions[pipeline.arns["writer"]]
    empty = DeployedFunction(configuration, tmp_path, pipeline.folder / "runtime", {})
    try:
        with pytest.raises(FunctionFailed, match="No module named 'functions'") as failed:
            empty.invoke({"Records": []})
    finally:
        empty.close()
    assert failed.value.type == "Runtime.ImportModuleError"


def test_of_a_batch_only_what_may_still_count_stays_in_the_queue(waiting: Waiting) -> None:
    assert ids(waiting.batch) == {waiting.early, waiting.bad}
    assert waiting.batch.left == {waiting.early}
    assert waiting.hidden == 1


def test_what_can_never_count_goes_to_the_deployed_dead_letter_queue(waiting: Waiting) -> None:
    [dead] = waiting.dead
    attributes = {name: value["StringValue"] for name, value in dead["MessageAttributes"].items()}

    assert dead["Body"] == "not JSON"
    assert attributes["tallyroll-reason"] == Reason.NOT_JSON
    assert attributes["tallyroll-message-id"] == waiting.bad


def test_the_roller_makes_windows_ahead_and_opens_them(
    pipeline: DeployedPipeline, opened: dict[str, Any], counted: Counted
) -> None:
    assert opened["problems"] == []
    windows = [name for name in pipeline.tables() if fnmatch(name, f"{NAME}-????????T??????Z")]
    assert len(windows) >= 3
    assert f"{NAME}-{counted.window}" in windows
    _, top = pipeline.api.get("/v1/top", window=counted.window)
    assert top["state"] == "open"


def test_every_event_counts_exactly_once(
    pipeline: DeployedPipeline, waiting: Waiting, counted: Counted
) -> None:
    assert ids(counted.batch) - {waiting.early} == set(counted.sent)
    assert counted.batch.left == set()
    assert count(pipeline, "ada") == ADA
    assert count(pipeline, "bob") == {"events": 1, "sum": "1"}


def test_a_redelivery_counts_once(pipeline: DeployedPipeline, counted: Counted) -> None:
    assert pipeline.events.deliver(counted.batch.records) == set()

    assert count(pipeline, "ada") == ADA
    assert pipeline.dead_letters() == []


def test_a_rejected_body_that_fits_into_no_message_goes_to_the_deployed_bucket(
    pipeline: DeployedPipeline, awaited: Batch
) -> None:
    largest = "x" * 1_048_576  # with its reason it is too large for a message
    pipeline.send(largest)
    assert pipeline.events.poll().left == set()

    [dead] = pipeline.dead_letters()
    where = json.loads(dead["Body"])
    assert where["bucket"] == pipeline.deployment.outputs["BucketName"]
    found = pipeline.deployment.client("s3").get_object(Bucket=where["bucket"], Key=where["key"])
    assert found["Body"].read().decode() == largest


def test_every_route_answers(pipeline: DeployedPipeline, counted: Counted) -> None:
    assert set(pipeline.api.routes) == {f"GET {path}" for path in (*ROUTES, OTHER_PATHS)}
    window = counted.window
    status, one = pipeline.api.get("/v1/event", key="ada", id=counted.id, window=window)
    assert (status, one["value"]) == (200, "2"), one
    status, many = pipeline.api.get("/v1/events", key="ada", window=window, limit="7")
    assert (status, len(many["events"])) == (200, 7), many
    status, top = pipeline.api.get("/v1/top", window=window, n="1")
    assert (status, top["top"]) == (200, [{"key": "ada", **ADA}]), top
    status, keys = pipeline.api.get("/v1/keys", since=window, prefix="ad")
    assert (status, keys["keys"]) == (200, [{"key": "ada", **ADA}]), keys
    status, series = pipeline.api.get("/v1/series", key="ada", since=window, tz="Europe/Berlin")
    assert (status, series["events"], series["tz"]) == (200, ADA["events"], "Europe/Berlin"), series
    status, problem = pipeline.api.get("/v1/counters")
    assert (status, problem["status"]) == (400, 400), problem
    status, problem = pipeline.api.get("/v1/votes")
    assert (status, problem["status"]) == (404, 404), problem


def test_routes_ask_who_calls_and_may_invoke(pipeline: DeployedPipeline) -> None:
    asked = pipeline.deployment.client("lambda").get_policy(
        FunctionName=pipeline.arns["aggregator"]
    )
    allowed = [
        statement["Condition"]["ArnLike"]["AWS:SourceArn"]
        for statement in json.loads(asked["Policy"])["Statement"]
        if statement["Principal"] == {"Service": "apigateway.amazonaws.com"}
    ]
    for route in pipeline.api.routes.values():
        method, path = route["RouteKey"].split()
        arn = (
            f"arn:aws:execute-api:us-east-1:123456789012:{pipeline.api.id}/$default/{method}{path}"
        )
        assert any(fnmatch(arn, pattern) for pattern in allowed), route
        assert route["AuthorizationType"] == "AWS_IAM"


def test_cleanup_and_dropper_run(pipeline: DeployedPipeline, counted: Counted) -> None:
    for package in ("cleanup", "dropper"):
        assert pipeline.schedules.fire(pipeline.arns[package]) == {"steps": {}, "problems": []}


def test_what_awaited_its_window_counts_when_it_comes_again(
    pipeline: DeployedPipeline, waiting: Waiting, awaited: Batch
) -> None:
    assert waiting.early in ids(awaited)
    assert awaited.left == set()
    assert count(pipeline, "early") == {"events": 1, "sum": "1"}


def test_windows_are_sealed_archived_and_dropped(brief: DeployedPipeline) -> None:
    """On the same functions, with windows that live for seconds."""
    pipeline = brief
    at = now_ms()
    window = window_of(pipeline, "eve", [body("eve", at, 0.25) for _ in range(SINGLES)])
    dropped(pipeline, f"{BRIEF}-{window}", pipeline.tables)
    assert count(pipeline, "eve") == {"events": SINGLES, "sum": "10"}
    [proof] = [key for key in pipeline.archived() if window in key and key.endswith("/proof.json")]
    assert proof.startswith(f"archive/{BRIEF}/")
    status, problem = pipeline.api.get("/v1/events", key="eve", window=window)
    assert (status, problem["status"]) == (410, 410), problem


def test_the_deployed_roles_allow_every_request_under_every_reading(
    gate: Gate, brief_gate: Gate, pipeline: DeployedPipeline, brief: DeployedPipeline
) -> None:
    assert gate.refused == brief_gate.refused == []
    asked = gate.asked | brief_gate.asked
    assert {reading for _, reading, _ in asked} == set(READINGS)
    assert {function for function, _, _ in asked} == set(pipeline.functions)
    assert ("dropper", "dynamodb:DeleteTable") in {(caller, one.action) for caller, _, one in asked}


def test_every_metric_that_an_alarm_watches_is_published(
    pipeline: DeployedPipeline, counted: Counted
) -> None:
    for package in ("cleanup", "dropper"):
        pipeline.schedules.fire(pipeline.arns[package])
    count(pipeline, "ada")
    published = {
        (name, metrics["pipeline"], metrics["service"])
        for function in pipeline.functions.values()
        for metrics in function.metrics()
        for directive in metrics["_aws"]["CloudWatchMetrics"]
        for name in (one["Name"] for one in directive["Metrics"])
        if directive["Namespace"] == "Tallyroll"
        and {"pipeline", "service"} in [set(group) for group in directive["Dimensions"]]
    }
    alarms = pipeline.deployment.client("cloudwatch").describe_alarms()["MetricAlarms"]
    plain = [alarm for alarm in alarms if alarm.get("Namespace")]
    queries = [one for alarm in alarms for one in alarm.get("Metrics", [])]
    stats = [one["MetricStat"]["Metric"] for one in queries if "MetricStat" in one]
    watched = set()
    for metric in [*plain, *stats]:
        if metric["Namespace"] == "Tallyroll":
            named = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
            watched.add((metric["MetricName"], named["pipeline"], named["service"]))

    assert len(watched) > 5
    # Only where a rate holds back, or where DynamoDB does.
    silent = ("HeldByRate", *(f"Throttles-{each}" for each in OF_KEY + OF_TABLE))
    assert watched - published == {(name, NAME, "writer") for name in silent}


def test_what_was_counted_outlives_the_stack(
    deployment: Deployment, pipeline: DeployedPipeline
) -> None:
    """The last test: nothing runs after it."""
    pipeline.send(body("ada", now_ms()))

    deployment.destroy()

    assert deployment.client("lambda").list_functions()["Functions"] == []
    kept = {table["TableName"] for table in deployment.tables()}
    assert kept == {deployment.outputs["CatalogTable"], deployment.outputs["TotalsTable"]}
    buckets = deployment.client("s3").list_buckets()["Buckets"]
    assert deployment.outputs["BucketName"] in {bucket["Name"] for bucket in buckets}
    urls = deployment.client("sqs").list_queues()["QueueUrls"]
    assert {url.rpartition("/")[2] for url in urls} == {f"{NAME}-events", f"{NAME}-dead-letters"}
    assert pipeline.events.receive(1) != []
