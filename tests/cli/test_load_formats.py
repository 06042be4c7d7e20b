"""What other systems write, loaded: DynamoDB's exports, files of DMS, Parquet, Zstandard."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from base64 import b64encode
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tallyroll.model.formats.zstandard_frames import MODULE
from tests.cli.command_line import CommandLine, lines
from tests.harness.pipeline import NOW

pytestmark = pytest.mark.usefixtures("here")

zstd: Any = import_module(MODULE)


def bodies(cli: CommandLine) -> list[dict[str, Any]]:
    return [json.loads(body) for body in cli.producer.bodies]


def bad_lines(folder: Path) -> list[tuple[int, str]]:
    (path,) = folder.glob("*.bad.jsonl")
    told = [json.loads(line) for line in path.read_text().splitlines()]
    return [(each["line"], each["reason"]) for each in told]


def item(key: str, event: str, **more: Any) -> dict[str, Any]:
    return {"pk": {"S": key}, "sk": {"S": event}, "at": {"N": str(NOW)}, **more}


def export(folder: Path, *files: list[dict[str, Any]], **summary: str) -> Path:
    """A DynamoDB export as it lies in S3, in a directory."""
    root = folder / "AWSDynamoDB" / "01700000000000-abc"
    (root / "data").mkdir(parents=True)
    manifest = []
    for number, rows in enumerate(files):
        content = gzip.compress(lines(*rows))
        (root / "data" / f"f{number}.json.gz").write_bytes(content)
        manifest.append(
            {
                "itemCount": len(rows),
                "md5Checksum": b64encode(hashlib.md5(content).digest()).decode(),
                "etag": "x",
                "dataFileS3Key": f"AWSDynamoDB/01700000000000-abc/data/f{number}.json.gz",
            }
        )
    (root / "manifest-files.json").write_bytes(lines(*manifest))
    told = {"version": "2020-06-30", "outputFormat": "DYNAMODB_JSON", **summary}
    (root / "manifest-summary.json").write_text(json.dumps(told))
    (root / "_started").touch()
    return root


COLUMNS = ("--key", "pk", "--id", "sk", "--ts", "at")


@pytest.mark.parametrize("given", [".", "AWSDynamoDB/01700000000000-abc", "manifest-summary.json"])
def test_a_full_export(cli: CommandLine, here: Path, given: str) -> None:
    more = {
        "v": {"N": "2.5"},
        "note": {"S": "n"},
        "tags": {"SS": ["a", "b"]},
        "deep": {"M": {"list": {"L": [{"N": "1"}, {"BOOL": True}, {"NULL": True}]}}},
        "raw": {"B": "AAE="},
        "numbers": {"NS": ["1", "2.5"]},
    }
    root = export(
        here,
        [{"Item": item("k", "e1", **more)}, {"Item": item("k", "e2")}],
        [{"Item": item("l", "e3", v={"N": "1E+2"})}, {"Item": item("l", "e4", v={"X": "?"})}],
    )
    if given == "manifest-summary.json":
        given = str(root / given)
    kept = "note,tags,deep,raw,numbers"
    answer = cli.run("load", given, *COLUMNS, "--value", "v", "--payload", kept)
    assert answer.status == 1
    sent = {body["id"]: body for body in bodies(cli)}
    assert sorted((each["key"], each["ts"], each["value"]) for each in sent.values()) == [
        *(("k", NOW, 1), ("k", NOW, 2.5), ("l", NOW, 100))
    ]
    assert sent["e1"]["payload"] == {
        "note": "n",
        "tags": ["a", "b"],
        "deep": {"list": [1, True, None]},
        "raw": "AAE=",
        "numbers": [1, 2.5],
    }
    assert bad_lines(here) == [(2, "bad-item")]
    assert answer.row("sources", "loaded", "2")


def test_an_incremental_export(cli: CommandLine, here: Path) -> None:
    keys = {"pk": {"S": "k"}}
    export(
        here,
        [
            {"Metadata": {}, "Keys": keys, "NewImage": item("k", "e1")},
            {"Metadata": {}, "Keys": keys, "NewImage": item("k", "e2"), "OldImage": item("k", "e")},
            {"Metadata": {}, "Keys": keys, "OldImage": item("k", "e3")},
        ],
        exportType="INCREMENTAL_EXPORT",
        outputView="NEW_AND_OLD_IMAGES",
    )
    answer = cli.run("load", "AWSDynamoDB", *COLUMNS)
    assert answer.status == 1
    assert [body["id"] for body in bodies(cli)] == ["e1"]
    assert bad_lines(here) == [(2, "update"), (3, "delete")]
    assert "--changes skip leaves updated rows out" in answer.err
    skipped = cli.run("--json", "load", "AWSDynamoDB", *COLUMNS, "--changes", "skip")
    assert skipped.status == 0
    assert skipped.json[0]["skipped"] == {"update": 1, "delete": 1}
    assert list(here.glob("*.bad.jsonl")) == []


def test_an_export_that_is_not_whole_is_refused(cli: CommandLine, here: Path) -> None:
    root = export(here, [{"Item": item("k", "e1")}], [{"Item": item("k", "e2")}])
    (root / "data" / "f1.json.gz").write_bytes(gzip.compress(lines({"Item": item("k", "e9")})))
    answer = cli.run("load", "AWSDynamoDB", *COLUMNS)
    assert answer.status == 2
    assert "f1.json.gz is not what its manifest says" in answer.err
    (root / "data" / "f1.json.gz").unlink()
    answer = cli.run("load", "AWSDynamoDB", *COLUMNS)
    assert answer.status == 2
    assert "data/f1.json.gz is missing: copy the whole export" in answer.err
    (root / "manifest-files.json").unlink()
    assert "the export is not complete" in cli.run("load", "AWSDynamoDB", *COLUMNS).err


def test_an_export_in_another_format_is_refused(cli: CommandLine, here: Path) -> None:
    root = export(here, [{"Item": item("k", "e1")}], outputFormat="ION")
    answer = cli.run("load", str(root), *COLUMNS)
    assert answer.status == 2
    assert "is in ION: export it as DYNAMODB_JSON" in answer.err
    (root / "manifest-summary.json").write_text("[]")
    assert "no manifest of a DynamoDB export" in cli.run("load", str(root), *COLUMNS).err


def test_lines_of_an_export_without_its_manifest(cli: CommandLine, here: Path) -> None:
    rows = [{"Item": item("k", "e1")}, "[]", "?", {"id": 1}]
    (here / "f.json.gz").write_bytes(gzip.compress(lines(*rows)))  # type: ignore[arg-type]
    answer = cli.run("load", "f.json.gz", "--format", "dynamodb", *COLUMNS)
    assert answer.status == 1
    assert [body["id"] for body in bodies(cli)] == ["e1"]
    assert bad_lines(here) == [(2, "not-an-object"), (3, "not-json"), (4, "bad-item")]


DMS = ("--key", "video", "--id", "id", "--ts", "at")


def test_files_of_dms_with_a_header(cli: CommandLine, here: Path) -> None:
    folder = here / "votes"
    folder.mkdir()
    (folder / "LOAD00000001.csv").write_text("id,video,at\n1,k,2026-11-20 08:30:00.000000\n")
    (folder / "20261120-083000123.csv").write_text(
        "Op,id,video,at\nI,2,k,2026-11-20 08:30:00.5\nU,1,k,2026-11-20 08:30:01\nD,1,,\nX,3,k,\n"
    )
    answer = cli.run("load", "votes", *DMS)
    assert answer.status == 1
    assert sorted((body["id"], body["ts"]) for body in bodies(cli)) == [
        *(("1", NOW), ("2", NOW + 500))
    ]
    assert bad_lines(here) == [(3, "update"), (4, "delete"), (5, "bad-op")]


def test_files_of_dms_without_a_header(cli: CommandLine, here: Path) -> None:
    folder = here / "votes"
    folder.mkdir()
    (folder / "LOAD00000001.csv").write_text(f"1,k,{NOW}\n")  # a full load has no Op
    (folder / "20261120-083000123.csv").write_text(f"I,2,k,{NOW}\nU,1,k,{NOW}\nD,1,k,{NOW}\n")
    options = ("--columns", "Op,id,video,at", *DMS, "--changes", "skip")
    answer = cli.run("--json", "load", "votes", *options)
    assert answer.status == 0, answer.err
    assert sorted(body["id"] for body in bodies(cli)) == ["1", "2"]
    assert answer.json[0]["skipped"] == {"update": 1, "delete": 1}
    assert cli.run("load", "votes", *options).status == 0


def test_parquet(cli: CommandLine, here: Path) -> None:
    duckdb.sql(
        f"""COPY (SELECT CASE i % 2 WHEN 0 THEN 'I' ELSE 'D' END AS "Op", 'k' AS "the""key",
              i AS n, epoch_ms({NOW} + i)::TIMESTAMP AS at, (i + 0.5)::DECIMAL(9, 2) AS v,
              {{'a': [i], 'b': 'x'::BLOB, 'd': DATE '2026-11-20'}} AS kept, NULL AS nothing
            FROM range(5000) t(i)) TO 'e.parquet'"""
    )
    options = ("--key", 'the"key', "--ts", "at", "--value", "v", "--id", "n")
    answer = cli.run(
        *("--json", "load", "e.parquet", *options, "--payload", "kept,nothing"),
        *("--changes", "skip"),
    )
    assert answer.status == 0, answer.err
    assert answer.json[0]["skipped"] == {"delete": 2500}
    sent = {body["id"]: body for body in bodies(cli)}
    assert len(sent) == 2500
    assert (sent["4"]["ts"], sent["4"]["value"]) == (NOW + 4, 4.5)
    assert sent["4"]["payload"] == {"kept": {"a": [4], "b": "eA==", "d": "2026-11-20"}}


def test_parquet_with_zones_without_ids_counts_once(cli: CommandLine, here: Path) -> None:
    duckdb.sql(
        f"""COPY (SELECT i AS key, make_timestamptz({NOW * 1000}) AS ts FROM range(3) t(i))
            TO 'e' (FORMAT PARQUET)"""
    )
    for _ in range(2):
        answer = cli.run("load", "e", "--no-pack")
        assert (answer.status, answer.err) == (0, "")
    assert {body["ts"] for body in bodies(cli)} == {NOW}
    assert sorted(body["key"] for body in bodies(cli)) == ["0", "0", "1", "1", "2", "2"]
    assert len({body["id"] for body in bodies(cli)}) == 3
    (here / "torn.parquet").write_bytes((here / "e").read_bytes()[:-9])
    answer = cli.run("load", "torn.parquet")
    assert answer.status == 1
    assert "the input is broken: torn.parquet" in answer.err


def test_the_name_of_parquet_is_no_pattern_and_its_directory_no_column(
    cli: CommandLine, here: Path
) -> None:
    (here / "key=7").mkdir()
    for number, name in enumerate(["[p]?*.parquet", "[p]xy.parquet", "px*.parquet"]):
        duckdb.sql(f"COPY (SELECT 'k{number}' AS key, {NOW} AS ts) TO 'e' (FORMAT PARQUET)")
        (here / "e").rename(here / "key=7" / name)
    assert cli.run("load", "key=7/[p]?*.parquet", "--no-pack").status == 0
    assert [body["key"] for body in bodies(cli)] == ["k0"]


def test_parquet_with_times_that_python_does_not_have(cli: CommandLine, here: Path) -> None:
    duckdb.sql(
        f"""COPY (SELECT 'k' AS key, unnest([make_timestamptz({NOW * 1000}),
              '290000-01-01'::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ]) AS ts,
              {{'at': [make_timestamptz({NOW * 1000})]}} AS kept) TO 'e.parquet'"""
    )
    assert cli.run("load", "e.parquet", "--no-pack", "--payload", "kept").status == 1
    (sent,) = bodies(cli)
    assert sent["ts"] == NOW
    assert sent["payload"] == {"kept": {"at": ["2026-11-20 08:30:00+00"]}}
    assert [number for number, _ in bad_lines(here)] == [2, 3]


def test_rows_of_parquet_are_sent_before_they_take_much_memory(
    cli: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.client.loading.CHUNK_BYTES", 1_000)
    duckdb.sql(
        f"""COPY (SELECT 'k' AS key, 'e' || i AS id, {NOW} AS ts, repeat('x', 100) AS user
            FROM range(50) t(i)) TO 'e.parquet'"""
    )
    cli.producer.refuses = lambda body: "busy" if '"e45"' in body else None
    assert cli.run("load", "e.parquet", "--payload", "user").status == 1
    saved = json.loads(next(here.glob("*.checkpoint.json")).read_text())
    assert 30 < saved["sources"]["e.parquet"]["to"] <= 45


def test_parquet_without_duckdb(
    cli: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb.sql("COPY (SELECT 1 AS key) TO 'e.parquet'")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    answer = cli.run("load", "e.parquet")
    assert answer.status == 2
    assert "Parquet needs DuckDB: pip install 'tallyroll[load]'" in answer.err


@pytest.mark.parametrize("command", ["load", "send"])
def test_zstandard_is_recognized(cli: CommandLine, here: Path, command: str) -> None:
    content = zstd.compress(lines({"key": "k", "ts": NOW})) * 2
    (here / "e.jsonl.zst").write_bytes(content)
    assert cli.run(command, "e.jsonl.zst").status == 0
    assert cli.run(command, "-", stdin=content).status == 0
    cli.drain()
    counted = cli.run("--json", "count", "k").json[0]["events"]
    assert counted == (2 if command == "load" else 4)
    (here / "torn.jsonl.zst").write_bytes(content[:-3])
    answer = cli.run(command, "torn.jsonl.zst")
    assert answer.status == 1
    assert "truncated in frame 2" in answer.err
