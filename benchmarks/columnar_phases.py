"""The steps that `benchmarks.columnar` measures, each in a process of its own."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.columnar_windows import PREFIX, SHAPES, WINDOW
from benchmarks.processes import cpu_seconds, tell_taken
from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.adapters.system import SystemEffects
from tallyroll.archive.inventory import Archive, find
from tallyroll.archive.layout import ArchivedItem
from tallyroll.archive.parquet.compaction import Compaction, convert
from tallyroll.archive.parquet.files import ParquetWriter, connected
from tallyroll.archive.verification import ArchiveReading

HELD = 100_000  # events whose items are in memory at once
TIMES = 3
_JSON = r"""
    SELECT regexp_replace(Item.pk.S, '\.[0-9]+$', '') AS key,
           sum(if(Item.sk.S LIKE 'e#%', 1, -1) * Item.n.N::BIGINT) AS events,
           sum(if(Item.sk.S LIKE 'e#%', Item.v.N::DECIMAL(38, 6),
                                       -Item.v.N::DECIMAL(38, 6))) AS sum
    FROM read_json('{}/archive/**/data/*.json.gz', format = 'newline_delimited', filename = true,
                   columns = {{Item: 'STRUCT(pk STRUCT(S VARCHAR), sk STRUCT(S VARCHAR),
                                            n STRUCT(N VARCHAR), v STRUCT(N VARCHAR))'}}) AS items
    WHERE regexp_matches(Item.sk.S, '^[epr]#')
    GROUP BY ALL
"""


def _proof(folder: Path, _: str, __: int) -> None:
    """Verify the archive in DynamoDB's layout, as its proof does."""
    bucket = DirectoryBucket(folder)
    [archive] = find(bucket, SystemEffects(), PREFIX)
    reading = ArchiveReading(bucket, archive, CODEC)
    began = cpu_seconds()
    findings = reading.verified().findings.first
    tell_taken({"proof": cpu_seconds() - began}, findings)


def _whole(folder: Path, _: str, __: int) -> None:
    """Make and prove the archive as Parquet."""
    bucket = DirectoryBucket(folder)
    [archive] = find(bucket, SystemEffects(), PREFIX)
    began = cpu_seconds()
    made = Compaction(bucket, CODEC, SystemEffects(), _unwatched).compact(archive)
    seconds = cpu_seconds() - began
    size = sum(size for key, size in bucket.sizes(made.prefix) if key.endswith(".parquet"))
    tell_taken({"whole": seconds, "bytes": float(size)}, [])


def _unwatched(reading: ArchiveReading, _: Archive, __: str) -> Iterator[ArchivedItem]:
    return iter(reading)


class _InMemory:
    """What `convert` asks of a reading that found nothing wrong."""

    class findings:  # noqa: N801
        count = 0

    def compared(self) -> Any:
        return self


def _convert(_: Path, shape: str, events: int) -> None:
    """Convert items that are in memory, as they were scanned and read, and write the files."""
    held, rows = [], 0
    for record in islice(SHAPES[shape](min(events, HELD), min(events, HELD) // 100), HELD):
        item = CODEC.item_of(record)
        held.append(ArchivedItem(item, CODEC.parse(item), "", 0))
        rows += record.n
    gc.collect()
    gc.freeze()  # what is held is none of its garbage
    reading: Any = _InMemory()
    with tempfile.TemporaryDirectory() as target:
        writer = ParquetWriter(Path(target), WINDOW)
        began = cpu_seconds()
        convert(reading, iter(held), writer, CODEC)
        converted = cpu_seconds() - began
        writer.finish()
        files = cpu_seconds() - began
        writer.close()
    tell_taken({"rows": float(rows), "convert": converted, "files": files}, [])


def _query(folder: Path, _: str, __: int) -> None:
    """Ask both layouts by DuckDB, and in how many groups of rows a key's rows are."""
    events = f"{folder}/archive/**/events/*.parquet"
    with tempfile.TemporaryDirectory() as own:
        connection, _failed = connected(Path(own))
        count = f"SELECT key, count(*) FROM read_parquet('{events}') GROUP BY key"  # noqa: S608 (own path)
        seconds: dict[str, float] = {}
        for name, query in (("json", _JSON.format(folder)), ("count", count)):
            taken = []
            for _time in range(TIMES):
                began = time.process_time()
                connection.execute(query).fetchall()
                taken.append(time.process_time() - began)
            seconds[name] = min(taken)
        groups = connection.execute(
            "SELECT stats_min_value, stats_max_value FROM parquet_metadata(?)"
            " WHERE path_in_schema = 'key'",
            [events],
        ).fetchall()
        keys = [key for (key,) in connection.execute(f"SELECT key FROM ({count})").fetchall()]  # noqa: S608
    of_keys = (sum(least <= key <= most for least, most in groups) for key in keys[::100])
    seconds |= {"groups": float(len(groups)), "groups of a key": float(max(of_keys))}
    tell_taken(seconds, [])


PHASES: dict[str, Callable[[Path, str, int], None]] = {
    "proof": _proof,
    "whole": _whole,
    "convert": _convert,
    "query": _query,
}
