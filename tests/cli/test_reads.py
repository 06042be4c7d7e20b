from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Throttled
from tallyroll.model.states import Attempt, Status
from tallyroll.model.tallies import ReadCost
from tallyroll.model.totals import Correction
from tallyroll.reads.cursor import _check
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import HOUR, NOW, START, WINDOW, hour, opened
from tests.harness.retracting import QUEUE, retraction

PACKET = {"v": 1, "id": "p", "key": "k", "t0": START, "events": [[0], [10, 2.5, {"a": 1}]]}


@pytest.fixture
def written(cli: CommandLine) -> CommandLine:
    """A pipeline with five events of k and three of l in window 08."""
    singles = [{"id": f"e{n}", "key": "k", "ts": NOW, "value": n} for n in range(3)]
    others = [{"id": f"e{n}", "key": "l", "ts": NOW, "value": -1.5} for n in range(3)]
    assert cli.pipeline.write(*singles, *others, PACKET).events == 8
    return cli


def failing(*arguments: object) -> Any:
    raise Throttled("Query: too much")


def test_one_event(written: CommandLine) -> None:
    answer = written.run("event", "k", "e2", "--ts", str(NOW))
    assert (answer.status, answer.err) == (0, "")
    assert answer.row("k", WINDOW, "open")
    assert answer.row("e2", "2026-11-20T08:30:00.000Z", "2")
    (found,) = written.run("event", "k", "p:1", "--window", WINDOW, "--json").json
    assert found == {
        "key": "k",
        "window": WINDOW,
        "state": "open",
        "id": "p:1",
        "packet": "p",
        "index": 1,
        "ts": START + 10,
        "value": "2.5",
        "payload": {"a": 1},
    }


def test_what_holds_an_event_and_a_key(written: CommandLine) -> None:
    spec = written.pipeline.spec()
    (found,) = written.run("--json", "event", "k", "p:1", "--window", WINDOW, "--where").json
    assert (found["record"], found["shard"]) == ("p", spec.shard("k", "p"))
    (key,) = written.run("--json", "count", "k", "--where").json[1:]
    assert (key["key"], key["window"], key["events"]) == ("k", WINDOW, 5)
    assert (key["table"], key["shards"]) == (spec.table, spec.shards) == (found["table"], 4)


