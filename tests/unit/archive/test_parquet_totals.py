"""The totals of a window of 50,000 events of all kinds, by other readers of its Parquet."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from benchmarks.columnar_readings import digest_of
from benchmarks.columnar_windows import PREFIX, exported, mixed
from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.adapters.system import SystemEffects
from tallyroll.archive.inventory import find
from tallyroll.archive.parquet.compaction import Compaction

EVENTS, KEYS = 50_000, 500
Sums = dict[str, tuple[int, int]]


@pytest.mark.proof
def test_other_readers_find_each_event_and_the_totals_of_the_records(tmp_path: Path) -> None:
    truth = totals_of_records()
    assert EVENTS - 1_000 < sum(n for n, _ in truth.values()) <= EVENTS  # no half packets
    file = compacted(tmp_path)
    assert totals_by_duckdb(file) == truth
    assert (read := digest_of("duckdb", tmp_path)) == digest_of("pyarrow", tmp_path)
    for change in ("value + 0.000001 AS value", "key || 'x' AS key"):
        damaged = tmp_path / "damaged"
        damage_a_row(file, damaged / "archive" / "events" / "0000.parquet", change)
        assert totals_by_duckdb(damaged / "archive" / "events" / "0000.parquet") != truth
        assert digest_of("pyarrow", damaged) == digest_of("duckdb", damaged) != read


def totals_of_records() -> Sums:
    """Events and millionths of each key, as the records say."""
    sums: Sums = {}
    for record in mixed(EVENTS, KEYS):
        n, amount = sums.get(record.key, (0, 0))
        sums[record.key] = (n + record.n, amount + record.amount)
    return sums


def compacted(folder: Path) -> Path:
    """Archive these records in DynamoDB's layout, and as Parquet; the file of events."""
    bucket = DirectoryBucket(folder)
    exported(bucket, mixed(EVENTS, KEYS))
    [archive] = find(bucket, SystemEffects(), PREFIX)
    ports = (bucket, CODEC, SystemEffects(), lambda reading, *_: iter(reading))
    made = Compaction(*ports).compact(archive)
    assert made.proven
    [file] = folder.glob(f"{made.prefix}/events/*.parquet")
    return file


def totals_by_duckdb(file: Path) -> Sums:
    rows = duckdb.execute(
        "SELECT key, count(*), sum(value) FROM read_parquet(?) GROUP BY key", [str(file)]
    ).fetchall()
    return {key: (n, int(value.scaleb(6))) for key, n, value in rows}


def damage_a_row(file: Path, copy: Path, change: str) -> None:
    """Copy a file of events, with one row in which a column is another."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    source = f"read_parquet('{file}', file_row_number = true)"
    row = f"{EVENTS // 2}"
    duckdb.execute(
        f"COPY (SELECT * EXCLUDE (file_row_number) FROM ("
        f"FROM {source} WHERE file_row_number <> {row} UNION ALL"
        f" SELECT * REPLACE ({change}) FROM {source} WHERE file_row_number = {row}"
        f") ORDER BY file_row_number) TO '{copy}' (FORMAT parquet)"
    )
