"""Objects of S3, loaded: moto holds them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from moto import mock_aws

from tallyroll.adapters.aws import client as aws
from tallyroll.errors import Unknown
from tests.cli.command_line import CommandLine, lines
from tests.cli.test_load_formats import COLUMNS, export, item
from tests.harness.pipeline import NOW

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def s3() -> Iterator[Any]:
    """A client, and a bucket `history`."""
    aws._session.cache_clear()
    with mock_aws():
        client = aws.make_client("s3")
        client.create_bucket(Bucket="history")
        yield client
    aws._session.cache_clear()


def put(s3: Any, key: str, content: bytes) -> None:
    s3.put_object(Bucket="history", Key=key, Body=content)


def events(cli: CommandLine) -> int:
    cli.drain()
    return sum(count["events"] for count in cli.run("--json", "count", "k", "l").json)


def test_an_object(cli: CommandLine, s3: Any, here: Path) -> None:
    content = gzip.compress(lines({"key": "k", "ts": NOW}, "bad"))
    put(s3, "day/1.jsonl.gz", content)
    put(s3, "day/1.jsonl.gz.old", content)
    answer = cli.run("load", "s3://history/day/1.jsonl.gz")
    assert answer.status == 1
    assert "s3://history/day/1.jsonl.gz, line 2: not-json" in answer.err
    (here / "copy.jsonl.gz").write_bytes(content)
    assert cli.run("load", "copy.jsonl.gz").status == 1
    assert events(cli) == 1  # the content is the same


@pytest.mark.parametrize("prefix", ["plays/", "plays", "plays/2026"])
def test_a_prefix(cli: CommandLine, s3: Any, here: Path, prefix: str) -> None:
    put(s3, "plays/", b"")
    put(s3, "plays/2026/a.csv", f"key,ts\nk,{NOW}\nk,{NOW}\n".encode())
    duckdb.sql(f"COPY (SELECT 'l' AS key, {NOW}::BIGINT AS ts) TO 'b.parquet'")
    put(s3, "plays/2026/b.parquet", (here / "b.parquet").read_bytes())
    put(s3, "plays/2026/notes.txt", b"none")
    put(s3, "other/c.csv", f"key,ts\nk,{NOW}\n".encode())
    answer = cli.run("load", f"s3://history/{prefix}")
    assert answer.status == 0, answer.err
    assert "left out, of no known format: plays/2026/notes.txt" in answer.err
    assert answer.row("sources", "loaded", "2")
    assert events(cli) == 3


def test_an_export_in_s3(cli: CommandLine, s3: Any, here: Path) -> None:
    root = export(here / "x", [{"Item": item("k", "e1")}], [{"Item": item("l", "e2")}])
    for path in root.rglob("*"):
        if path.is_file():
            put(s3, path.relative_to(here / "x").as_posix(), path.read_bytes())
    folder = "AWSDynamoDB/01700000000000-abc"
    for given in ("", folder, f"{folder}/manifest-summary.json"):
        answer = cli.run("load", f"s3://history/{given}", *COLUMNS)
        assert (answer.status, answer.err) == (0, ""), given
        assert answer.row("sources", "loaded", "2")
    assert events(cli) == 2
    put(s3, f"{folder}/data/f1.json.gz", b"other")
    answer = cli.run("load", f"s3://history/{folder}", *COLUMNS)
    assert answer.status == 2
    assert "f1.json.gz is not what its manifest says" in answer.err


def test_what_is_loaded_is_not_copied_again_and_a_new_object_is_refused(
    cli: CommandLine, s3: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        rows = ({"key": "k", "ts": NOW, "id": f"e{number}-{n}"} for n in range(5))
        put(s3, f"p/{number}.jsonl", lines(*rows))
    cli.producer.refuses = lambda body: "busy" if '"e1-' in body else None
    answer = cli.run("load", "s3://history/p/")
    assert answer.status == 1
    asked: list[str] = []
    real = aws.Caller.read

    def read(caller: Any, operation: str, **arguments: Any) -> Any:
        if operation == "GetObject":
            asked.append(arguments["Key"])
        return real(caller, operation, **arguments)

    monkeypatch.setattr(aws.Caller, "read", read)
    cli.producer.refuses = lambda body: None
    put(s3, "p/2.jsonl", lines({"key": "k", "ts": NOW, "id": "e9"}))
    answer = cli.run("load", "s3://history/p/")
    assert answer.status == 0  # the checkpoint had not come to it
    assert asked == ["p/1.jsonl", "p/2.jsonl"]
    assert events(cli) == 11


def test_an_object_that_changed_is_refused(cli: CommandLine, s3: Any, here: Path) -> None:
    for number in range(2):
        put(s3, f"p/{number}.jsonl", lines({"key": "k", "ts": NOW, "id": f"e{number}"}))
    cli.producer.refuses = lambda body: "busy" if '"e1"' in body else None
    assert cli.run("load", "s3://history/p/").status == 1
    put(s3, "p/0.jsonl", lines({"key": "k", "ts": NOW, "id": "e7"}))
    answer = cli.run("load", "s3://history/p/")
    assert answer.status == 2
    assert "s3://history/p/0.jsonl changed since it was loaded" in answer.err


def test_an_object_that_cannot_be_read_ends_the_load_and_it_goes_on(
    cli: CommandLine, s3: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        put(s3, f"p/{number}.jsonl", lines({"key": "k", "ts": NOW, "id": f"e{number}"}))
    real = aws.Caller.read

    def read(caller: Any, operation: str, **arguments: Any) -> Any:
        if operation == "GetObject" and arguments["Key"] == "p/1.jsonl":
            raise Unknown("GetObject: no answer")
        return real(caller, operation, **arguments)

    with monkeypatch.context() as held:
        held.setattr(aws.Caller, "read", read)
        answer = cli.run("load", "s3://history/p/")
    assert answer.status == 3
    assert "the same command goes on at the checkpoint" in answer.err
    answer = cli.run("--json", "load", "s3://history/p/")
    assert (answer.status, answer.json[0]["events"], answer.json[0]["events_before"]) == (0, 1, 1)
    assert events(cli) == 2


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ("s3://history/none", 2, "no file to load there"),
        ("s3://nowhere/key", 3, "NoSuchBucket"),
        ("s3://history", 2, "no file to load there"),
    ],
)
def test_what_is_not_there(cli: CommandLine, s3: Any, given: str, status: int, said: str) -> None:
    answer = cli.run("load", given)
    assert answer.status == status
    assert said in answer.err


def test_the_checkpoint_has_the_objects_stamp(cli: CommandLine, s3: Any, here: Path) -> None:
    put(s3, "a.jsonl", lines({"key": "k", "ts": NOW, "id": "e"}))
    cli.producer.refuses = lambda body: "busy"
    cli.run("load", "s3://history/a.jsonl", "s3://history/a.jsonl")
    put(s3, "b.jsonl", lines({"key": "k", "ts": NOW, "id": "f"}))
    cli.producer.refuses = lambda body: "busy" if '"e"' in body else None
    cli.run("load", "s3://history/b.jsonl", "s3://history/a.jsonl")
    saved = json.loads(next(here.glob("*.checkpoint.json")).read_text())
    assert saved["sources"]["s3://history/b.jsonl"]["stamp"]
    assert saved["sources"]["s3://history/b.jsonl"]["done"] is True
