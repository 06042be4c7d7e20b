"""The doctor and the teardown on real engines: DynamoDB Local, and moto in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from moto import mock_aws

from tallyroll import pipeline
from tallyroll.adapters.aws import client as aws
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.catalog import DynamoCatalog
from tallyroll.model.messages import Message
from tallyroll.model.states import Window
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tallyroll.testing.emulated import create_queues
from tests.cli.command_line import Answer, run

pytestmark = pytest.mark.engine
EVENTS = 12
INTERRUPTED = (4, 11)


@dataclass
class Town:
    """A pipeline with a current window of twelve events, and the command before it."""

    settings: Settings
    client: Any
    patch: pytest.MonkeyPatch
    streams: pytest.CaptureFixture[str]

    def run(self, *argv: str) -> Answer:
        return run(self.patch, self.streams, "--name", self.settings.name, *argv)

    def tables(self, name: str = "") -> list[str]:
        """Its window tables."""
        made = aws.make_client("dynamodb").get_paginator("list_tables").paginate()
        names = [each for page in made for each in page["TableNames"]]
        return [each for each in names if each.startswith(f"{name or self.settings.name}-2")]


@pytest.fixture
def town(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Town]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    aws._session.cache_clear()
    name = f"t{uuid4().hex[:12]}"
    settings = Settings(
        name=name,
        bucket=f"{name}-archive",
        shards=2,
        stripes_min=8,
        buckets=2,
        gates=2,
        settle_ms=0,
        export_segments=1,
    )
    for variable, value in settings.to_env().items():
        if not variable.endswith("_NAME"):
            monkeypatch.setenv(variable, value)
    with mock_aws():
        declared = declare(settings)
        for table in declared.permanent:
            aws.make_client("dynamodb").create_table(**table_request(table))
        create_queues(settings, aws.make_client("sqs"))
        aws.make_client("s3").create_bucket(Bucket=settings.bucket)
        _live(settings)
        yield Town(settings, aws.make_client("dynamodb"), monkeypatch, capsys)
    aws._session.cache_clear()


def _live(settings: Settings) -> None:
    """Have the roller open the current window, and a writer count into it."""
    made = pipeline.Pipeline(settings)
    url = aws.make_client("sqs").get_queue_url(QueueName=declare(settings).queue.name)["QueueUrl"]
    roller = pipeline.Pipeline(
        Settings.from_env({**settings.to_env(), "TALLYROLL_QUEUE_URL": url})
    ).roller
    for _ in range(3):
        assert not roller.run(60_000).problems
    now = made.effects.now()
    bodies = [f'{{"key": "k{n % 3}", "id": "e{n}", "ts": {now}}}' for n in range(EVENTS)]
    messages = [Message(f"m{n}", body, now, 1, f"r{n}") for n, body in enumerate(bodies)]
    assert not pipeline.Pipeline(settings).writer.write(messages, 60_000).failures


def test_the_doctor(town: Town) -> None:
    answer = town.run("doctor", "--deep")
    assert answer.status == 0, answer.out
    assert {line.split()[0] for line in answer.out.splitlines()} == {"ok"}

    table = town.tables()[0]
    town.client.update_table(TableName=table, DeletionProtectionEnabled=False)
    stray = f"{town.settings.name}-20200101T000000Z"
    neighbour = f"{town.settings.name}-eu-20200101T000000Z"
    for name in (stray, neighbour):
        declared = declare(town.settings).window_table("20200101T000000Z")
        request = {**table_request(declared), "TableName": name}
        town.client.create_table(**request)
    found = {check["check"]: check for check in town.run("doctor", "--json").json}
    assert [sign["text"] for sign in found["tables"]["signs"]] == [
        f"{table}: it is not protected from deletion"
    ]
    assert found["stray-tables"]["text"] == f"{stray}: no window names it; it is empty"
    assert found["stray-tables"]["signs"][1:] == []
    assert found["tables"]["level"] == "finding"
    town.client.delete_table(TableName=table)
    gone = {check["check"]: check for check in town.run("doctor", "--json").json}["tables"]
    assert "is gone" in gone["text"]


@pytest.mark.proof
def test_a_teardown_that_is_interrupted_again_and_again(town: Town) -> None:
    """Before some changes of a state; what it leaves is gone on with, and all is archived."""
    changes, advance = 0, DynamoCatalog.advance

    def interrupted(self: DynamoCatalog, window: Window) -> Window:
        nonlocal changes
        changes += 1
        if changes in INTERRUPTED:
            raise KeyboardInterrupt
        return advance(self, window)

    town.patch.setattr(DynamoCatalog, "advance", interrupted)
    town.patch.setattr(
        "tallyroll.operations.teardown.RUN_MS", 6_000
    )  # for so long its work is not taken on
    answer = town.run("teardown", "--export", "--yes", town.settings.name)
    interruptions = 0
    while answer.status == 130:
        interruptions += 1
        answer = town.run("teardown", "--export", "--yes", town.settings.name)
    assert interruptions == len(INTERRUPTED)
    assert answer.status == 0, answer.err
    assert town.tables() == []
    listed = town.run("windows", "list", "--all", "--json").json
    assert {window["state"] for window in listed} == {"dropped"}
    assert sum(window["events"] for window in listed) == EVENTS
    counts = town.run("count", "k0", "k1", "k2", "--json").json
    assert [count["events"] for count in counts] == [4, 4, 4]
    archived = town.run("archive", "verify", "--against-totals", "--json").json
    assert sum(archive["events"] for archive in archived) == EVENTS
    assert {archive["differences"] for archive in archived} == {0}


def test_a_plan_from_the_deployment(town: Town) -> None:
    """Here are no such quotas, no metrics, and no functions: the tallies alone tell the load."""
    (found,) = town.run("plan", "--from-deployment", "--json").json
    measured = found["measured"]
    assert (measured["events in them"], measured["keys of a window, at most"]) == (EVENTS, 3)
    assert measured["peak events a second"] == EVENTS / 60
    assert measured["its shards"] == 2
    assert measured["bytes of a single event's item"] > 40
    assert measured["tables of the account"] >= len(town.tables())
    assert measured["quota of tables"] is None
    assert [line.split(": ")[1] for line in found["not_known"]] == ["GetServiceQuota"] * 3
    assert found["plan"]["load"]["hottest_per_second"] == 4 / 60
    assert found["context"]["tallyroll:stripes"] == 128
    answer = town.run("plan", "--from-deployment")
    assert answer.status == 0
    assert "not known here" in answer.out


def test_a_teardown_by_force(town: Town) -> None:
    name = town.settings.name
    town.client.create_table(
        **{
            **table_request(declare(town.settings).window_table("20200101T000000Z")),
            "TableName": f"{name}-20200101T000000Z",
        }
    )
    looked = town.run("teardown", "--force", "--dry-run")
    assert looked.status == 0
    assert f"with {EVENTS} events are in no archive" in looked.err
    assert "it has no tag tallyroll, and the catalog does not name it" in looked.err
    tables = town.tables()
    assert town.run("teardown", "--force", "--yes", "another").status == 2
    assert town.tables() == tables
    answer = town.run("teardown", "--force", "--yes", name)
    assert answer.status == 0, answer.err
    assert town.tables() == [f"{name}-20200101T000000Z"]
    assert town.run("teardown", "--force", "--yes", name).status == 0
