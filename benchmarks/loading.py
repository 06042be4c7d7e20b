"""How many lines a load reads, packs and sends: `python -m benchmarks.loading`.

Into a queue that takes everything at once, a second of CPU time. Parquet needs DuckDB, whose own
threads are not counted.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from benchmarks.tables import Rows, show
from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.adapters.system import SystemEffects
from tallyroll.client.bulk import BulkSender
from tallyroll.client.checkpoint import Checkpoint
from tallyroll.client.loading import BadFile, Load, SourceLayout
from tallyroll.client.send_calendar import SendCalendar
from tallyroll.client.sources.places import Format, Place
from tallyroll.client.sources.shapes import ByColumns, OwnForm, RecordShape
from tallyroll.ports.queue import SendFailure
from tallyroll.settings import Settings

LINES = 100_000
KEYS = 50
START = 1_795_163_400_000


class TakingQueue:
    """A queue that takes everything at once."""

    def send(self, bodies: Iterable[str]) -> list[SendFailure]:
        """Take the bodies."""
        list(bodies)
        return []


def rows() -> Iterable[tuple[str, int, str]]:
    """The key, the time and the country of each event."""
    for number in range(LINES):
        yield f"video-{number % KEYS}", START + number % 300 * 1_000, ("de", "fr")[number % 2]


def written(folder: Path) -> dict[str, Path]:
    """The same events in several formats."""
    plain = [f'{{"key":"{key}","ts":{ts},"payload":"{c}"}}\n' for key, ts, c in rows()]
    own = [f'{line[:-2]},"id":"event-{n}"}}\n' for n, line in enumerate(plain)]
    table = ["key,ts,country\n", *(f"{key},{ts},{country}\n" for key, ts, country in rows())]
    files = {
        "JSON Lines": folder / "plain.jsonl",
        "JSON Lines, gzip": folder / "plain.jsonl.gz",
        "JSON Lines with ids, not packed": folder / "own.jsonl",
        "CSV": folder / "table.csv",
    }
    for path, lines in zip(files.values(), (plain, plain, own, table), strict=True):
        content = "".join(lines).encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    if find_spec("duckdb"):
        import duckdb  # noqa: PLC0415

        files["Parquet"] = folder / "table.parquet"
        duckdb.sql(f"COPY (FROM '{files['CSV']}') TO '{files['Parquet']}'")
    return files


def measured(path: Path, folder: Path) -> tuple[float, int]:
    """The CPU seconds that a file takes, and its messages."""
    effects, settings = SystemEffects(), Settings()
    calendar = SendCalendar(MemoryCatalog(), settings, effects, lambda _: None)
    producer = BulkSender(TakingQueue(), effects, calendar, name="load")
    shapes: dict[Format, RecordShape] = {form: ByColumns({}, ["country"]) for form in Format}
    shapes[Format.JSONL] = OwnForm()
    suffix = path.name.removesuffix(".gz").rpartition(".")[2]
    place = Place(path.name, path.stat().st_size, Format(suffix), path)
    load = Load(
        producer,
        SourceLayout(shapes),
        Checkpoint(folder / f"{path.name}.checkpoint", {"shape": ""}),
        BadFile(folder / f"{path.name}.bad", 0),
        skip_changes=False,
        on_progress=lambda _: None,
        listed=lambda *_: None,
    )
    began = time.process_time()
    load.run([place])
    took = time.process_time() - began
    assert (load.complete, producer.sent.events) == (True, LINES)
    return took, producer.sent.messages


def main() -> int:
    """Print the table."""
    found: Rows = [("format", "lines / CPU s", "messages")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, path in written(folder).items():
            took, messages = measured(path, folder)
            found.append((kind, f"{LINES / took:,.0f}", f"{messages:,}"))
    show(f"{LINES:,} events of {KEYS} keys, loaded into a queue that takes them", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
