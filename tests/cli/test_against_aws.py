"""The command against moto in this process, and where nothing answers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from moto import mock_aws

from tallyroll.adapters.aws import client as aws
from tallyroll.adapters.aws.create_requests import queue_attributes, table_request
from tallyroll.adapters.system import SystemEffects
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Grid, window_id
from tallyroll.pipeline import Pipeline
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.cli.command_line import Answer, lines, run

SETTINGS = Settings(name="votes")
HOUR = 3_600_000


class Cloud:
    """Runs the command against AWS's environment as it is."""

    def __init__(self, patch: pytest.MonkeyPatch, streams: pytest.CaptureFixture[str]) -> None:
        self._patch, self._streams = patch, streams

    def run(self, *argv: str, stdin: bytes = b"") -> Answer:
        return run(self._patch, self._streams, *argv, stdin=stdin)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cloud]:
    """No pipeline and no session of an earlier test."""
    aws._session.cache_clear()
    yield Cloud(monkeypatch, capsys)
    aws._session.cache_clear()


@pytest.fixture
def deployed(cloud: Cloud) -> Iterator[Cloud]:
    """The queue and the permanent tables of the pipeline `votes`, in moto."""
    with mock_aws():
        resources = declare(SETTINGS)
        queue = resources.queue
        aws.make_client("sqs").create_queue(
            QueueName=queue.name, Attributes=queue_attributes(queue)
        )
        for table in (resources.catalog, resources.totals):
            aws.make_client("dynamodb").create_table(**table_request(table))
        yield cloud


def received() -> list[str]:
    client = aws.make_client("sqs")
    url = client.get_queue_url(QueueName="votes-events")["QueueUrl"]
    reply = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [message["Body"] for message in reply.get("Messages", [])]


def test_the_queue_is_found_by_name(deployed: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = lines({"key": "k", "id": "e"}, {"key": "k"}, {"key": "k"})
    answer = deployed.run("--name", "votes", "send", stdin=stdin)
    assert (answer.status, answer.err) == (0, "")
    single, packet = map(json.loads, received())
    assert single["id"] == "e"
    assert len(packet["events"]) == 2

    monkeypatch.setenv("TALLYROLL_NAME", "votes")
    assert deployed.run("send", "--key", "k").status == 0
    assert len(received()) == 1


def test_windows_and_counts(deployed: Cloud) -> None:
    grid = Grid.of(3600)
    effects = SystemEffects()
    genesis = grid.at(effects.now()).start
    Pipeline(SETTINGS).catalog.found(Calendar(grid, genesis))
    since, until = window_id(genesis - 2 * HOUR), window_id(genesis)

    opened = deployed.run("--name", "votes", "windows", "open", "--since", since, "--until", until)
    assert (opened.status, opened.err) == (0, "tallyroll: 2 created, 0 were there already\n")
    listed = deployed.run("windows", "list", "--name", "votes", "--json")
    assert [window["window"] for window in listed.json] == [since, window_id(genesis - HOUR)]
    assert listed.json[0]["table"] == f"votes-{since}"
    counted = deployed.run("--json", "--name", "votes", "count", "k").json
    assert [(count["key"], count["events"], count["complete"]) for count in counted] == [
        ("k", 0, True)
    ]


@pytest.mark.parametrize(
    "argv",
    [
        ("send", "--key", "k"),
        ("count", "k"),
        ("windows", "list"),
        ("windows", "open", "--since", "20261120T080000Z", "--until", "20261120T090000Z"),
    ],
)
def test_what_is_not_there(deployed: Cloud, argv: tuple[str, ...]) -> None:
    answer = deployed.run("--name", "other", *argv)
    assert (answer.status, answer.out) == (3, "")
    assert "Is --name right? Is the pipeline deployed" in answer.err
    assert len(answer.err.splitlines()) == 2


@pytest.mark.parametrize("argv", [("send", "--key", "k"), ("count", "k"), ("windows", "list")])
def test_where_nothing_answers(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    answer = cloud.run(*argv)
    assert (answer.status, answer.out) == (3, "")
    assert "http://127.0.0.1:9" in answer.err
    assert "Is the local engine running" in answer.err


@pytest.mark.parametrize("argv", [("send", "--key", "k"), ("count", "k")])
def test_without_a_region(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    answer = cloud.run(*argv)
    assert answer.status == 3
    assert "Set AWS_REGION" in answer.err


def test_the_region_is_read_as_by_the_command_of_aws(
    deployed: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws._session.cache_clear()
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert deployed.run("--name", "votes", "send", "--key", "k").status == 0


def test_without_credentials(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    answer = cloud.run("count", "k")
    assert answer.status == 3
    assert "AWS_PROFILE" in answer.err


def test_a_setting_out_of_range(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYROLL_SHARDS", "0")
    assert cloud.run("count", "k").status == 2
    answer = cloud.run("--name", "No Name", "count", "k")
    assert answer.status == 2
    assert "'No Name'" in answer.err