def test_an_event_by_its_date(written: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyroll.cli.arguments.now_ms", lambda: NOW)
    one = written.run("event", "k", "e2", "--date", "today")
    assert (one.status, one.err) == (0, "")
    assert one.row("k", WINDOW, "open")
    written.pipeline.write({"id": "e2", "key": "k", "ts": NOW - HOUR, "value": 9})
    two = written.run("event", "k", "e2", "--date", "2026-11-20")
    assert two.row("k", hour(7), "open")
    assert two.row("k", WINDOW, "open")
    (found,) = written.run("event", "k", "e2", "--date", "2026-11-20", "--json").json
    assert [found["value"], *(each["value"] for each in found["also"])] == ["9", "2"]
    written.pipeline.move(Status.DROPPED, hour(6), attempt=Attempt(archive="archive/w/1"))
    assert two.err == ""
    three = written.run("event", "k", "e2", "--date", "2026-11-20")
    assert "dropped: others with this id may be in the archive" in three.err
    assert written.run("event", "k", "e9", "--date", "2026-11-20").status == 3
    assert written.run("event", "k", "e2", "--date", "yesterday").status == 3


def test_a_day_is_no_time(written: CommandLine) -> None:
    answer = written.run("event", "k", "e2", "--ts", "today")
    assert (answer.status, answer.out) == (2, "")
    assert "give --date today" in answer.err
    assert "today or yesterday" in written.run("event", "k", "e2", "--date", "tomorrow").err


def test_a_packet_comes_with_its_events(written: CommandLine) -> None:
    answer = written.run("event", "k", "p", "--window", WINDOW)
    assert answer.row("p:0", "2026-11-20T08:00:00.000Z", "1")
    assert answer.row("p:1", "2026-11-20T08:00:00.010Z", "2.5", '{"a":1}')


def test_an_event_that_is_not_there(written: CommandLine) -> None:
    answer = written.run("event", "k", "none", "--window", WINDOW)
    assert (answer.status, answer.out) == (3, "")
    assert "there is no event 'none' of key 'k'" in answer.err


def test_the_events_of_a_key(written: CommandLine) -> None:
    answer = written.run("events", "k", "--window", WINDOW)
    assert (answer.status, answer.err) == (0, "")
    ids = [line.split()[0] for line in answer.out.splitlines()[2:]]
    assert ids == ["e0", "e1", "e2", "p:0", "p:1"]
    lines = written.run("events", "k", "--window", WINDOW, "--json").json
    assert [line["id"] for line in lines] == ids
    assert lines[-1] == {
        "id": "p:1",
        "key": "k",
        "ts": START + 10,
        "value": 2.5,
        "payload": {"a": 1},
    }


def test_the_cursor_goes_on(written: CommandLine) -> None:
    ids: list[str] = []
    more: list[str] = []
    for _ in range(4):
        answer = written.run("events", "k", "--window", WINDOW, "--limit", "2", "--json", *more)
        assert answer.status == 0
        ids += [line["id"] for line in answer.json]
        told = re.search(r"there may be more: go on with (--cursor=\S+)", answer.err)
        if not told:
            break
        more = list(told.groups())
    assert ids == ["e0", "e1", "e2", "p:0", "p:1"]


def test_a_cursor_may_begin_with_a_dash(
    written: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 64 does: the option that is told takes it."""
    monkeypatch.setattr("tallyroll.reads.cursor._check", lambda body: b"\xfb" + _check(body)[1:])
    first = written.run("events", "k", "--window", WINDOW, "--limit", "2")
    told = re.search(r"go on with (--cursor=-\S+)", first.err)
    assert told
    rest = written.run("events", "k", "--window", WINDOW, "--json", told[1])
    assert [line["id"] for line in rest.json] == ["e2", "p:0", "p:1"]


def test_more_events_than_one_answer_holds(
    written: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.cli.reads.listing.EVENTS_MAX", 2)
    answer = written.run("events", "k", "--window", WINDOW, "--limit", "5", "--json")
    assert len(answer.json) == 5


def test_no_events(written: CommandLine) -> None:
    answer = written.run("events", "nobody", "--window", WINDOW)
    assert (answer.status, answer.out) == (0, "")
    assert f"no events of nobody in {WINDOW}" in answer.err


def test_events_that_could_not_be_read_are_told(written: CommandLine) -> None:
    written.pipeline.store.records = failing  # type: ignore[assignment]
    answer = written.run("events", "k", "--window", WINDOW)
    assert (answer.status, answer.out) == (1, "")
    assert "not all could be read in time: go on with --cursor=" in answer.err


def test_the_largest_keys(written: CommandLine) -> None:
    answer = written.run("top", "--window", WINDOW)
    assert (answer.status, answer.err) == (0, "")
    assert answer.row(WINDOW, "open", "2", "8", "2", "2026-11-20T08:30:00.000Z")
    rows = [line.split() for line in answer.out.splitlines()]
    assert rows.index(["k", "5", "6.5"]) < rows.index(["l", "3", "-4.5"])
    (found,) = written.run("top", "--window", WINDOW, "-n", "1", "--by", "sum", "--json").json
    assert found["top"] == [{"key": "k", "events": 5, "sum": "6.5"}]


def test_the_largest_keys_and_the_total_of_a_range(written: CommandLine) -> None:
    answer = written.run("top", "--since", WINDOW)
    assert answer.status == 0
    rows = [line.split() for line in answer.out.splitlines()]
    assert rows.index(["k", "5", "6.5"]) < rows.index(["l", "3", "-4.5"])
    answer = written.run("count", "--all")
    assert answer.status == 0
    assert answer.row("8", "2", "yes", "2026-11-20T08:30:00.000Z")
    (found,) = written.run("--json", "count", "--all", "--since", WINDOW).json
    assert (found["events"], found["complete"]) == (8, True)
    written.pipeline.store.stripes = failing  # type: ignore[assignment]
    for argv in (("top", "--since", WINDOW), ("count", "--all")):
        answer = written.run(*argv)
        assert answer.status == 1
        assert "could not read " in answer.err
        assert WINDOW in answer.err


def test_a_window_without_keys(written: CommandLine) -> None:
    answer = written.run("top", "--window", hour(7))
    assert (answer.status, answer.err) == (0, "")
    assert answer.row(hour(7), "open", "0", "0", "0", "2026-11-20T08:30:00.000Z")


def test_largest_keys_that_are_not_whole_say_so(written: CommandLine) -> None:
    written.pipeline.store.stripes = failing  # type: ignore[assignment]
    answer = written.run("top", "--window", WINDOW)
    assert answer.status == 1
    assert "4 buckets of tallies could not be read" in answer.err


@pytest.mark.parametrize(
    "argv", [("event", "k", "e1"), ("events", "k"), ("top",)], ids=lambda argv: argv[0]
)
def test_a_dropped_window_is_in_the_archive(written: CommandLine, argv: tuple[str, ...]) -> None:
    written.pipeline.move(Status.DROPPED, attempt=Attempt(archive="archive/tallyroll/w/1"))
    answer = written.run(*argv, "--window", WINDOW)
    assert (answer.status, answer.out) == (3, "")
    assert "in the archive, under archive/tallyroll/w/1/" in answer.err
    assert f"tallyroll archive read {WINDOW}" in answer.err


RANGE = ("events", "k", "--since", hour(6))


def test_the_events_of_a_range(written: CommandLine) -> None:
    written.pipeline.write({"id": "z", "key": "k", "ts": NOW - HOUR})
    lines = written.run(*RANGE, "--json").json
    assert [line["id"] for line in lines] == ["z", "e0", "e1", "e2", "p:0", "p:1"]
    by_time = written.run(*RANGE, "--json", "--order", "time").json
    assert [line["id"] for line in by_time] == ["z", "p:0", "p:1", "e0", "e1", "e2"]
    answer = written.run(*RANGE, "--until", WINDOW)
    assert answer.row("z", "2026-11-20T07:30:00.000Z", "1")
    assert len(answer.out.splitlines()) == 3
    none = written.run("events", "nobody", "--since", hour(6))
    assert (none.status, "no events of nobody in the range" in none.err) == (0, True)


def test_a_range_goes_on_by_its_cursor(written: CommandLine) -> None:
    found: list[str] = []
    more: list[str] = []
    for _ in range(4):
        answer = written.run(*RANGE, "--limit", "2", "--json", *more)
        found += [line["id"] for line in answer.json]
        told = re.search(r"there may be more: go on with (--cursor=\S+)", answer.err)
        if not told:
            break
        more = list(told.groups())
    assert found == ["e0", "e1", "e2", "p:0", "p:1"]


def test_a_range_is_sorted_on_disk(written: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyroll.cli.reads.listing.SORTED_IN_MEMORY", 2)
    by_time = written.run(*RANGE, "--json", "--order", "time").json
    assert [line["id"] for line in by_time] == ["p:0", "p:1", "e0", "e1", "e2"]


def test_events_are_followed(written: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(_: float) -> None:
        if not written.pipeline.write({"id": "a", "key": "k", "ts": NOW}).events:
            raise KeyboardInterrupt

    monkeypatch.setattr(written.pipeline.effects, "sleep", sleep)
    answer = written.run("events", "k", "--follow")
    assert answer.status == 130
    assert [line.split()[0] for line in answer.out.splitlines()] == [
        *("e0", "e1", "e2", "p:0", "p:1"),
        "a",
    ]
    with_json = written.run("events", "k", "--since", WINDOW, "--follow", "--json")
    assert [line["id"] for line in with_json.json][:2] == ["a", "e0"]


def test_a_range_with_a_dropped_window(written: CommandLine) -> None:
    written.pipeline.move(Status.DROPPED, hour(6), attempt=Attempt(archive="archive/w/6"))
    answer = written.run(*RANGE)
    assert (answer.status, answer.out) == (3, "")
    assert "the earliest whole range is since 2026-11-20T07:00" in answer.err


@pytest.mark.parametrize(
    "argv",
    [
        ("event", "k", "e1"),
        (*RANGE, "--window", WINDOW),
        (*RANGE, "--until", hour(5)),
        (*RANGE, "--order", "time", "--limit", "1"),
        (*RANGE, "--follow", "--until", hour(9)),
        (*RANGE, "--cursor", "nonsense"),
        ("events", "k", "--window", WINDOW, "--order", "time"),
        ("events", "k", "--since", "2026-11-20T08:30Z"),
        ("event", "~k", "e1", "--window", WINDOW),
        ("event", "k", "", "--window", WINDOW),
        ("event", "k", "\udcff", "--window", WINDOW),
        ("event", "k", "e1", "--window", WINDOW, "--ts", "1"),
        ("event", "k", "e1", "--ts", "now"),
        ("events", "k"),
        ("events", "k", "--window", "now"),
        ("events", "k", "--window", WINDOW, "--limit", "0"),
        ("events", "k", "--window", WINDOW, "--cursor", "nonsense"),
        ("top",),
        ("top", "--window", WINDOW, "-n", "1001"),
        ("top", "--window", WINDOW, "--since", WINDOW),
        ("count",),
        ("count", "k", "--all"),
        ("top", "--window", WINDOW, "--by", "name"),
    ],
)
def test_wrong_use(written: CommandLine, argv: tuple[str, ...]) -> None:
    answer = written.run(*argv)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err


def test_an_uploaded_payload_is_a_reference_or_fetched(written: CommandLine) -> None:
    body, key = b'{"scan":1}', "payloads/tallyroll/2026-11-20/x"
    sha256 = hashlib.sha256(body).hexdigest()
    reference = {"bucket": "memory", "key": key, "bytes": len(body), "sha256": sha256}
    event = {"v": 2, "id": "r", "key": "k", "ts": NOW, "payload_ref": reference}
    written.pipeline.settings = replace(written.pipeline.settings, bucket="memory")
    assert written.pipeline.write(event).events == 1
    assert written.run("event", "k", "r", "--ts", str(NOW)).row(
        "r", "2026-11-20T08:30:00.000Z", "1", f"s3://memory/{key}"
    )
    (found,) = written.run("event", "k", "r", "--ts", str(NOW), "--json").json
    assert found["payload_ref"] == reference
    *_, line = written.run("events", "k", "--window", WINDOW, "--json").json
    assert line == {"v": 2, "id": "r", "key": "k", "ts": NOW, "value": 1, "payload_ref": reference}
    fetch = ("event", "k", "r", "--ts", str(NOW), "--fetch", "--json")
    assert "there is no object" in written.run(*fetch).err
    written.pipeline.bucket.put(key, body)
    (found,) = written.run(*fetch).json
    assert (found["payload"], "payload_ref" in found) == ({"scan": 1}, False)
    written.pipeline.bucket.put(key, b'{"scan":2}')
    answer = written.run(*fetch)
    assert answer.status != 0
    assert f"{len(body)} with {sha256} were uploaded" in answer.err


def test_a_count_of_single_rows_says_what_it_read(
    written: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here in each of three live windows."""
    tallies = written.pipeline.store.tallies

    def read(*arguments: Any) -> Any:
        found = tallies(*arguments)
        return {key: replace(one, reading=ReadCost(5_000, 1_250)) for key, one in found.items()}

    monkeypatch.setattr(written.pipeline.store, "tallies", read)
    answer = written.run("count", "k", "l")
    assert answer.status == 0
    assert "k: live windows in Keyspaces have no tallies: 15,000 rows read" in answer.err
    assert "3,750 read units at most" in answer.err
    first, _ = written.run("count", "k", "l", "--json").json
    assert first["reading"] == {"rows": 15_000, "read_units_max": 3_750}


def test_what_was_retracted_has_columns_of_its_own_where_there_is_any(
    written: CommandLine,
) -> None:
    assert "retracted" not in written.run("count", "k", "l", "--windows").out
    assert "retracted" not in written.run("top", "--window", WINDOW).out
    written.pipeline.move(Status.CLOSING, WINDOW)
    written.pipeline.roller().run(60_000)
    correction = Correction(WINDOW, "e2", ("k",), 1, 2_000_000, b"", NOW)
    written.pipeline.totals.correct([correction])
    answer = written.run("count", "k", "l", "--windows")
    as_of = "2026-11-20T08:30:00.000Z"
    assert answer.row("k", "4", "4.5", "1", "2", "yes", as_of)
    assert answer.row("l", "3", "-4.5", "0", "0", "yes", as_of)
    assert answer.row("k", WINDOW, "sealed", "4", "4.5", "1", "2")
    answer = written.run("top", "--window", WINDOW)
    assert answer.row(WINDOW, "sealed", "2", "7", "0", "1", "2", as_of)
    assert answer.row("k", "4", "4.5", "1", "2")
    (found,) = written.run("count", "k", "--json").json
    assert found["retracted"] == {"events": 1, "sum": "2"}


def test_events_that_were_retracted_are_marked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = CommandLine(opened(QUEUE), monkeypatch, capsys)
    value = 0.123456
    cli.pipeline.write({"id": "e1", "key": "k", "ts": NOW, "value": value, "payload": {"a": 1}})
    cli.pipeline.write({"id": "e2", "key": "k", "ts": NOW}, retraction(id="e1"))
    answer = cli.run("events", "k", "--window", WINDOW)
    heads, _, first, second = (line.split() for line in answer.out.splitlines())
    assert heads == ["id", "time", "value", "retracted", "by", "payload"]
    assert first == [
        *("e1", "2026-11-20T08:30:00.000Z", "0.123456", "ann:", "a", "test"),
        '{"a":1}',
    ]
    assert second == ["e2", "2026-11-20T08:30:00.000Z", "1"]
    lines = cli.run("events", "k", "--window", WINDOW, "--json").json
    assert lines[0] == {
        "id": "e1",
        "key": "k",
        "ts": NOW,
        "value": value,
        "payload": {"a": 1},
        "retracted": {"by": "ann", "why": "a test"},
    }
    assert "retracted" not in lines[1]
    assert "ann: a test" in cli.run("event", "k", "e1", "--window", WINDOW).out
    (found,) = cli.run("event", "k", "e1", "--window", WINDOW, "--json").json
    assert found["retracted"] == {"by": "ann", "why": "a test"}
