"""`tallyroll archive` on a window of which events were retracted, before the seal and after."""

from __future__ import annotations

import pytest

from tallyroll.archive.corrections import copy_corrections
from tests.cli.command_line import CommandLine
from tests.harness.archives import Archived
from tests.harness.pipeline import WINDOW
from tests.harness.retracted_archives import correction_of, retracted_archive

HERE = ("--bucket", "memory")
LEFT = {"e0", "e1", "e3", "p:0", "p:2", "q:0", "q:1", "q:3", "q:4"}


@pytest.fixture
def whole() -> Archived:
    return retracted_archive()


@pytest.fixture
def cli(
    whole: Archived, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(whole.pipeline, monkeypatch, capsys)


def test_what_was_retracted_and_corrected_is_told(cli: CommandLine, whole: Archived) -> None:
    answer = cli.run("archive", "verify", *HERE)
    assert (answer.status, answer.err) == (0, "")
    cells = (WINDOW, "yes", "whole", "30", "4", "9", "10.000002")
    assert answer.row(*cells, "7", "(21.000002)")
    totals = whole.pipeline.totals
    totals.correct([correction_of(whole, "e#e3")])
    copy_corrections(whole.window, totals, whole.bucket)
    totals.correct([correction_of(whole, "e#e1")])
    answer = cli.run("archive", "verify", *HERE)
    assert answer.row(*cells, "7", "(21.000002)", "1", "(1.5)")
    assert answer.err == ""
    answer = cli.run("archive", "verify", "--against-totals", *HERE)
    assert answer.status == 0
    assert answer.row(*cells, "7", "(21.000002)", "2", "(2)")
    assert f"{whole.prefix}: 1 correction in the totals table alone" in answer.err
    assert "  key 'k1' id 'e1'" in answer.err
    [said] = cli.run("archive", "verify", "--against-totals", "--json", *HERE).json
    assert (said["events"], said["sum"]) == (9, "10.000002")
    assert said["retracted"] == {"events": 7, "sum": "21.000002"}
    assert said["corrected"] == {"events": 2, "sum": "2"}
    assert said["not_in_copy"] == 1


def test_retracted_events_are_not_read(cli: CommandLine, whole: Archived) -> None:
    answer = cli.run("archive", "read", WINDOW, *HERE)
    assert (answer.status, answer.err) == (0, "")
    assert {event["id"] for event in answer.json} == LEFT
    of_key = cli.run("archive", "read", WINDOW, "--key", "k2", *HERE)
    assert (of_key.status, of_key.out) == (0, "")
    assert "key 'k2': 0 events, sum 0 by its records, the same by its tally" in of_key.err
    whole.pipeline.totals.correct([correction_of(whole, "e#e3")])
    read = {event["id"] for event in cli.run("archive", "read", WINDOW, *HERE).json}
    assert read == LEFT
    answer = cli.run("archive", "read", WINDOW, "--against-totals", *HERE)
    assert {event["id"] for event in answer.json} == LEFT - {"e3"}
    copy_corrections(whole.window, whole.pipeline.totals, whole.bucket)
    read = {event["id"] for event in cli.run("archive", "read", WINDOW, *HERE).json}
    assert read == LEFT - {"e3"}
    raw = cli.run("archive", "read", WINDOW, "--raw", *HERE)
    assert [line["Item"] for line in raw.json] == whole.items()


def test_no_key_differs_from_its_table(cli: CommandLine) -> None:
    answer = cli.run("archive", "explain", WINDOW, *HERE)
    assert (answer.status, answer.out) == (0, "")
    assert "0 items differ (0 shown), 0 keys, 0 other differences" in answer.err


def test_a_tombstone_that_the_archive_lacks_is_explained(cli: CommandLine, whole: Archived) -> None:
    items = [item for item in whole.items() if item["sk"]["S"] != "r#e4"]
    whole.rewrite(items)
    answer = cli.run("archive", "explain", WINDOW, *HERE)
    assert answer.status == 1
    assert "missing  k1.4/r#e4" in answer.out
    assert "key 'k1': archive records 2 events, sum 2.5, archive tallies 1 events" in answer.out
