"""Events of a logged key in the command's lists: they name their messages, by which nothing else
finds them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tallyroll.model.messages import Message
from tests.cli.command_line import CommandLine
from tests.harness.archives import as_archived, sealed_and_exported
from tests.harness.pipeline import NOW, SMALL, WINDOW, Pipeline, opened

LOGGED = replace(SMALL, logs={"home": 1_000})
MESSAGE = str(UUID(int=7, version=4))


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A pipeline that has logged one event."""
    pipeline = opened(LOGGED)
    message = pipeline.message({"key": "home", "value": 2.5, "payload": {"a": "é"}})
    report = pipeline.writer().write([replace(message, id=MESSAGE, sent=NOW - 5)], 60_000)
    assert report.logged_events == 1
    pipeline.write({"key": "home", "id": "own", "ts": NOW})
    return CommandLine(pipeline, monkeypatch, capsys)


def test_lists_name_the_message_of_a_logged_event(cli: CommandLine) -> None:
    logged: dict[str, Any] = {}
    for argv in (("--window", WINDOW), ("--since", WINDOW)):
        own, logged = cli.run("events", "home", *argv, "--json").json
        assert "message" not in own
        assert (logged["id"], logged["message"], logged["value"]) == (MESSAGE, MESSAGE, 2.5)
        assert logged["payload"] == {"a": "é"}
        assert logged["log"].startswith("~log.")
        sought = ("event", "home", logged["log"], "--ts", WINDOW)
        (found,) = cli.run(*sought, "--json").json
        assert json.dumps(found).count(MESSAGE) == 1


def test_an_archive_names_it_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Pipeline.message

    def of_the_queue(self: Pipeline, *given: Any, **more: Any) -> Message:
        return replace(made(self, *given, **more), id=MESSAGE, sent=NOW - 5)

    monkeypatch.setattr(Pipeline, "message", of_the_queue)
    bodies = [{"key": "home"}, {"key": "home", "id": "own"}]
    archived = as_archived(*sealed_and_exported(bodies, settings=LOGGED))
    cli = CommandLine(archived.pipeline, monkeypatch, capsys)
    answer = cli.run("archive", "read", WINDOW, "--bucket", "memory")
    found = {each["id"]: each.get("message") for each in answer.json}
    assert found.pop("own") is None
    assert [*found.values()] == [MESSAGE]


@pytest.mark.parametrize("where", [("--window", WINDOW), ("--date", "2026-11-20")])
def test_who_looks_for_a_message_of_a_logged_key_is_told_where_it_is(
    cli: CommandLine, where: tuple[str, str]
) -> None:
    sought = cli.run("event", "home", MESSAGE, *where)
    assert sought.status == 3
    assert "in a list of events, by its `message`" in sought.err
    assert "message" not in cli.run("event", "other", MESSAGE, *where).err
