"""`tallyroll load`: formats, bad lines, the same load twice."""

from __future__ import annotations

import gzip
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from tests.cli.command_line import CommandLine, lines
from tests.harness.pipeline import HOUR, MINUTE, NOW

pytestmark = pytest.mark.usefixtures("here")

EVENTS: list[dict[str, Any]] = [
    {"key": f"k{n % 3}", "ts": NOW - n * 20_000, "value": n} for n in range(60)
]


def counts(cli: CommandLine, *keys: str) -> dict[str, tuple[int, str]]:
    cli.drain()
    found = cli.run("--json", "count", *keys).json
    return {count["key"]: (count["events"], count["sum"]) for count in found}


def bodies(cli: CommandLine) -> list[dict[str, Any]]:
    return [json.loads(body) for body in cli.producer.bodies]


def bad_lines(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.glob("*.bad.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("pack", ["--pack", "--no-pack"])
def test_the_same_load_twice_counts_once(cli: CommandLine, here: Path, pack: str) -> None:
    (here / "events.jsonl").write_bytes(lines(*EVENTS))
    answer = cli.run("load", "events.jsonl", pack)
    assert (answer.status, answer.err) == (0, "")
    assert answer.row("sources", "loaded", "1")
    assert answer.row("events", "sent", "60")
    first = list(cli.producer.bodies)
    cli.pipeline.effects.pass_by(7_000)
    assert cli.run("load", "events.jsonl", pack).status == 0
    assert sorted(cli.producer.bodies[len(first) :]) == sorted(first)
    assert sum(events for events, _ in counts(cli, "k0", "k1", "k2").values()) == 60
    assert cli.pipeline.reasons() == []
    assert list(here.glob("tallyroll-load-*")) == []  # nothing is left of a load that is complete


def test_a_load_that_is_compressed_and_one_that_is_not_count_once(
    cli: CommandLine, here: Path
) -> None:
    events = [{"key": "k0", "ts": NOW, "payload": "again" * 9}] * 500
    (here / "events.jsonl").write_bytes(lines(*events))
    assert cli.run("load", "events.jsonl", "--compress").status == 0
    assert cli.run("load", "events.jsonl").status == 0
    assert [body["v"] for body in bodies(cli)] == [2, 1]
    assert counts(cli, "k0")["k0"][0] == 500


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_a_file_and_the_same_bytes_on_stdin_count_once(
    cli: CommandLine, here: Path, pack: Any
) -> None:
    content = pack(lines(*EVENTS))
    (here / "events.jsonl.gz").write_bytes(content)
    assert cli.run("load", "events.jsonl.gz").status == 0
    assert cli.run("load", "-", stdin=content).status == 0
    assert counts(cli, "k0")["k0"][0] == 20


def test_events_with_ids_count_once_in_any_file(cli: CommandLine, here: Path) -> None:
    own = [{**event, "id": f"e{n}"} for n, event in enumerate(EVENTS)]
    (here / "a.jsonl").write_bytes(lines(*own[:40]))
    (here / "b.jsonl").write_bytes(lines(*own))
    assert cli.run("load", "a.jsonl", "b.jsonl").status == 0
    assert counts(cli, "k1")["k1"][0] == 20


def test_files_of_the_same_content_are_told(cli: CommandLine, here: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (here / name).write_bytes(lines(*EVENTS))
    answer = cli.run("load", "a.jsonl", "b.jsonl")
    assert "b.jsonl has the content of a.jsonl: its events without ids count once" in answer.err
    assert counts(cli, "k0")["k0"][0] == 20


def test_bad_lines_are_kept_and_all_others_are_loaded(cli: CommandLine, here: Path) -> None:
    content = lines(
        {"key": "k", "ts": NOW},
        "nonsense",
        "",
        {"key": "", "ts": NOW},
        {"key": "k", "ts": NOW // 1000},
        {"key": "k"},
        {"key": "k", "id": "undated"},
        {"key": "k", "ts": NOW, "id": "e"},
    )
    (here / "events.jsonl").write_bytes(content + b'{"key": "\xff", "ts": 1}\n')
    answer = cli.run("--json", "load", "events.jsonl")
    assert answer.status == 1
    assert bad_lines(here) == [
        {
            "source": "events.jsonl",
            "line": 2,
            "reason": "not-json",
            "detail": "Expecting value: line 1 column 1 (char 0): 'nonsense'",
            "text": "nonsense",
        },
        *(
            {"source": "events.jsonl", "line": line, "reason": reason, "detail": detail, "text": t}
            for line, reason, detail, t in (
                (4, "bad-key", ANY, json.dumps({"key": "", "ts": NOW})),
                (5, "ts-in-seconds", ANY, json.dumps({"key": "k", "ts": NOW // 1000})),
                (6, "ts-required", ANY, '{"key": "k"}'),
                (7, "ts-required", ANY, '{"key": "k", "id": "undated"}'),
                (9, "not-json", "not UTF-8 at byte 9", '{"key": "\ufffd", "ts": 1}'),
            )
        ),
    ]
    (report,) = answer.json
    assert report["lines"] == 8
    assert report["events"] == 2
    assert report["rejected"] == {
        "not-json": 2, "bad-key": 1, "ts-in-seconds": 1, "ts-required": 2,
    }  # fmt: skip
    assert report["bad_file"] == next(here.glob("*.bad.jsonl")).name
    assert "events.jsonl, line 2: not-json" in answer.err
    assert "ts-in-seconds: give --ts-unit s" in answer.err
    assert counts(cli, "k")["k"][0] == 2
    (here / "events.jsonl").write_bytes(lines({"key": "k", "ts": NOW}))
    assert cli.run("load", "events.jsonl").status == 0
    assert list(here.glob("*.bad.jsonl")) == []  # it was of the load before


def test_csv_by_its_header(cli: CommandLine, here: Path) -> None:
    (here / "plays.csv").write_text(
        "\ufeffvideo,at,seconds,user,note\r\n"
        f'a,{NOW // 1000},2.5,u1,"two\r\nlines, one row"\r\n'
        f"a,{NOW // 1000 + 1}.25,,u2,\r\n"
        "\r\n"
        f'"b ""x""",{NOW // 1000},1e3,,\r\n'
        f"a,{NOW // 1000}\r\n"
        'a,"x"y,1,,\r\n'
        f"a,soon,1,,\r\na,{NOW // 1000},much,,\r\n"
    )
    answer = cli.run(
        *("load", "plays.csv", "--key", "video", "--ts", "at", "--ts-unit", "s"),
        *("--value", "seconds", "--payload", "user,note", "--no-pack"),
    )
    assert answer.status == 1
    sent = {(each["key"], each["ts"], each["value"]): each for each in bodies(cli)}
    assert {at: each.get("payload") for at, each in sent.items()} == {
        ("a", NOW, 2.5): {"user": "u1", "note": "two\r\nlines, one row"},
        ("a", NOW + 1_250, 1): {"user": "u2"},
        ('b "x"', NOW, 1000): None,
    }
    assert sorted(each["id"].rpartition("-")[2] for each in sent.values()) == ["2", "4", "6"]
    assert [(bad["line"], bad["reason"]) for bad in bad_lines(here)] == [
        *((7, "not-csv"), (8, "not-csv"), (9, "bad-ts"), (10, "bad-value"))
    ]


def test_csv_has_the_fields_of_json_by_default(cli: CommandLine, here: Path) -> None:
    (here / "e.csv").write_text(f'key,id,ts,payload\nk,e,{NOW},"{{""a"": 1}}"\nk,f,{NOW},x\n')
    assert cli.run("load", "e.csv").status == 1
    (sent,) = bodies(cli)
    assert (sent["id"], sent["ts"], sent["value"], sent["payload"]) == ("e", NOW, 1, {"a": 1})
    assert bad_lines(here)[0]["reason"] == "bad-payload"


@pytest.mark.parametrize("text", ["1e999999999", "1e5000", "-1e9999", "1e-999999999"])
def test_numbers_that_are_no_times(cli: CommandLine, here: Path, text: str) -> None:
    (here / "e.csv").write_text(f"key,ts\nk,{text}\nk,{NOW}\n")
    assert cli.run("load", "e.csv").status == 1
    assert bad_lines(here)[0]["line"] == 2
    assert counts(cli, "k")["k"][0] == 1


@pytest.mark.parametrize(
    ("text", "ts"),
    [
        ("2026-11-20T08:30:00Z", NOW),
        ("2026-11-20 08:30:00", NOW),
        ("2026-11-20T09:30:00.1239+01:00", NOW + 123),
        ("2026-11-20 08:30:00.123456789", NOW + 123),
        (str(NOW), NOW),
        (f"{NOW}.9", NOW),
    ],
)
def test_times(cli: CommandLine, here: Path, text: str, ts: int) -> None:
    (here / "e.csv").write_text(f"key,ts\nk,{text}\n")
    answer = cli.run("load", "e.csv", "--no-pack")
    assert answer.status == 0, answer.err
    assert bodies(cli)[0]["ts"] == ts
    unzoned = " " in text and "+" not in text
    assert ("had a time without a zone, which was read as UTC" in answer.err) is unzoned


@pytest.mark.parametrize("unit", [("us", 1_000), ("ns", 1_000_000)])
def test_units_of_times(cli: CommandLine, here: Path, unit: tuple[str, int]) -> None:
    (here / "e.csv").write_text(f"key,ts\nk,{NOW * unit[1] + 7}\n")
    assert cli.run("load", "e.csv", "--ts-unit", unit[0], "--no-pack").status == 0
    assert bodies(cli)[0]["ts"] == NOW


def test_csv_without_a_header(cli: CommandLine, here: Path) -> None:
    (here / "e.csv").write_text(f"k;{NOW}\nk;{NOW}\n")
    assert cli.run("load", "e.csv", "--columns", "key,ts", "--delimiter", ";").status == 0
    assert counts(cli, "k")["k"][0] == 2


def test_a_quote_without_an_end_takes_no_more_than_a_record(
    cli: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.client.sources.readers.FIELD_CHARACTERS_MAX", 200)
    row = f"k,{NOW}\n"
    (here / "e.csv").write_text("key,ts\n" + f'"k,{NOW}\n' + row * 50)
    answer = cli.run("--json", "load", "e.csv")
    assert answer.status == 1
    assert answer.json[0]["events"] > 30
    assert [bad["line"] for bad in bad_lines(here)] == [2]


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_row_of_csv_that_is_too_long_is_a_bad_line(
    cli: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch, quote: str
) -> None:
    monkeypatch.setattr("tallyroll.client.jsonlines.LINE_BYTES_MAX", 100)
    long = f"k,{NOW},{quote}{'x' * 200}{quote}\n"
    (here / "e.csv").write_text(f"key,ts,user\nk,{NOW},\n{long}\nk,{NOW},\n")
    assert cli.run("load", "e.csv").status == 1
    assert [(bad["line"], bad["reason"]) for bad in bad_lines(here)] == [(3, "item-too-large")]
    assert counts(cli, "k")["k"][0] == 2


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n\n", gzip.compress(b"", mtime=0)])
def test_an_empty_file_has_no_rows(cli: CommandLine, here: Path, content: bytes) -> None:
    (here / "plays").mkdir()
    for name in ("a.csv", "b.csv", "c.jsonl"):
        (here / "plays" / name).write_bytes(content if name < "b" else b"")
    (here / "plays" / "d.csv").write_text(f"key,ts\nk,{NOW}\n")
    answer = cli.run("load", "plays")
    assert (answer.status, answer.err) == (0, "")
    assert counts(cli, "k")["k"][0] == 1


def test_the_files_that_a_load_keeps_are_not_loaded(cli: CommandLine, here: Path) -> None:
    (here / "e.csv").write_text(f"key,ts\nk,{NOW}\nk,bad\n")
    (here / "f.jsonl").write_bytes(lines({"key": "k", "ts": NOW, "id": "e"}))
    cli.producer.refuses = lambda body: "busy" if '"e"' in body else None
    for kept in (2, 1, 1):  # the checkpoint is removed once everything is loaded
        assert cli.run("load", ".").status == 1
        assert len(list(here.glob("tallyroll-load-*"))) == kept
        assert len(bad_lines(here)) == 1
        cli.producer.refuses = lambda body: None
    assert counts(cli, "k")["k"][0] == 2


def test_lines_of_json_by_columns_and_by_a_mapping(cli: CommandLine, here: Path) -> None:
    given = {"detail": {"video": "a", "at": "2026-11-20T08:30:00Z", "n": 0.1}, "user": "u", "t": 1}
    (here / "e.jsonl").write_bytes(lines(given, {"detail": {}}))
    mapping = {"key": "detail.video", "ts": "detail.at", "value": "detail.n", "payload": "user"}
    (here / "mapping.json").write_text(json.dumps(mapping))
    for told in (json.dumps(mapping), "mapping.json"):
        assert cli.run("load", "e.jsonl", "--mapping", told, "--no-pack").status == 1
        sent = bodies(cli)[-1]
        assert (sent["key"], sent["ts"], sent["value"], sent["payload"]) == ("a", NOW, 0.1, "u")
        assert bad_lines(here)[0]["reason"] == "mapping-failed"
    assert len({each["id"] for each in bodies(cli)}) == 1

    (here / "flat.jsonl").write_bytes(lines({"user": "u", "t": NOW // 1000, "n": "1.5"}))
    options = ("--key", "user", "--ts", "t", "--ts-unit", "s", "--value", "n", "--no-pack")
    assert cli.run("load", "flat.jsonl", *options).status == 0
    sent = bodies(cli)[-1]
    assert (sent["key"], sent["ts"], sent["value"]) == ("u", NOW, 1.5)


def test_packets_are_lines_too(cli: CommandLine, here: Path) -> None:
    packet = {"v": 1, "id": "p", "key": "k", "t0": NOW, "events": [[0], [5, 3]]}
    (here / "e.jsonl").write_bytes(lines(packet))
    assert cli.run("load", "e.jsonl").status == 0
    assert counts(cli, "k") == {"k": (2, "4")}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "give files"),
        (("none.jsonl",), "none.jsonl: No such file"),
        (("empty",), "no file to load there"),
        (("e.csv", "e.csv"), "e.csv is given twice"),
        (("e.csv", "--key", "video"), "e.csv has no column 'video': its columns are a, b"),
        (("e.csv",), "give --key COLUMN, one of a, b"),
        (("twice.csv",), "its header has a column 'a' twice"),
        (("e.csv", "--mapping", "{}"), "--mapping: key: give the expression"),
        (("e.csv", "--mapping", "{bad"), "--mapping is no JSON"),
        (("e.csv", "--mapping", '{"key": 1}'), "give an object of expressions"),
        (("e.csv", "--mapping", '{"keys": ["{a}", "{b}"]}'), "what is loaded counts under one key"),
        (("e.csv", "--mapping", "no.json"), "No such file"),
        (("e.csv", "--mapping", '{"key": "a"}', "--ts", "b"), "leave out --key"),
        (("e.csv", "--key", "a", "--bad", "e.csv"), "--bad 'e.csv' is a file that is being loaded"),
        (("e.csv", "--key", "a", "--checkpoint", "e.csv"), "is a file that is being loaded"),
        (("e.csv", "--key", "a", "--checkpoint", "no/such"), "there is no such directory"),
        (("e.csv", "--key", "a", "--checkpoint", "twice.csv"), "is no checkpoint"),
        (("e.csv", "--key", "a", "--checkpoint", "x", "--bad", "./x"), "cannot be both"),
        (("e.csv", "--key", "a", "--bad", "twice.csv"), "'twice.csv' is there already"),
        (("e.csv", "--key", "a", "--bad", "empty"), "--bad 'empty' is no regular file"),
        (("e.csv", "--key", "a", "--bad", "pipe"), "--bad 'pipe' is no regular file"),
        (("e.csv", "--key", "a", "--checkpoint", "pipe"), "'pipe' is no regular file"),
        (("e.csv", "--rate", "0"), "events a second"),
        (("e.csv", "--delimiter", "ab"), "give one character"),
        (("e.csv", "--key", "a", "--delimiter", '"'), "no quote and no line end"),
        (("e.csv", "--columns", "key,ts,key"), "--columns has 'key' twice"),
        (("e.csv", "--ts-unit", "h"), "--ts-unit"),
        (("s3:///key",), "give s3://BUCKET/KEY"),
    ],
)
def test_wrong_use(cli: CommandLine, here: Path, argv: tuple[str, ...], said: str) -> None:
    (here / "empty").mkdir()
    os.mkfifo(here / "pipe")
    (here / "e.csv").write_text("a,b\n1,2\n")
    (here / "twice.csv").write_text("a,a\n")
    answer = cli.run("load", *argv)
    assert (answer.status, answer.out) == (2, ""), answer.err
    assert said in answer.err
    assert cli.producer.tried == []
    assert (here / "pipe").is_fifo()
    assert (here / "twice.csv").read_text() == "a,a\n"


def test_a_rate_is_kept(cli: CommandLine, here: Path) -> None:
    events = [{"key": "k", "id": f"e{n}", "ts": NOW} for n in range(100)]
    (here / "e.jsonl").write_bytes(lines(*events))
    assert cli.run("load", "e.jsonl", "--rate", "20/s").status == 0
    assert 4_000 <= cli.pipeline.effects.now() - NOW <= 5_000


def test_a_directory_is_loaded_in_the_order_of_its_names(cli: CommandLine, here: Path) -> None:
    folder = here / "history" / "day=1"
    folder.mkdir(parents=True)
    (folder / "b.jsonl").write_bytes(lines({"key": "k", "ts": NOW}))
    (folder / "a.csv.gz").write_bytes(gzip.compress(f"key,ts\nk,{NOW}\n".encode()))
    (folder / "_SUCCESS").touch()
    (folder / "notes.txt").write_text("none")
    answer = cli.run("load", "history", "--no-pack")
    assert answer.status == 0
    assert answer.row("sources", "loaded", "2")
    assert "left out, of no known format: day=1/_SUCCESS, day=1/notes.txt" in answer.err
    assert counts(cli, "k")["k"][0] == 2


def test_what_stands_before_a_break_is_loaded(cli: CommandLine, here: Path) -> None:
    whole = gzip.compress(
        lines(*({"key": "k", "id": f"{n * 7919:x}", "ts": NOW} for n in range(5_000)))
    )
    (here / "a.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (here / "b.jsonl").write_bytes(lines({"key": "l", "ts": NOW}))
    answer = cli.run("load", "a.jsonl.gz", "b.jsonl")
    assert answer.status == 1
    assert "the input is broken: " in answer.err
    assert "the same command goes on at the checkpoint" in answer.err
    found = counts(cli, "k", "l")
    assert found["k"][0] > 1_000
    assert found["l"][0] == 1


def test_values_are_exact(cli: CommandLine, here: Path) -> None:
    (here / "e.csv").write_text(
        "key,ts,value\n" + f"k,{NOW},0.000001\nk,{NOW},123456789012345678\n"
    )
    assert cli.run("load", "e.csv").status == 0
    assert Decimal(counts(cli, "k")["k"][1]) == Decimal("123456789012345678.000001")


def test_what_no_window_takes_is_told_and_stays_to_be_loaded(cli: CommandLine, here: Path) -> None:
    old = [{"key": "k", "ts": NOW - 30 * HOUR + n * MINUTE} for n in range(3)]
    (here / "e.jsonl").write_bytes(lines(*old, {"key": "k", "ts": NOW}))
    answer = cli.run("load", "e.jsonl")
    assert answer.status == 1
    assert answer.row("events", "that", "no", "window", "takes", "3")
    assert "windows open --since" in answer.err
    assert "the same command goes on" not in answer.err or list(here.glob("*.checkpoint.json"))
