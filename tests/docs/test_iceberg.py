"""examples/iceberg registers what is proven, once, in PyIceberg's own catalog."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.parquet.compaction import Compaction
from tests.harness.pipeline import WINDOW
from tests.harness.retracted_archives import retracted_archive

pytestmark = pytest.mark.proof
NAME = "lake.votes_events"
OTHER = "0" * 12


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """A copy of a bucket, with a proven archive as Parquet, and one that is not proven."""
    whole = retracted_archive()
    work = Compaction(whole.bucket, CODEC, whole.pipeline.effects, lambda of, *_: iter(of))
    prefix = work.compact(whole.archive()).prefix
    copy = DirectoryBucket(tmp_path / "bucket")
    for key in whole.bucket.list(f"{prefix}/"):
        copy.put(key, whole.bucket.get(key))
        if not key.endswith("/proof.json"):
            copy.put(key.replace(prefix, f"{whole.prefix}.parquet.{OTHER}"), whole.bucket.get(key))
    return tmp_path / "bucket" / "archive" / "tallyroll"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 (it takes a second to import)

    (tmp_path / "lake").mkdir()
    made = SqlCatalog(
        "default", uri=f"sqlite:///{tmp_path}/db", warehouse=f"file://{tmp_path}/lake"
    )
    yield made
    made.close()


@pytest.fixture
def register() -> Any:
    script = Path(__file__).parents[2] / "examples" / "iceberg" / "register.py"
    return runpy.run_path(str(script))["register"]


def test_what_is_proven_is_added_once(archives: Path, catalog: Any, register: Any) -> None:
    root = f"file://{archives}"
    assert [register(catalog, root, NAME) for _ in range(2)] == [1, 0]
    table = catalog.load_table(NAME)
    rows = table.scan().to_arrow()
    [file] = [each for each in archives.glob("*/*/*/*/events/*.parquet") if OTHER not in str(each)]
    by_duckdb = duckdb.read_parquet(str(file), hive_partitioning=False)
    assert rows.column_names == by_duckdb.columns
    assert [tuple(row.values()) for row in rows.to_pylist()] == by_duckdb.fetchall()
    of_key = table.scan("key = 'k0' AND retracted = false", selected_fields=("value",)).to_arrow()
    sums = by_duckdb.filter("key = 'k0' AND NOT retracted").aggregate("sum(value)")
    assert [(sum(of_key["value"].to_pylist()),)] == sums.fetchall()
    [added] = table.inspect.files().to_pylist()
    assert added["partition"] == {"day": WINDOW[:8]}
    assert not list(table.scan("window >= '20261121'").plan_files())


def test_a_window_is_added_once_whichever_archive_of_it_is_proven(
    archives: Path, catalog: Any, register: Any
) -> None:
    root = f"file://{archives}"
    [proof] = archives.rglob("proof.json")
    for other in archives.glob(f"*/*/*/*{OTHER}"):
        (other / "proof.json").write_bytes(proof.read_bytes())
    assert [register(catalog, root, NAME) for _ in range(2)] == [1, 0]
    for later in archives.glob(f"*/*/*/*{OTHER}"):
        later.rename(later.with_name(later.name.replace(OTHER, "f" * 12)))
    assert register(catalog, root, NAME) == 0
    assert catalog.load_table(NAME).inspect.files().num_rows == 1
