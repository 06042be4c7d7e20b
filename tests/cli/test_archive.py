from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto import mock_aws

from tallyroll.adapters.aws import client
from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.s3 import S3Bucket
from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.adapters.system import SystemEffects
from tallyroll.archive.layout import summary_key
from tallyroll.cli.screen import size_text
from tallyroll.errors import Throttled
from tests.cli.command_line import Answer, CommandLine, run
from tests.harness.archives import Archived, archived, sealed_and_exported
from tests.harness.payloads import noise
from tests.harness.pipeline import NOW, WINDOW, hour

HERE = ("--bucket", "memory")


@pytest.fixture
def whole() -> Archived:
    return archived()


@pytest.fixture
def cli(
    whole: Archived, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(whole.pipeline, monkeypatch, capsys)


# --- list


def test_archives_as_a_table(cli: CommandLine, whole: Archived) -> None:
    answer = cli.run("archive", "list", *HERE)
    assert (answer.status, answer.err) == (0, "")
    heads, _, row = answer.out.splitlines()
    assert heads.split() == [
        *("window", "state", "items", "keys", "events", "sum"),
        *("size", "exported", "proven", "attempt"),
    ]
    items = str(len(whole.items()))
    assert row.split()[:6] == [WINDOW, "proven", items, "3", "9", "5.000004"]
    assert row.split()[-3:] == ["2026-11-20T08:30:00", "2026-11-20T08:30:00", "a1"]


def test_archives_as_json(cli: CommandLine, whole: Archived) -> None:
    [archive] = cli.run("archive", "list", "--json", *HERE).json
    assert archive == {
        "window": WINDOW,
        "state": "proven",
        "pipeline": "tallyroll",
        "attempt": "a1",
        "bucket": "memory",
        "prefix": whole.prefix,
        "bytes": sum(size for _, size in whole.bucket.sizes("archive/")),
        "exported": "2026-11-20T08:30:00.000Z",
        "items": len(whole.items()),
        "proven": "2026-11-20T08:30:00.000Z",
        "keys": 3,
        "events": 9,
        "sum": "5.000004",
    }


def test_every_attempt_or_the_one_that_counts(cli: CommandLine, whole: Archived) -> None:
    given_up = whole.prefix[:-1] + "2"
    whole.bucket.put(f"{given_up}/AWSDynamoDB/a2/data/000-0000.json.gz", b"")
    assert [each["state"] for each in cli.run("archive", "list", "--json", *HERE).json] == [
        "proven"
    ]
    every = cli.run("archive", "list", "--all", "--json", *HERE).json
    assert [(each["attempt"], each["state"]) for each in every] == [
        ("a1", "proven"),
        ("a2", "incomplete"),
    ]


def test_a_range_of_archives(cli: CommandLine) -> None:
    def listed(since: str, until: str) -> Answer:
        return cli.run("archive", "list", "--json", "--since", since, "--until", until, *HERE)

    assert len(listed(hour(8), hour(9)).json) == 1
    none = listed(hour(9), hour(10))
    assert (none.status, none.out) == (0, "")
    assert "no archives of 'tallyroll' in 'memory'" in none.err
    wrong = listed(hour(9), hour(8))
    assert wrong.status == 2
    assert "is not before" in wrong.err


def test_a_damaged_manifest_is_listed_as_such(cli: CommandLine, whole: Archived) -> None:
    whole.bucket.put(summary_key(whole.prefix), b"{")
    answer = cli.run("archive", "list", *HERE)
    assert answer.status == 1
    assert " damaged " in answer.out
    assert "manifest malformed" in answer.out


def test_partitions_for_athena(cli: CommandLine, whole: Archived) -> None:
    answer = cli.run("archive", "list", "--athena", "votes", *HERE)
    assert answer.status == 0
    assert answer.out == (
        "ALTER TABLE votes ADD IF NOT EXISTS\n"
        f"  PARTITION (day='2026-11-20', hour=8, window_id='{WINDOW}')"
        f" LOCATION 's3://memory/{whole.prefix}/AWSDynamoDB/a1/data/';\n"
    )
    whole.remove(f"{whole.prefix}/proof.json")
    unproven = cli.run("archive", "list", "--athena", "votes", *HERE)
    assert (unproven.status, unproven.out) == (0, "")
    assert "no proven archives" in unproven.err


# --- verify


def test_a_whole_archive(cli: CommandLine, whole: Archived) -> None:
    answer = cli.run("archive", "verify", "--against-totals", *HERE)
    assert (answer.status, answer.err) == (0, "")
    assert answer.row(WINDOW, "yes", "whole", str(len(whole.items())), "3", "9", "5.000004")
    for name in (WINDOW, whole.prefix):
        assert cli.run("archive", "verify", name, *HERE).status == 0


def test_differences_are_told_and_counted(cli: CommandLine, whole: Archived) -> None:
    key = whole.spoil()
    answer = cli.run("archive", "verify", *HERE)
    assert answer.status == 1
    assert f"{whole.prefix}: 3 differences" in answer.err
    line = whole.files()[0].items + 1
    assert f"  {key} line {line}: unreadable: Expecting" in answer.err
    assert "MD5" in answer.err
    assert " 3 wrong " in answer.out
    [verified] = cli.run("archive", "verify", "--json", *HERE).json
    assert verified["differences"] == len(verified["first"]) == 3


def test_the_first_five_differences_are_told(cli: CommandLine, whole: Archived) -> None:
    [first, *_] = whole.files()
    whole.bucket.put(first.key, gzip.compress(b"\n" * 10))
    answer = cli.run("archive", "verify", *HERE)
    assert len([line for line in answer.err.splitlines() if " line " in line]) == 5
    assert re.search(r"^tallyroll:   and \d+ more$", answer.err, re.MULTILINE)


def test_totals_that_differ_are_found_if_asked_for(cli: CommandLine, whole: Archived) -> None:
    whole.pipeline.totals._totals.clear()
    assert cli.run("archive", "verify", *HERE).status == 0
    answer = cli.run("archive", "verify", "--against-totals", *HERE)
    assert answer.status == 1
    assert f"{whole.prefix}: 3 differences" in answer.err


def test_totals_that_cannot_be_read(
    cli: CommandLine, whole: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Throttled("BatchGetItem: too much")

    monkeypatch.setattr(whole.pipeline.totals, "of_window", refuse)
    assert cli.run("archive", "verify", "--against-totals", *HERE).status == 3


def test_what_to_verify_is_said_once(cli: CommandLine) -> None:
    answer = cli.run("archive", "verify", WINDOW, "--since", hour(8), *HERE)
    assert answer.status == 2
    assert "not both" in answer.err
    assert cli.run("archive", "verify", "--since", hour(9), *HERE).status == 0


# --- read


def test_events_are_read_as_they_were_sent(cli: CommandLine) -> None:
    answer = cli.run("archive", "read", WINDOW, *HERE)
    assert (answer.status, answer.err) == (0, "")
    events = {event["id"]: event for event in answer.json}
    assert sorted(events) == [*(f"e{n}" for n in range(5)), *(f"p1:{n}" for n in range(4))]
    assert list(events["e1"]) == ["id", "key", "ts", "value", "payload"]
    assert (events["e1"]["value"], events["e1"]["payload"]) == (0.5, {"n": 1})
    assert (events["p1:3"]["key"], events["p1:3"]["payload"]) == ("k0", ["ä", 3])


def test_events_of_a_key_and_its_recount(cli: CommandLine) -> None:
    answer = cli.run("archive", "read", WINDOW, "--key", "k0", *HERE)
    assert {event["key"] for event in answer.json} == {"k0"}
    assert len(answer.json) == 6
    said = "key 'k0': 6 events, sum 1.500004 by its records, the same by its tally"
    assert said in answer.err
    none = cli.run("archive", "read", WINDOW, "--key", "none", *HERE)
    assert (none.status, none.out) == (0, "")
    assert "0 events, sum 0 by its records" in none.err
    assert cli.run("archive", "read", WINDOW, "--key", "~k", *HERE).status == 2


def test_a_key_whose_tally_differs(cli: CommandLine, whole: Archived) -> None:
    items = whole.items()
    items.remove(next(item for item in items if item["sk"]["S"].startswith("t#k1.")))
    whole.rewrite(items)
    answer = cli.run("archive", "read", WINDOW, "--key", "k1", *HERE)
    assert answer.status == 1
    assert "key 'k1': 2 events, sum 2.5 by its records, 0 events, sum 0 by its tally" in answer.err


def test_items_as_they_stand(cli: CommandLine, whole: Archived) -> None:
    answer = cli.run("archive", "read", WINDOW, "--raw", *HERE)
    assert [line["Item"] for line in answer.json] == whole.items()
    of_key = cli.run("archive", "read", WINDOW, "--raw", "--key", "k2", *HERE).json
    assert [line["Item"]["sk"]["S"][:2] for line in of_key].count("t#") == 1


def test_payloads_in_chunks_are_read_whole(cli: CommandLine) -> None:
    payloads = {f"e{n}": noise(120_000, n) for n in range(4)}
    events = [
        {"id": name, "key": f"k{name[1]}", "ts": NOW, "payload": payload}
        for name, payload in payloads.items()
    ]
    found = Archived(*sealed_and_exported(map(json.dumps, [*events, {"key": "k1"}])))
    cli.pipeline.bucket._objects.clear()
    cli.pipeline.bucket._objects.update(found.bucket._objects)
    answer = cli.run("archive", "read", WINDOW, *HERE)
    assert (answer.status, answer.err) == (0, "")
    assert {event["id"]: event.get("payload") for event in answer.json[1:]} == payloads
    of_key = cli.run("archive", "read", WINDOW, "--key", "k1", *HERE)
    assert [event.get("payload") for event in of_key.json] == [None, payloads["e1"]]
    raw = cli.run("archive", "read", WINDOW, "--raw", "--key", "k1", *HERE)
    assert sum(line["Item"]["sk"]["S"].startswith("c#e1#") for line in raw.json) == 7
    items = [item for item in found.items() if item["sk"]["S"] != "c#e2#0003"]
    found.rewrite(items)
    cli.pipeline.bucket._objects.update(found.bucket._objects)
    broken = cli.run("archive", "read", WINDOW, *HERE)
    assert (broken.status, len(broken.json)) == (1, 4)
    assert "chunk 3 of 7 is missing" in broken.err


def test_a_packet_that_cannot_be_unpacked(cli: CommandLine, whole: Archived) -> None:
    items = whole.items()
    packet = next(item for item in items if item["sk"]["S"] == "e#p1")
    packet["data"] = {"B": "AAAA"}
    whole.rewrite(items)
    answer = cli.run("archive", "read", WINDOW, *HERE)
    assert answer.status == 1
    assert len(answer.json) == 5
    [file] = whole.files()
    assert (
        f"{file.key} line {items.index(packet) + 1}: record 'p1' cannot be unpacked" in answer.err
    )


def test_what_is_read_can_be_sent_again(cli: CommandLine) -> None:
    read = cli.run("archive", "read", WINDOW, *HERE)
    sent = cli.run("send", stdin=read.out.encode())
    assert sent.status == 0
    assert len(cli.producer.bodies) == 9


# --- where archives are


def test_a_copy_in_a_directory(cli: CommandLine, whole: Archived, tmp_path: Path) -> None:
    copy = DirectoryBucket(tmp_path)
    for key in whole.bucket.list("archive/"):
        copy.put(key, whole.bucket.get(key))
    there = ("--dir", str(tmp_path))
    [listed] = cli.run("archive", "list", "--json", *there).json
    assert (listed["bucket"], listed["state"]) == (str(tmp_path), "proven")
    assert cli.run("archive", "verify", *there).status == 0
    assert len(cli.run("archive", "read", WINDOW, *there).json) == 9
    native = ("archive", "restore", WINDOW, "--table", "restored", "--native", *there)
    assert cli.run(*native).status == 2
    assert cli.run("archive", "list", "--athena", "votes", *there).status == 2


def test_where_there_is_nothing(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TALLYROLL_BUCKET", raising=False)
    answer = cli.run("archive", "list")
    assert answer.status == 2
    assert "give --bucket, or set TALLYROLL_BUCKET" in answer.err
    none = cli.run("archive", "list", "--dir", str(tmp_path / "none"))
    assert none.status == 2
    assert f"{str(tmp_path / 'none')!r}: there is none" in none.err
    absent = cli.run("archive", "read", hour(9), *HERE)
    assert (absent.status, absent.out) == (3, "")
    assert "there is no archive under 'archive/tallyroll/date=2026-11-20/hour=09/" in absent.err
    wrong = cli.run("archive", "read", "yesterday", *HERE)
    assert wrong.status == 2
    assert "'yesterday'" in wrong.err


def test_the_bucket_of_the_environment(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYROLL_BUCKET", "memory")
    assert cli.run("archive", "list").status == 0
    assert cli.settings
    assert cli.settings.bucket == "memory"
    assert cli.run("archive", "list", "--bucket", "other").status == 0
    assert cli.settings.bucket == "other"


def test_archives_in_s3(
    whole: Archived, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client._session.cache_clear()
    with mock_aws():
        bucket = S3Bucket(
            Caller(client.make_client("s3"), SystemEffects()), SystemEffects(), "kept"
        )
        client.make_client("s3").create_bucket(Bucket="kept")
        for key in whole.bucket.list("archive/"):
            bucket.put(key, whole.bucket.get(key))
        there = ("--bucket", "kept")
        assert run(monkeypatch, capsys, "archive", "verify", *there).status == 0
        [listed] = run(monkeypatch, capsys, "archive", "list", "--json", *there).json
        sizes = [size for _, size in whole.bucket.sizes("archive/")]
        assert (listed["state"], listed["bytes"]) == ("proven", sum(sizes))
        url = f"s3://kept/{whole.prefix}/"
        assert len(run(monkeypatch, capsys, "archive", "read", url, *there).json) == 9
        gone = run(monkeypatch, capsys, "archive", "list", "--bucket", "gone")
        assert (gone.status, gone.out) == (3, "")
        assert "NoSuchBucket" in gone.err
    client._session.cache_clear()


def test_sizes_for_people() -> None:
    sizes = [0, 999, 1_000, 1_500_000, 10**12, 10**16]
    assert [size_text(size) for size in sizes] == [
        *("0 B", "999 B", "1.0 KB", "1.5 MB", "1.0 TB", "10000.0 TB")
    ]


# --- copy


def test_a_copy_is_read_as_the_bucket_is(cli: CommandLine, whole: Archived, tmp_path: Path) -> None:
    there = tmp_path / "copied"
    answer = cli.run("archive", "copy", str(there), *HERE, "--json")
    keys = {path.relative_to(there).as_posix() for path in there.rglob("*") if path.is_file()}
    wanted = {key for key in whole.bucket.list("archive/") if "/progress/" not in key}
    assert (answer.status, keys) == (0, wanted)
    assert answer.json == [
        {
            "archives": 1,
            "files": len(keys),
            "bytes": sum(len(whole.bucket.get(key)) for key in keys),
        }
    ]
    [listed] = cli.run("archive", "list", "--json", "--dir", str(there)).json
    assert (listed["window"], listed["state"], listed["events"]) == (WINDOW, "proven", 9)
    verified = cli.run("archive", "verify", "--dir", str(there))
    assert verified.status == 0


def test_a_copy_goes_on_where_it_was_interrupted(
    cli: CommandLine, whole: Archived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streamed, stream = list[str](), whole.bucket.stream

    def breaking(key: str) -> Iterator[bytes]:
        streamed.append(key)
        body = b"".join(stream(key))
        yield body[:1]
        if len(streamed) == 2:
            raise KeyboardInterrupt
        yield body[1:]

    monkeypatch.setattr(whole.bucket, "stream", breaking)
    assert cli.run("archive", "copy", str(tmp_path), *HERE).status == 130
    assert cli.run("archive", "copy", str(tmp_path), *HERE).status == 0
    assert streamed.count(streamed[0]) == 1
    assert streamed.count(streamed[1]) == 2
    assert cli.run("archive", "verify", "--dir", str(tmp_path)).status == 0
    assert not list(tmp_path.rglob("*.part"))


def test_nothing_to_copy_is_told(cli: CommandLine, tmp_path: Path) -> None:
    answer = cli.run("archive", "copy", str(tmp_path), "--since", "2030-01-01T00:00Z", *HERE)
    assert (answer.status, answer.out) == (0, "")
    assert answer.err == "tallyroll: no archives of 'tallyroll' in 'memory'\n"
