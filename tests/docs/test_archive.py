"""docs/archive.md: its DuckDB query runs on an archive by the real exporter, and its words hold."""

from __future__ import annotations

import gzip
import re
import runpy
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.corrections import copy_corrections
from tallyroll.archive.layout import prefix_of
from tallyroll.archive.parquet.compaction import Compaction
from tallyroll.archive.recount import ArchivePass
from tallyroll.lifecycle.compactor import Compactor
from tallyroll.lifecycle.later_corrections import LaterCorrections
from tallyroll.lifecycle.runner import Rolled
from tallyroll.model.amounts import MICROS
from tallyroll.model.states import Status
from tests.cli.command_line import CommandLine
from tests.docs.aws_commands import parsed
from tests.harness.archives import Archived, put_file, put_manifests
from tests.harness.pipeline import MINUTE, NOW, WINDOW, hour
from tests.harness.retracted_archives import correction_of, retracted_archive

PAGE = (Path(__file__).parents[2] / "docs" / "archive.md").read_text(encoding="utf-8")


HIVE = {"VARCHAR": "string", "INTEGER": "int", "BLOB": "binary"}
INSIDE = ("h", "m", "s", "g")  # no query needs them
OF_JSON = (  # Athena reads names in any case, and so does DuckDB once it knows them
    "read_json('{}*.json.gz', format = 'newline_delimited', hive_partitioning = false, columns ="
    " {{Item: 'STRUCT(pk STRUCT(S VARCHAR), sk STRUCT(S VARCHAR), n STRUCT(N VARCHAR),"
    " v STRUCT(N VARCHAR))'}})"
)
OF_PARQUET = "read_parquet('{}*.parquet', hive_partitioning = false)"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archived:
    """A proven archive in this directory, with retractions, and beside it attempts that prove
    nothing.
    """
    whole = retracted_archive(attempt="20261120T083000Z-a1")
    whole.pipeline.totals.correct([correction_of(whole, "e#e0")])
    copy_corrections(whole.window, whole.pipeline.totals, whole.bucket)
    compacted(whole)
    copy = DirectoryBucket(tmp_path)
    for key in whole.bucket.list("archive/"):
        copy.put(key, whole.bucket.get(key))
    for window, attempt in ((WINDOW, "20261120T082000Z-a0"), (hour(9), "20261120T084000Z-a2")):
        prefix = prefix_of("tallyroll", window, attempt)
        file = put_file(copy, prefix, "000-0000", whole.items())
        put_manifests(copy, prefix, whole.window.table, [file], NOW)
    monkeypatch.chdir(tmp_path)
    return whole


def compacted(whole: Archived) -> None:
    """Make its Parquet, and beside it other Parquet of another attempt, which is not proven."""
    work = Compaction(whole.bucket, CODEC, whole.pipeline.effects, lambda of, *_: iter(of))
    made = work.compact(whole.archive())
    for key in list(whole.bucket.list(f"{made.prefix}/")):
        if not key.endswith("/proof.json"):
            other = key.replace(made.prefix, f"{whole.prefix}.parquet.000000000000")
            whole.bucket.put(other, whole.bucket.get(key))


def test_the_spark_script_recounts_what_was_proven(kept: Archived, tmp_path: Path) -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "spark" / "recount.py"))
    proofs = [f"{path}" for path in tmp_path.glob(f"archive/tallyroll/{script['PROOFS']}")]
    found: dict[str, tuple[int, Decimal]] = {}
    for pattern in script["data_of"](proofs).split(","):
        for path in Path("/").glob(pattern.lstrip("/")):
            assert script["pairs_of"](path.read_bytes() + b"\0\0") == script["pairs_of"](
                path.read_bytes()
            )
            for key, sums in script["pairs_of"](path.read_bytes()):
                found[key] = script["added"](found[key], sums) if key in found else sums
    assert {key: n for key, (n, _) in found.items()} == {"k0": 4, "large": 4, "k1": 1, "k2": 0}
    reading = ArchivePass(kept.bucket, kept.prefix, CODEC)
    assert len(list(reading)) == reading.counted.items
    tallies = reading.counted.tallies
    assert found == {key: (n, Decimal(amount) / MICROS) for key, (n, amount) in tallies.items()}


