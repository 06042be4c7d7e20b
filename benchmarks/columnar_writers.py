"""The writers and readers that `benchmarks.columnar_libraries` compares, one pair a library.

Each library is imported where it is used: only its own process has it. Files are compressed by
ZSTD, sorted by key, time and id, in groups of 8,192 rows.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.columnar_rows import AT_ONCE, COLUMNS, Row

GROUP_ROWS = 8_192
MEMORY = "240MB"
ORDER = ["key", "ts", "id"]
_TYPES = {
    **dict.fromkeys(COLUMNS, "VARCHAR"),
    "ts": "BIGINT",
    "value": "DECIMAL(38, 6)",
    "n": "INTEGER",
    "shard": "INTEGER",
}
Batches = Iterator[list[Row]]
Found = Iterator[list[tuple[Any, ...]]]


def _duckdb_write(batches: Batches, path: Path) -> None:
    duckdb = import_module("duckdb")
    text = path.with_suffix(".csv")
    with text.open("w", newline="", encoding="utf-8") as file:
        for some in batches:
            csv.writer(file).writerows((*row[:8], row[8].hex()) for row in some)
    order = ", ".join(ORDER)
    config = {"threads": 1, "memory_limit": MEMORY, "temp_directory": str(path.parent)}
    connection = duckdb.connect(config=config)
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(
        "COPY (SELECT * REPLACE (unhex(digest) AS digest) FROM read_csv(?, columns = ?,"  # noqa: S608 (its own path)
        f" header = false, auto_detect = false, quote = '\"', buffer_size = 8388608)"
        f" ORDER BY {order})"
        f" TO '{path}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP_ROWS})",
        [str(text), _TYPES],
    )
    text.unlink()


def _duckdb_read(path: Path) -> Found:
    connection = import_module("duckdb").connect(config={"threads": 1, "memory_limit": MEMORY})
    connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
    while some := connection.fetchmany(AT_ONCE):
        yield some


def _pyarrow_write(batches: Batches, path: Path) -> None:
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    arrow.set_cpu_count(1)
    kinds = {"ts": arrow.int64(), "n": arrow.int32(), "shard": arrow.int32()}
    kinds |= {"value": arrow.decimal128(38, 6), "digest": arrow.binary()}
    schema = arrow.schema([(name, kinds.get(name, arrow.string())) for name in COLUMNS])
    parts = [
        arrow.table(
            [
                arrow.array(column, schema.field(at).type)
                for at, column in enumerate(zip(*some, strict=True))
            ],
            schema=schema,
        )
        for some in batches
    ]
    table = arrow.concat_tables(parts).sort_by([(name, "ascending") for name in ORDER])
    parquet.write_table(table, path, compression="zstd", row_group_size=GROUP_ROWS)


def _pyarrow_read(path: Path) -> Found:
    for batch in import_module("pyarrow.parquet").ParquetFile(path).iter_batches(AT_ONCE):
        yield list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _polars_write(batches: Batches, path: Path) -> None:
    polars = import_module("polars")
    kinds = {"ts": polars.Int64, "n": polars.Int32, "shard": polars.Int32}
    kinds |= {"value": polars.Decimal(38, 6), "digest": polars.Binary}
    schema = {name: kinds.get(name, polars.String) for name in COLUMNS}
    parts = [polars.DataFrame(some, schema=schema, orient="row") for some in batches]
    polars.concat(parts).sort(ORDER).write_parquet(
        path, compression="zstd", row_group_size=GROUP_ROWS
    )


def _polars_read(path: Path) -> Found:
    for part in import_module("polars").read_parquet(path).iter_slices(AT_ONCE):
        yield part.rows()


def _fastparquet_write(batches: Batches, path: Path) -> None:
    pandas, fastparquet = import_module("pandas"), import_module("fastparquet")
    parts = [pandas.DataFrame(some, columns=list(COLUMNS)) for some in batches]
    table = pandas.concat(parts).sort_values(ORDER)
    table["value"] = table["value"].astype(float)  # it writes no decimals
    fastparquet.write(str(path), table, compression="ZSTD", row_group_offsets=GROUP_ROWS)


def _fastparquet_read(path: Path) -> Found:
    for part in import_module("fastparquet").ParquetFile(str(path)).iter_row_groups():
        yield list(part[list(COLUMNS)].itertuples(index=False, name=None))


def _arro3_write(batches: Batches, path: Path) -> None:
    core, files = import_module("arro3.core"), import_module("arro3.io")
    kind = core.DataType
    kinds = {"ts": kind.int64(), "n": kind.int32(), "shard": kind.int32()}
    kinds |= {"value": kind.float64(), "digest": kind.binary()}
    fields = [core.Field(name, kinds.get(name, kind.string())) for name in COLUMNS]
    found = sorted(
        ((*row[:4], float(row[4]), *row[5:]) for some in batches for row in some),
        key=lambda row: (row[0], row[2]),
    )
    schema = core.Schema(fields)
    parts = [
        core.RecordBatch.from_arrays(
            [
                core.Array(list(column), fields[at])
                for at, column in enumerate(zip(*found[first : first + AT_ONCE], strict=True))
            ],
            schema=schema,
        )
        for first in range(0, len(found), AT_ONCE)
    ]
    reader = core.RecordBatchReader.from_batches(schema, parts)
    files.write_parquet(reader, path, compression="zstd(3)", max_row_group_size=GROUP_ROWS)


def _arro3_read(path: Path) -> Found:
    for batch in import_module("arro3.io").read_parquet(path):
        yield list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


WRITERS: dict[str, Callable[[Batches, Path], None]] = {
    "duckdb": _duckdb_write,
    "pyarrow": _pyarrow_write,
    "polars": _polars_write,
    "fastparquet": _fastparquet_write,
    "arro3": _arro3_write,
}
READERS: dict[str, Callable[[Path], Found]] = {
    "duckdb": _duckdb_read,
    "pyarrow": _pyarrow_read,
    "polars": _polars_read,
    "fastparquet": _fastparquet_read,
    "arro3": _arro3_read,
}
