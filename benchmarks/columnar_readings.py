"""What DuckDB, pyarrow and pandas read of the same files, for `benchmarks.columnar`."""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.processes import spawned

PACKAGES = ("duckdb", "pyarrow", "pandas")
COLUMNS = ("key", "id", "ts", "window", "value", "payload", "n", "packet", "shard", "digest")
MORE = ("retracted", "payload_ref")
ROWS_AT_ONCE = 10_000
Batches = Iterator[list[tuple[Any, ...]]]


@contextmanager
def installed(kept: Path | None) -> Iterator[Path]:
    """A directory with the libraries, which stays where it is `kept`."""
    with tempfile.TemporaryDirectory() as folder:
        target = kept or Path(folder)
        if not any(target.glob("pandas*")):
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
            options = ["--only-binary", ":all:", "--target", str(target)]
            subprocess.run([*pip, *options, *PACKAGES], check=True)
        yield target


def readings(folder: Path, libraries: Path) -> dict[str, str]:
    """A digest of all that each library reads of the files of events below a folder."""
    found = {}
    for name in READERS:
        process = spawned(
            "benchmarks.columnar_readings", {"PYTHONPATH": str(libraries)}, name, str(folder)
        )
        said, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{name} ended with {process.returncode}")
        found[name] = said.strip()
    return found


def _duckdb(path: Path) -> Batches:
    names = ", ".join(f'"{name}"' for name in (*COLUMNS, *MORE))
    connection = import_module("duckdb").connect(config={"threads": 1})
    connection.execute(f"SELECT {names} FROM read_parquet(?)", [str(path)])  # noqa: S608
    while some := connection.fetchmany(ROWS_AT_ONCE):
        yield some


def _pyarrow(path: Path) -> Batches:
    file = import_module("pyarrow.parquet").ParquetFile(path)
    for batch in file.iter_batches(ROWS_AT_ONCE, columns=[*COLUMNS, *MORE]):
        yield list(zip(*(batch[name].to_pylist() for name in (*COLUMNS, *MORE)), strict=True))


def _pandas(path: Path) -> Batches:
    pandas = import_module("pandas")
    frame = pandas.read_parquet(path, columns=[*COLUMNS, *MORE])
    for first in range(0, len(frame), ROWS_AT_ONCE):
        some = frame.iloc[first : first + ROWS_AT_ONCE].astype(object)
        some = some.where(some.notna(), None)
        yield list(some.itertuples(index=False, name=None))


READERS: dict[str, Callable[[Path], Batches]] = {
    "duckdb": _duckdb,
    "pyarrow": _pyarrow,
    "pandas": _pandas,
}


def main() -> None:
    """Print the digest of what a library reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=READERS)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    print(digest_of(asked.library, asked.folder))


def digest_of(library: str, folder: Path) -> str:
    """A digest of all that a library reads of the files of events below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("archive/**/events/*.parquet")):
        for some in READERS[library](path):
            digest.update("\n".join(map(repr, some)).encode())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    main()