def test_the_spark_script_refuses_half_a_file() -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "spark" / "recount.py"))
    with pytest.raises(ValueError, match="ends within a gzip member"):
        script["lines_of"](gzip.compress(b"{}\n" * 50)[:-9])
    assert script["counted"]('{"Item": {"pk": {"S": "k.1"}, "sk": {"S": "t#k.1"}}}') is None


def test_duckdb_recounts_what_was_proven(kept: Archived) -> None:
    recount = shown("recount")
    truth = tallies(kept)
    assert {key: (n, total) for key, n, total in recount} == truth
    assert [row[:2] for row in recount] == [("k0", 4), ("large", 4), ("k1", 1), ("k2", 0)]


def shown(name: str) -> list[tuple[Any, ...]]:
    """What the page's block of Python gives that assigns this name."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    [block] = [each for each in blocks if f"\n{name} = " in each]
    names: dict[str, duckdb.DuckDBPyRelation] = {}
    exec(block, names)
    return names[name].fetchall()


def tallies(kept: Archived) -> dict[str, tuple[int, Decimal]]:
    reading = ArchivePass(kept.bucket, kept.prefix, CODEC)
    assert len(list(reading)) == reading.counted.items
    found = reading.counted.tallies.items()
    return {key: (n, Decimal(amount) / MICROS) for key, (n, amount) in found}


def test_duckdb_reads_the_proven_parquet_by_its_partitions(kept: Archived) -> None:
    by_day = shown("by_day")
    assert {day for _, day, _, _ in by_day} == {date(2026, 11, 20)}
    truth = {key: sums for key, sums in tallies(kept).items() if sums[0]}
    assert {key: (n, total) for key, _, n, total in by_day} == truth


def test_duckdb_leaves_out_the_copies_of_corrections(kept: Archived) -> None:
    truth = {key: sums for key, sums in tallies(kept).items() if sums[0]}
    taken = correction_of(kept, "e#e0")
    for key in taken.keys:
        n, total = truth[key]
        truth[key] = (n - taken.n, total - Decimal(taken.amount) / MICROS)
    assert {key: (n, total) for key, n, total in shown("counted")} == truth


def test_athenas_columns_are_those_of_the_files(kept: Archived, tmp_path: Path) -> None:
    """By name, type and order; the names of partitions are no columns of the files."""
    [columns] = re.findall(r"TABLE votes_events \(\n(.*?)\n\)", PAGE, re.DOTALL)
    named = [each.strip().partition(" ") for each in re.split(r",(?! 6)", columns)]
    wanted = [(name.strip("`"), kind.replace(" ", "")) for name, _, kind in named]
    [file] = tmp_path.glob("archive/*/*/*/*/*.parquet.[!0]*/events/*.parquet")
    described = f"DESCRIBE FROM read_parquet('{file}', hive_partitioning = false)"
    rows = duckdb.execute(described).fetchall()
    found = [(name, HIVE.get(kind, kind.lower())) for name, kind, *_ in rows]
    assert wanted == found
    partitioned = set(re.findall(r"PARTITIONED BY \((.*?)\)", PAGE))
    assert partitioned == {"day string, hour int, window_id string"}
    assert not {"day", "hour", "window_id"} & {name for name, _ in found}


@pytest.mark.parametrize(
    ("table", "option", "reader", "shown"),
    [
        ("votes", (), OF_JSON, lambda _: True),
        ("votes_events", ("--parquet",), OF_PARQUET, lambda sums: sums[0]),
    ],
)
def test_athenas_queries_give_the_sums(
    kept: Archived,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    table: str,
    option: tuple[str, ...],
    reader: str,
    shown: Callable[[tuple[int, Decimal]], object],
) -> None:
    """In DuckDB, over the partitions that the command prints: `regexp_like` has another name."""
    cli = CommandLine(kept.pipeline, monkeypatch, capsys)
    added = cli.run("archive", "list", "--athena", table, *option, "--bucket", "memory").out
    partitions = re.findall(r"PARTITION \((.*?)\) LOCATION 's3://memory/(.*)'", added)
    assert partitions
    connection = duckdb.connect()
    connection.execute("CREATE MACRO regexp_like(text, sought) AS regexp_matches(text, sought)")
    selected = [
        re.sub("([a-z_]+)=([^,]+)", r"\2 AS \1", f"SELECT *, {names} ")
        + f" FROM {reader.format(place)}"
        for names, place in partitions
    ]
    connection.execute(f"CREATE VIEW {table} AS {' UNION ALL '.join(selected)}")
    [query] = re.findall(rf"```sql\n(SELECT [^`]*?FROM {table}\n.*?)```", PAGE, re.DOTALL)
    found = {key: (n, total) for key, n, total in connection.execute(query).fetchall()}
    assert found == {key: sums for key, sums in tallies(kept).items() if shown(sums)}


def test_a_ticket_lets_the_other_archive_go(kept: Archived) -> None:
    """The one that the page puts by the AWS CLI, for Parquet that was made by hand."""
    [line] = [line for line in PAGE.splitlines() if line.startswith("aws s3api put-object ")]
    _, method, given = parsed(line.split()[1:])
    assert method == "put_object"
    settings = replace(kept.pipeline.settings, archive="parquet")
    ports = kept.bucket, CODEC, kept.pipeline.effects
    times = {**kept.window.times, Status.DROPPED: kept.pipeline.effects.now()}
    kept.pipeline.catalog.advance(replace(kept.window, status=Status.DROPPED, times=times))
    compactor = Compactor(settings, kept.pipeline.catalog, *ports)
    assert compactor.run(MINUTE * 15).steps == {}
    kept.bucket.put(given["Key"].replace("NAME", settings.name), b"")
    assert compactor.run(MINUTE * 15).steps == {"compact": 1}
    assert not [*kept.bucket.list("compacting/")]
    assert f"{kept.prefix}/proof.json" in kept.bucket.passing
    assert all(key.startswith(f"{kept.prefix}/") for key in kept.bucket.passing)
    [alone] = [key for key in kept.bucket.list("archive/") if key.endswith("/alone.json")]
    assert alone.startswith(f"{kept.prefix}.parquet.")


def test_the_layout_is_as_it_is_written(kept: Archived) -> None:
    layout = re.search(r"## The layout\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert layout
    folders: list[str] = []
    patterns = []
    for line in layout[1].splitlines():
        depth = (len(line) - len(line.lstrip())) // 4
        name = line.split()[0] if "{export" not in line else line.strip()
        folders[depth:] = [name]
        if not name.endswith("/"):
            patterns.append(re.sub(r"\\{.*?\\}|\\\*", "[^/]+", re.escape("".join(folders))))
    made = kept.pipeline
    ports = made.catalog, made.totals, kept.bucket, made.effects
    LaterCorrections(made.settings, *ports).copy(made.effects.now() + 1, Rolled())
    keys = [key for key in kept.bucket.list("archive/") if ".parquet." not in key]
    assert all(any(re.fullmatch(pattern, key) for pattern in patterns) for key in keys)
    usual = [each for each in patterns if "/index/" not in each]  # that of large archives alone
    assert len(usual) == len(patterns) - 1
    assert all(any(re.fullmatch(pattern, key) for key in keys) for pattern in usual)


def test_athena_columns_are_those_of_the_partitions(kept: Archived) -> None:
    [struct] = re.findall(r"item struct<(.*)>\n\)", PAGE, re.DOTALL)
    named = dict(re.findall(r"(\w+): struct<(\w+): string>", struct))
    found = {
        name: kind
        for item in kept.items()
        if item["sk"]["S"].startswith("e#")
        for name, value in item.items()
        for kind in value
    }
    assert named == {name: kind.lower() for name, kind in found.items() if name not in INSIDE}
