"""Which library writes and reads an archive's rows as Parquet at the least cost.

    python -m benchmarks.columnar_libraries [ROWS] [--library duckdb]

Installs each library with what it needs into a directory of its own, and lets it write the same
rows, which come in no order, sorted by key, and read them back as Python's values, each in a
process of its own. The asset is what the directory holds without bytecode. A row's cost
is processor time, less that of making the rows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.columnar_rows import ROWS, rows
from benchmarks.columnar_writers import READERS, WRITERS
from benchmarks.processes import cpu_seconds, spawned, taken, tell_taken
from benchmarks.tables import Rows, show

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Library:
    """A library: what is installed for it, and what it lacks of what an archive needs."""

    packages: tuple[str, ...]
    licence: str
    lacks: str = ""


LIBRARIES = {
    "duckdb": Library(("duckdb",), "MIT"),
    "pyarrow": Library(("pyarrow",), "Apache-2.0", "SQL; sorts in memory alone"),
    "polars": Library(("polars",), "MIT", "sorts in memory alone, read from rows"),
    "fastparquet": Library(("fastparquet",), "Apache-2.0", "SQL, decimals; sorts by pandas"),
    "arro3": Library(
        ("arro3-core", "arro3-io"), "MIT or Apache-2.0", "SQL, sorting, decimals of Python's"
    ),
}


def main() -> None:
    """Compare them, or as a child write and read with one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=ROWS)
    parser.add_argument("--library", choices=LIBRARIES, action="append")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="install there, or find it there")
    parser.add_argument("--child", choices=LIBRARIES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        _child(asked.child, asked.rows)
        return
    table: Rows = [
        ("library", "licence", "MiB", "peak MiB", "written/s", "read/s", "file MiB", "lacks")
    ]
    table += [_compared(name, asked.rows, asked.keep) for name in asked.library or LIBRARIES]
    note = f"{asked.rows:,} rows; a second is one of one core's"
    show("Parquet of an archive's rows, by library", table, note)


def _compared(name: str, count: int, kept: Path | None) -> tuple[str, ...]:
    library = LIBRARIES[name]
    with tempfile.TemporaryDirectory() as folder:
        asset = kept / name if kept else Path(folder)
        if not (kept and asset.exists()):
            _install(library, asset)
        size = _size(asset)
        run = taken(
            spawned(
                "benchmarks.columnar_libraries",
                {"PYTHONPATH": str(asset)},
                str(count),
                "--child",
                name,
            )
        )
    if run.problems:
        raise RuntimeError(f"{name}: {run.problems}")
    took = run.seconds
    return (
        *(name, library.licence, f"{size / MIB:.0f}"),
        *(f"{run.peak_mib:.0f}", f"{count / took['written']:,.0f}", f"{count / took['read']:,.0f}"),
        *(f"{took['bytes'] / MIB:.1f}", library.lacks),
    )


def _install(library: Library, target: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run(
        [*pip, "--only-binary", ":all:", "--target", target, *library.packages],
        check=True,
    )  # pip warns of what else is installed


def _size(folder: Path) -> int:
    """The bytes of all files without bytecode."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sum(path.stat().st_size for path in files)


def _child(name: str, count: int) -> None:
    made = _cpu(lambda: sum(map(len, rows(count))))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        written = _cpu(partial(WRITERS[name], rows(count), path)) - made
        problems: list[str] = []
        read = _cpu(lambda: problems.extend(_read_wrong(READERS[name](path), count)))
        size = path.stat().st_size
    tell_taken({"written": written, "read": read, "bytes": float(size)}, problems)


def _cpu(work: Callable[[], Any]) -> float:
    began = cpu_seconds()
    work()
    return cpu_seconds() - began


def _read_wrong(found: Iterator[list[tuple[Any, ...]]], count: int) -> Iterator[str]:
    """What is wrong with the rows that were read: their number, order or sum."""
    number, total, last = 0, 0.0, ""
    for some in found:
        number += len(some)
        total += float(sum(row[4] for row in some))
        if some[0][0] < last:
            yield f"key {some[0][0]!r} comes after {last!r}"
        last = some[-1][0]
    if number != count:
        yield f"{number} rows"
    if abs(total - sum(index % 7 + 0.25 for index in range(count))) > 1:
        yield f"the sum is {total}"


if __name__ == "__main__":
    main()
