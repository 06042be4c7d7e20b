"""`tallyroll archive explain`: each kind of difference is told, with where it stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.adapters.dynamodb.items import Item, jsonable, record_item
from tests.cli.command_line import Answer, CommandLine
from tests.harness.archives import Archived, archived
from tests.harness.pipeline import WINDOW, record_with


@pytest.fixture
def whole() -> Archived:
    return archived(proven=False)


@pytest.fixture
def cli(
    whole: Archived, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(whole.pipeline, monkeypatch, capsys)


def explain(cli: CommandLine, *more: str) -> Answer:
    return cli.run("archive", "explain", WINDOW, "--bucket", "memory", *more)


def single(items: list[Item]) -> Item:
    """The record of a single event."""
    return next(item for item in items if item["sk"]["S"] == "e#e1")


def test_an_archive_that_agrees(cli: CommandLine) -> None:
    answer = explain(cli)
    assert (answer.status, answer.out) == (0, "")
    assert "0 items differ (0 shown), 0 keys, 0 other differences" in answer.err


def test_an_archive_of_a_window_that_the_catalog_does_not_have(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli.pipeline.catalog, "window", lambda window: None)
    answer = explain(cli)
    assert answer.status == 0
    assert answer.err.startswith("tallyroll: comparing archive/")
    assert "0 items differ" in answer.err


def test_an_item_of_another_hand_in_the_table_is_a_difference(
    cli: CommandLine, whole: Archived
) -> None:
    table = whole.pipeline.store.items(whole.pipeline.spec().table)
    table["odd.1", "z#1"] = {"pk": {"S": "odd.1"}, "sk": {"S": "z#1"}}
    told = explain(cli, "--json")
    assert told.status == 1
    found = [(line["difference"], line["sk"]) for line in told.json if "difference" in line]
    assert found == [("missing", "z#1")]


def test_progress_is_told_by_items(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyroll.cli.archive.sources.TOLD_EVERY", 2)
    monkeypatch.setattr("tallyroll.cli.screen.FIRST_LINE_S", 0)
    assert f"tallyroll: reading {WINDOW}: 2 items" in explain(cli).err


def test_each_kind_of_difference(cli: CommandLine, whole: Archived) -> None:
    items = whole.items()
    first, stranger = single(items), jsonable(record_item(record_with("late", "k9")))
    changed = next(item for item in items if item["sk"]["S"] == "e#e2")
    kept = [item for item in items if item not in (first, changed)]
    twice = next(item for item in kept if item["sk"]["S"] == "g#")
    whole.rewrite([*kept, {**changed, "v": {"N": "77"}}, stranger, twice])
    told = explain(cli, "--json")
    assert told.status == 1
    found = {(line["difference"], line["sk"]) for line in told.json if "difference" in line}
    assert found == {
        ("missing", "e#e1"),
        ("different", "e#e2"),
        ("extra", "e#late"),
        ("twice", "g#"),
    }
    [different] = [line for line in told.json if line.get("difference") == "different"]
    assert different["attributes"] == ["v"]
    assert "line" in different["place"]
    keys = {line["key"]: line for line in told.json if "key" in line}
    assert set(keys) == {"k1", "k2", "k9"}
    assert keys["k9"]["archive records"] == [1, "1"]
    assert keys["k9"]["table records"] is None
    assert keys["k1"]["archive records"][0] == keys["k1"]["table records"][0] - 1


def test_it_tells_people_why_the_window_was_not_proven(cli: CommandLine, whole: Archived) -> None:
    state = whole.pipeline.state()
    attempt = replace(state.attempt, problem="key 'k1': differs")
    whole.pipeline.catalog.advance(replace(state, attempt=attempt))
    items = whole.items()
    items.remove(single(items))
    whole.rewrite(items)
    answer = explain(cli)
    assert "is open: key 'k1': differs" in answer.err
    assert "missing  k1." in answer.out
    assert "key 'k1': archive records 1 events" in answer.out
    assert "1 items differ (1 shown), 1 keys" in answer.err


def test_only_so_many_are_shown(cli: CommandLine, whole: Archived) -> None:
    whole.rewrite([])
    answer = explain(cli, "--limit", "2")
    assert len(answer.out.splitlines()) == 4
    assert f"{len(whole.pipeline.store.items(whole.window.table))} items differ (2 sh" in answer.err


def test_without_its_table_there_is_nothing_to_compare_with(
    cli: CommandLine, whole: Archived
) -> None:
    whole.pipeline.store.drop_table(whole.window.table)
    answer = explain(cli)
    assert answer.status == 3
    assert "is gone: there is nothing to compare with" in answer.err
