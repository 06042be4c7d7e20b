"""docs/messages.md: its examples fit their schemas, and each snippet sends an event."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from jsonschema import Draft202012Validator
from moto.server import ThreadedMotoServer

from tallyroll.model.events import Event, decode
from tallyroll.model.retractions import parse_retraction
from tallyroll.operations.schemas import schema_of
from tests.docs.snippets import LANGUAGES, TOOLS, examples, literal, missing, sent, snippet
from tests.harness.processes import ran

MINUTE_MS = 60_000


def check_event(body: Any) -> None:
    """A body is the event of the snippets."""
    Draft202012Validator(schema_of("event")).validate(body)
    event = decode(json.dumps(body))
    assert isinstance(event, Event)
    assert (event.key, event.amount, event.payload) == ("video-42", 2_500_000, '{"country":"NO"}')
    assert event.id
    assert event.ts


def check_is_of_now(body: dict[str, Any]) -> None:
    assert abs(time.time() * 1000 - body["ts"]) < 10 * MINUTE_MS


def test_each_example_fits_its_schema() -> None:
    found = examples()
    names = ["event", "referring", "packet", "compressed", "retraction", "rejection", "problem"]
    assert [name for name, _ in found] == names
    for name, value in found:
        Draft202012Validator(schema_of(name)).validate(value)
        if name in ("event", "packet", "compressed"):
            decode(json.dumps(value))
        if name == "retraction":
            parse_retraction(value)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_snippet_writes_an_event(language: str) -> None:
    check_event(literal(language))


@pytest.mark.slow
@pytest.mark.parametrize("language", TOOLS)
def test_each_snippet_sends_what_it_writes(language: str, tmp_path: Path) -> None:
    if absent := missing(language):
        pytest.skip(f"{', '.join(absent)} not installed")
    body = sent(language, tmp_path)
    check_event(body)
    check_is_of_now(body)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, str]]:
    """An SQS on loopback, in the environment, and its queue's URL."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    for name, text in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
    }.items():
        monkeypatch.setenv(name, text)
    try:
        sqs = boto3.Session().client("sqs")
        url = sqs.create_queue(QueueName="tallyroll-events")["QueueUrl"]
        monkeypatch.setenv("TALLYROLL_QUEUE_URL", url)
        yield sqs, url
    finally:
        server.stop()


def received(queue: tuple[Any, str]) -> dict[str, Any]:
    sqs, url = queue
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    body = json.loads(message["Body"])
    assert isinstance(body, dict)
    return body


def test_the_python_snippet_sends_to_a_queue(queue: tuple[Any, str]) -> None:
    done = ran([sys.executable, "-c", snippet("python")])
    assert done.returncode == 0, done.stderr
    body = received(queue)
    check_event(body)
    check_is_of_now(body)
    assert done.stdout == f"sent {body['id']}\n"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("aws") is None, reason="the AWS CLI is not installed")
def test_the_cli_snippet_sends_to_a_queue(queue: tuple[Any, str]) -> None:
    with_endpoint = 'aws() { command aws --endpoint-url "$AWS_ENDPOINT_URL" "$@"; }'
    done = ran(
        ["bash", "-euo", "pipefail", "-c", f"{with_endpoint}\n{snippet('sh')}"],
        env={**os.environ, "AWS_PAGER": ""},
    )
    assert done.returncode == 0, done.stderr
    body = received(queue)
    check_event(body)
    check_is_of_now(body)
