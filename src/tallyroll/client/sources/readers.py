"""Readers of sources: JSON Lines, CSV, and the JSON of DynamoDB's exports."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tallyroll.client.jsonlines import LINE_TOO_LONG, LineSource
from tallyroll.client.sources.dynamodb import image_of
from tallyroll.client.sources.records import OP, BadRecord, SourceRecord, inserted
from tallyroll.errors import UsageError
from tallyroll.limits import ITEM_BYTES_MAX
from tallyroll.reasons import Reason

NOT_CSV = "not-csv"
FIELD_CHARACTERS_MAX = 2 * ITEM_BYTES_MAX  # a quote that never ends swallows no more


class RecordReader(Protocol):
    """A source that is read as records."""

    @property
    def columns(self) -> Sequence[str] | None:
        """The names of its columns; None if each record has its own."""

    @property
    def position(self) -> int:
        """How many bytes were read, roughly, of the source's size."""

    def records(self) -> Iterator[SourceRecord]:
        """The records, in their order. Raises UnreadableInput."""

    def close(self) -> None:
        """Close the file."""


class JsonLines:
    """JSON Lines."""

    columns: Sequence[str] | None = None

    def __init__(self, path: str) -> None:
        self._source = LineSource(path)

    @property
    def position(self) -> int:
        """How many bytes were read."""
        return self._source.position

    def records(self) -> Iterator[SourceRecord]:
        """One record of each line that is not blank; nobody has read its JSON yet."""
        for number, line in self._source.lines():
            yield SourceRecord(number, line)

    def close(self) -> None:
        """Close the file."""
        self._source.close()


class DynamoJson(JsonLines):
    """The lines of a DynamoDB export."""

    def records(self) -> Iterator[SourceRecord]:
        """One record of each item; of an incremental export, of each new image."""
        for number, line in self._source.lines():
            yield SourceRecord(number, line, image_of(line))


class Csv(JsonLines):
    """CSV with a header, or with the `names` of its columns. A record has the number of its first
    line.
    """

    def __init__(self, path: str, names: Sequence[str] | None, delimiter: str) -> None:
        super().__init__(path)
        self._path = path
        self._delimiter = delimiter
        self._given = names is not None
        self._rows = self._read()
        try:
            self._names = list(names) if names is not None else self._header()
        except BaseException:
            self.close()
            raise
        self.columns = [name for name in self._names if name != OP] if self._names else None

    def _header(self) -> list[str]:
        found = next(self._rows, None)
        names = [] if found is None else found[2]  # none: the file is empty
        if isinstance(names, BadRecord):
            raise UsageError(f"{self._path}: its header is no CSV: {names.detail}")
        twice = [name for name in names if names.count(name) > 1]
        if twice or not all(names):
            which = f"{twice[0]!r} twice" if twice else "one without a name"
            raise UsageError(f"{self._path}: its header has a column {which}: give --columns")
        return names

    def records(self) -> Iterator[SourceRecord]:
        """One record of each row."""
        for number, raw, row in self._rows:
            yield SourceRecord(
                number, raw, row if isinstance(row, BadRecord) else self._fields(row)
            )

    def _fields(self, row: list[str]) -> dict[str, Any] | BadRecord:
        names = self._names
        if self._given and names[:1] == [OP] and len(row) == len(names) - 1:
            names = names[1:]  # DMS gives rows of a full load no Op
        if len(row) != len(names):
            columns = f"{len(row)} columns, where {len(names)} are named"
            return BadRecord(NOT_CSV, columns)
        return inserted(dict(zip(names, row, strict=True)))

    def _read(self) -> Iterator[tuple[int, bytes | None, list[str] | BadRecord]]:
        """Each row that is not blank: the number of its first line, its text, its cells."""
        taken: list[tuple[int, bytes | None]] = []

        def texts() -> Iterator[str]:
            for number, line in self._source.all_lines():
                taken.append((number, line))
                encoding = "utf-8-sig" if number == 1 else "utf-8"
                yield (line or b"\n").decode(encoding, "surrogateescape")

        rows = csv.reader(texts(), delimiter=self._delimiter, strict=True)
        while True:
            taken.clear()
            before = csv.field_size_limit(FIELD_CHARACTERS_MAX)
            try:
                row: list[str] | BadRecord = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                row = BadRecord(NOT_CSV, str(error))
            finally:
                csv.field_size_limit(before)
            too_long = any(line is None for _, line in taken)
            if not row and not too_long:
                continue
            raw = b"".join(line or b"" for _, line in taken)
            if too_long:
                row = BadRecord(Reason.ITEM_TOO_LARGE, LINE_TOO_LONG)
            elif not isinstance(row, BadRecord) and not _is_text(row, raw):
                row = BadRecord(NOT_CSV, "not UTF-8")
            yield taken[0][0], raw or None, row


def _is_text(row: list[str], raw: bytes) -> bool:
    if raw.isascii():
        return True
    try:
        "".join(row).encode()
    except UnicodeEncodeError:
        return False
    return True
