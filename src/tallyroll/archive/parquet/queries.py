"""Queries over archives of either layout, by DuckDB on copies of their events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tallyroll.archive.inventory import Archive
from tallyroll.archive.parquet.compaction import Watch, convert
from tallyroll.archive.parquet.files import ParquetWriter, connected, quoted
from tallyroll.archive.parquet.source import ParquetItems
from tallyroll.archive.retractions import corrections_of
from tallyroll.archive.verification import ArchiveReading
from tallyroll.errors import StoreError, UsageError
from tallyroll.model.totals import Correction
from tallyroll.ports.bucket import ListedBucket
from tallyroll.ports.store import ItemCodec
from tallyroll.ports.totals import Totals

ROWS_AT_ONCE = 1_000
EXAMPLE = "SELECT key, sum(value) FROM events GROUP BY key"
_EMPTY = (
    "SELECT NULL::VARCHAR AS key, NULL::VARCHAR AS id, NULL::BIGINT AS ts, NULL::VARCHAR AS"
    ' "window", NULL::DECIMAL(38, 6) AS value, NULL::VARCHAR AS payload, NULL::INTEGER AS n,'
    " NULL::VARCHAR AS packet, NULL::INTEGER AS shard, NULL::BLOB AS digest,"
    " NULL::BOOLEAN AS retracted, NULL::VARCHAR AS payload_ref LIMIT 0"
)
# An event of its own may have the id that an event of a packet has here.
_EVENTS = (
    "CREATE VIEW events AS FROM stored_events AS stored WHERE NOT retracted"
    " AND NOT EXISTS (FROM corrected AS taken WHERE"
    ' taken."window" = stored."window" AND taken.key = stored.key'
    " AND taken.record = ifnull(stored.packet, stored.id)"
    " AND stored.id = if(taken.index IS NULL, taken.record, taken.record || ':' || taken.index))"
)


class ArchiveQueries:
    """Tables of the events of archives, in a folder. `stored_events` has all events, and `events`
    those that were not retracted: by tombstones, or by corrections. These are those of the table
    of `totals` if it is given, and else of the copies beside the archives.
    """

    def __init__(
        self,
        folder: Path,
        bucket: ListedBucket,
        codec: ItemCodec,
        watch: Watch,
        totals: Totals | None = None,
    ) -> None:
        self._folder = folder
        self._bucket = bucket
        self._codec = codec
        self._watch = watch
        self._totals = totals
        self.unreached: StoreError | None = None
        """Why the copies were taken, from some archive on, though there is a table of totals."""
        self._paths: list[Path] = []
        self._sources: list[ParquetItems] = []  # each keeps its files as long as it lives
        self._corrected: list[tuple[str, str, str, int | None]] = []

    def add(self, archive: Archive) -> None:
        """Fetch the events of an archive; those in DynamoDB's layout are converted. Raises
        ProofMismatch if it is not whole.
        """
        window = archive.place.window
        if archive.parquet:
            items = ParquetItems(self._bucket, archive.prefix, self._codec)
            self._sources.append(items)
            self._paths += items.event_files()
        else:
            self._paths += self._converted(archive)
        for each in self._corrections(archive):
            self._corrected += [(window, key, each.id, each.index) for key in each.keys]

    def _corrections(self, archive: Archive) -> list[Correction]:
        of = self._bucket, archive.prefix
        window = archive.place.window
        if self._totals:
            try:
                return list(corrections_of(*of, self._totals, window))
            except StoreError as error:
                self.unreached, self._totals = error, None
        return list(corrections_of(*of, None, window))

    def _converted(self, archive: Archive) -> Sequence[Path]:
        folder = self._folder / str(len(self._paths))
        folder.mkdir()
        writer = ParquetWriter(folder, archive.place.window)
        try:
            reading = ArchiveReading(self._bucket, archive, self._codec)
            convert(reading, self._watch(reading, archive, "reading"), writer, self._codec)
            return writer.finish()[0]
        finally:
            writer.close()

    def rows(self, query: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """The names of the columns of a query's answer, and its rows. The query reaches no files
        but these. Raises UsageError for a query that DuckDB refuses; so do rows that fail late.
        """
        connection, failed = connected(self._folder)
        names = [quoted(str(path)) for path in self._paths]
        stored = f"read_parquet([{', '.join(names)}], hive_partitioning = false)"
        source = f"SELECT * FROM {stored}" if names else _EMPTY  # noqa: S608 (own paths)
        connection.execute(f"CREATE VIEW stored_events AS {source}")
        connection.execute(
            'CREATE TABLE corrected ("window" VARCHAR, key VARCHAR, record VARCHAR, index INTEGER)'
        )
        if self._corrected:
            connection.executemany("INSERT INTO corrected VALUES (?, ?, ?, ?)", self._corrected)
        connection.execute(_EVENTS)
        folders = sorted({str(path.parent) for path in self._paths})
        allowed = ", ".join(map(quoted, [str(self._folder), *folders]))
        connection.execute(f"SET allowed_directories = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        with _refused(failed):
            if not connection.extract_statements(query):
                raise UsageError(f"query {query!r}: it is empty; give SQL, such as {EXAMPLE!r}")
            connection.execute(query)
        described = connection.description or ()

        def fetched() -> Iterator[tuple[Any, ...]]:
            with connection, _refused(failed):
                while some := connection.fetchmany(ROWS_AT_ONCE):
                    yield from some

        return [str(column[0]) for column in described], fetched()


@contextmanager
def _refused(failed: type[Exception]) -> Iterator[None]:
    try:
        yield
    except failed as error:
        raise UsageError(f"DuckDB: {error}") from None


def chosen(archives: Sequence[Archive]) -> list[Archive]:
    """Of each window one proven archive: as Parquet, if there is one."""
    by_window = {
        (each.place.pipeline, each.place.window): each
        for each in sorted(archives, key=lambda each: (each.parquet, each.place.attempt))
        if each.proven and not each.problem
    }
    return [by_window[name] for name in sorted(by_window)]
