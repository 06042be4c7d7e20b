"""The Parquet files of an archive: written by DuckDB, and read back as they were written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import duckdb
import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.parquet import files, large
from tallyroll.archive.parquet.by_key import KeyReader
from tallyroll.archive.parquet.files import ParquetReader, ParquetWriter
from tallyroll.archive.parquet.rows import Converted, EventRow, Rest, alone, restored
from tallyroll.errors import ProofMismatch, Refused
from tallyroll.model.items import StoredItem
from tests.harness.pipeline import NOW, WINDOW

LEFT = ("events", "rest", "quoted.csv", "retracted.csv", "sorting")
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


def test_large_payloads_are_in_smaller_groups(
    tmp_path: Path, writer: ParquetWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "GROUP_BYTES", "1MB")
    for number in range(6_000):
        event = row("k", f"e{number:05d}")._replace(payload=f'"{number:600d}"')
        writer.add(Converted([event], Rest(1, "json", 30, 7)))
    [events], _ = writer.finish()
    writer.close()
    most = duckdb.execute(
        "SELECT max(row_group_num_rows) FROM parquet_metadata(?)", [str(events)]
    ).fetchone()
    assert most is not None
    assert most[0] < 6_000


@pytest.mark.parametrize("odd", ["\n", "\r", "\x1f", "\x00"])
def test_control_characters_come_back(tmp_path: Path, writer: ParquetWriter, odd: str) -> None:
    """No record has one that a release has stored, but an item of another origin may."""
    packet = Converted([row("k", f"p{odd}", index) for index in range(3)], Rest(3, "packet1+zlib"))
    made = [one("k", "a"), packet, one(f"k{odd}2", "a", -(10**24) + 1)]
    for each in made:
        writer.add(each)
    events, rest = writer.finish()
    writer.close()
    assert sorted(read(tmp_path, events, rest)) == sorted(map(tuple, made))


@pytest.mark.parametrize("apart_from", [large.LARGE, 10**9])
def test_large_texts_take_no_more_memory_than_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart_from: int
) -> None:
    """Rows of 80 MB in all, of which DuckDB cannot sort 2,048 at once; large items, and many keys;
    small rows; and what looks like a place in the file of large texts.
    """
    monkeypatch.setattr(files, "MEMORY", "75MB")
    monkeypatch.setattr(large, "LARGE", apart_from)
    monkeypatch.setattr(large, "PART_BYTES", 4 * 1024 * 1024)
    writer = ParquetWriter(tmp_path, WINDOW)
    made = []
    for number in range(8_000):
        event = row(f"k{number % 3}", f"e{number * 997 % 8_000:05d}", value=-number)
        if number % 4:
            event = event._replace(payload=f'"{chr(233) + str(number) * 3_375:.13500}"')
        if number == 8:
            event = event._replace(payload="\x1e0:5")
        items = f'[{{"pk":"{number:020000d}"}}]' if number % 100 == 7 else None
        more = f'{{"keys":["{number:020000d}"]}}' if number % 20 == 13 else None
        made.append(Converted([event], Rest(1, None, 30, 7, more, items)))
        writer.add(made[-1])
    packet = Converted([row("k0", "p", index) for index in range(3)], Rest(3, "packet1+zlib"))
    writer.add(packet)
    try:
        if apart_from == 10**9:
            with pytest.raises(Refused, match="Out of Memory"):
                writer.finish()
            return
        events, rest = writer.finish()
    finally:
        writer.close()
    wanted = sorted(([*made, packet]), key=lambda each: (each.rows[0].key, each.rows[0].record))
    found = read(tmp_path, events, rest)
    assert found == [tuple(each) for each in wanted]
    assert {*tmp_path.iterdir()} <= {tmp_path / name for name in LEFT}
    reader = KeyReader(tmp_path, events, rest, "k1", b"k1")
    assert [*reader.records(WINDOW, pytest.fail)] == [one for one in found if one[0][0].key == "k1"]


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


def test_a_key_alone_is_read_over_the_bounds_of_files(
    tmp_path: Path, writer: ParquetWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "GROUP_ROWS", 2_048)
    monkeypatch.setattr(files, "FILE_BYTES", 1)
    counts = {"a": 700, "b": 3, "c": 3_000, "d": 1, "e": 900}
    for key, count in counts.items():
        for number in range(count):
            some = [row(key, f"p{number:05d}", index) for index in range(number % 4 + 1)]
            writer.add(Converted(some, Rest(len(some), "packet1+zlib", number)))
    writer.add_alone(alone(StoredItem("~g.1", "g#", {"pk": {"S": "~g.1"}, "sk": {"S": "g#"}})))
    writer.add_alone(alone(StoredItem("b.1", "x#p", {"pk": {"S": "b.1"}, "sk": {"S": "x#p"}})))
    events, rest = writer.finish()
    writer.close()
    assert len(events) > 2 < len(rest)
    *records, about_b, gate = read(tmp_path, events, rest)
    for key in (*counts, "", "aa", "f"):
        reader = KeyReader(tmp_path, events, rest, key, b"b.1")
        found = list(reader.records(WINDOW, pytest.fail))
        assert found == [*(each for each in records if each[0][0].key == key), about_b]
    assert list(KeyReader(tmp_path, events, rest, "f", b"").records(WINDOW, pytest.fail)) == [
        about_b,
        gate,
    ]


def test_a_key_is_in_few_groups(
    tmp_path: Path, writer: ParquetWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "GROUP_ROWS", 2_048)
    for number in range(files.GROUP_ROWS * 3):
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
