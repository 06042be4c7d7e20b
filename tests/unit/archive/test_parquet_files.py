"""The Parquet files of an archive: written by DuckDB, and read back as they were written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import duckdb
import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.parquet.files import GROUP_ROWS, ParquetReader, ParquetWriter
from tallyroll.archive.parquet.rows import Converted, EventRow, Rest, alone, restored
from tallyroll.errors import ProofMismatch
from tallyroll.model.items import StoredItem
from tests.harness.pipeline import NOW, WINDOW

ODD = ('a"b', "a,b", "a'b", "ä\u2028", "\\N", "NULL", "=1", " a ", "a\\")


def row(key: str, record: str, index: int | None = None, value: int = 1_500_000) -> EventRow:
    payload = '{"a":"' + record.replace('"', "'").replace("\\", "/") + '","b":[1,null]}'
    return EventRow(key, record, index, NOW, value, payload, None, 3, record.encode())


def one(key: str, record: str, value: int = 1_500_000) -> Converted:
    return Converted([row(key, record, value=value)], Rest(1, "json", 30, 7))


@pytest.fixture
def writer(tmp_path: Path) -> ParquetWriter:
    return ParquetWriter(tmp_path, WINDOW)


def read(
    folder: Path, events: list[Path], rest: list[Path], window: str = WINDOW
) -> list[tuple[list[EventRow], Rest]]:
    marked: list[tuple[str, str, int | None]] = []
    found = list(
        ParquetReader(folder, events, rest).records(window, lambda *name: marked.append(name))
    )
    assert marked == []
    return found


def test_more_rows_than_fit_into_the_memory_are_sorted_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyroll.archive.parquet.files.MEMORY", "90MB")
    writer = ParquetWriter(tmp_path, WINDOW)
    for number in range(150_000):
        digest = hashlib.md5(str(number).encode(), usedforsecurity=False)
        text = f'"{digest.hexdigest() * 5}"'
        event = EventRow("k", digest.hexdigest(), None, NOW, 1, text, None, 3, digest.digest())
        writer.add(Converted([event], Rest(1, "json", 30, 7)))
    events, rest = writer.finish()
    writer.close()
    ids = [record.id for [record], _ in read(tmp_path, events, rest)]
    assert len(ids) == 150_000
    assert ids == sorted(ids)


def test_odd_texts_and_large_values_come_back(tmp_path: Path, writer: ParquetWriter) -> None:
    made = [one(key, record, -(10**24) + 1) for key in ODD for record in ODD]
    for each in reversed(made):
        writer.add(each)
    item = StoredItem("~g.1", "g#", {"pk": {"S": "~g.1"}, "sk": {"S": "g#"}, "o": {"S": '\n\r,"'}})
    writer.add_alone(alone(item))
    events, rest = writer.finish()
    writer.close()
    *found, last = read(tmp_path, events, rest)
    assert sorted(found, key=str) == sorted(map(tuple, made), key=str)
    assert [key.encode() for (rows, _) in found for key in [rows[0].key]] == sorted(
        key.encode() for key in ODD for _ in ODD
    )
    assert restored(*last, CODEC) == [item]


def test_a_packets_events_stay_together(tmp_path: Path, writer: ParquetWriter) -> None:
    packet = Converted([row("k", "p", index) for index in range(12)], Rest(12, "packet1+zlib"))
    for each in (one("k", "q"), packet, one("k", "a")):
        writer.add(each)
    writer.retract("k", "p", 11)
    events, rest = writer.finish()
    writer.close()
    marked: list[tuple[str, str, int | None]] = []
    reader = ParquetReader(tmp_path, events, rest)
    found = list(reader.records(WINDOW, lambda *name: marked.append(name)))
    assert [rows for rows, _ in found] == [[row("k", "a")], packet.rows, [row("k", "q")]]
    assert marked == [("k", "p", 11)]


def test_a_key_is_in_few_groups(tmp_path: Path, writer: ParquetWriter) -> None:
    for number in range(GROUP_ROWS * 3):
        writer.add(one(f"k{number % 100:02d}", f"e{number}"))
    [events], _ = writer.finish()
    writer.close()
    groups = duckdb.execute(
        "SELECT stats_min_value, stats_max_value FROM parquet_metadata(?)"
        " WHERE path_in_schema = 'key'",
        [str(events)],
    ).fetchall()
    assert len(groups) == 3
    for number in range(100):
        assert 1 <= sum(least <= f"k{number:02d}" <= most for least, most in groups) <= 2


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ("SELECT * FROM t WHERE id <> 'e1'", "events: 2 rows, the rest is of more"),
        ("SELECT * FROM t UNION ALL SELECT * FROM t WHERE id = 'e1'", "id 'e1': an extra row"),
        ("SELECT * REPLACE ('x' AS \"window\") FROM t", "of the window x, not"),
        ("SELECT * REPLACE (2 AS n) FROM t", "n is 2"),
        ("SELECT * REPLACE ('other' AS packet) FROM t", "not an id of the packet 'other'"),
        ("SELECT * EXCLUDE (digest) FROM t", "digest"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, writer: ParquetWriter, change: str, finding: str
) -> None:
    for number in range(3):
        writer.add(one("k", f"e{number}"))
    [events], rest = writer.finish()
    writer.close()
    changed = tmp_path / "changed.parquet"
    duckdb.execute(
        f"COPY ({change.replace(' t', f' read_parquet({str(events)!r})')} ORDER BY id)"
        f" TO '{changed}' (FORMAT parquet)"
    )
    with pytest.raises(ProofMismatch, match=finding):
        read(tmp_path, [changed], rest)
    (tmp_path / "junk.parquet").write_bytes(b"PAR1junk")
    with pytest.raises(ProofMismatch):
        read(tmp_path, [tmp_path / "junk.parquet"], rest)
