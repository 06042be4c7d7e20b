"""What archives as Parquet take: bytes, time and memory, beside those in DynamoDB's layout.

    python -m benchmarks.columnar [EVENTS] [--mixed EVENTS]

Makes windows of events, archived as the exporter does, and lets each step run in a process of its
own: the proof of that archive, the conversion of items in memory, and the whole compaction, which
reads, converts, writes, reads back and proves. Of the mixed window it asks the files by DuckDB, and
compares what DuckDB, pyarrow and pandas read; the two are installed for that, into a directory.
Seconds are those of one core.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.columnar_phases import PHASES
from benchmarks.columnar_readings import installed, readings
from benchmarks.columnar_windows import SHAPES, Exported, exported
from benchmarks.processes import Taken, spawned, taken
from benchmarks.tables import Rows, show
from tallyroll.adapters.directory import DirectoryBucket

MIB = 1024 * 1024
EVENTS, MIXED = 200_000, 1_000_000
EVENTS_A_KEY = 100
READ = "mixed"
PHASES_OF_ALL = ("proof", "convert", "whole")


def main() -> None:
    """Measure and print tables; or be the process that is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", type=int, nargs="?", default=EVENTS)
    parser.add_argument("--mixed", type=int, default=MIXED, help="events of the mixed window")
    parser.add_argument("--shape", choices=SHAPES, action="append")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="install libraries there")
    parser.add_argument("--phase", choices=PHASES, help=argparse.SUPPRESS)
    parser.add_argument("--dir", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.phase:
        PHASES[asked.phase](asked.dir, asked.shape[0], asked.events)
        return
    sizes: Rows = [("window", "bytes/event", "Parquet", "ratio", "rows/s made", "rows/s written")]
    times: Rows = [("window", "export s", "proof s", "Parquet s", "ratio", "peak MiB")]
    for shape in asked.shape or SHAPES:
        events = asked.mixed if shape == READ else asked.events
        with tempfile.TemporaryDirectory() as folder:
            json = exported(DirectoryBucket(Path(folder)), SHAPES[shape](events, _keys(events)))
            proof, made, whole = (_run(name, folder, shape, events) for name in PHASES_OF_ALL)
            sizes.append((shape, *_sizes(json, whole, events), *_rates(made)))
            times.append((shape, *_times(json, proof, whole), f"{whole.peak_mib:.0f}"))
            if shape == READ:
                _read(folder, shape, events, asked.keep)
    rates = "made: of items in memory, and compared with them; written: also sorted, and in files"
    show("Bytes and rows", sizes, rates)
    show("Seconds of a core, and memory", times, "ratio: to the seconds of export and proof")


def _keys(events: int) -> int:
    return max(1, events // EVENTS_A_KEY)


def _rates(made: Taken) -> tuple[str, ...]:
    rows = made.seconds["rows"]
    return tuple(f"{rows / made.seconds[name]:,.0f}" for name in ("convert", "files"))


def _sizes(json: Exported, whole: Taken, events: int) -> tuple[str, ...]:
    size = whole.seconds["bytes"]
    return f"{json.bytes / events:.1f}", f"{size / events:.1f}", f"{size / json.bytes:.2f}"


def _times(json: Exported, proof: Taken, whole: Taken) -> tuple[str, ...]:
    today, now = (json.seconds, proof.seconds["proof"]), whole.seconds["whole"]
    return (*(f"{each:.1f}" for each in (*today, now)), f"{now / sum(today):.2f}")


def _run(phase: str, folder: str, shape: str, events: int) -> Taken:
    arguments = (str(events), "--phase", phase, "--dir", folder, "--shape", shape)
    run = taken(spawned("benchmarks.columnar", {}, *arguments))
    if run.problems:
        raise RuntimeError(f"{shape}, {phase}: {run.problems}")
    return run


def _read(folder: str, shape: str, events: int, kept: Path | None) -> None:
    asked = _run("query", folder, shape, events).seconds
    print(
        f"{shape}: the query of docs/archive.md over JSON {asked['json']:.2f} s,"
        f" SELECT key, count(*) {asked['count']:.3f} s: {asked['json'] / asked['count']:.0f} times"
        f" faster. {asked['groups']:.0f} groups of rows, of which one key's rows are in at most"
        f" {asked['groups of a key']:.0f}."
    )
    with installed(kept) as libraries:
        found = readings(Path(folder), libraries)
    print(f"what was read: {', '.join(f'{name} {digest}' for name, digest in found.items())}")
    if len(set(found.values())) != 1:
        raise RuntimeError("they do not agree")


if __name__ == "__main__":
    main()
