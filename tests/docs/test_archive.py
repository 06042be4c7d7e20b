"""docs/archive.md: its DuckDB query runs on an archive by the real exporter, and its words hold."""

from __future__ import annotations

import gzip
import re
import runpy
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.corrections import copy_corrections
from tallyroll.archive.layout import prefix_of
from tallyroll.archive.recount import ArchivePass
from tallyroll.model.amounts import MICROS
from tests.harness.archives import Archived, put_file, put_manifests
from tests.harness.pipeline import NOW, WINDOW, hour
from tests.harness.retracted_archives import correction_of, retracted_archive

PAGE = (Path(__file__).parents[2] / "docs" / "archive.md").read_text(encoding="utf-8")


INSIDE = ("h", "m", "s", "g")  # no query needs them


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archived:
    """A proven archive in this directory, with retractions, and beside it attempts that prove
    nothing.
    """
    whole = retracted_archive(attempt="20261120T083000Z-a1")
    whole.pipeline.totals.correct([correction_of(whole, "e#e0")])
    copy_corrections(whole.window, whole.pipeline.totals, whole.bucket)
    copy = DirectoryBucket(tmp_path)
    for key in whole.bucket.list("archive/"):
        copy.put(key, whole.bucket.get(key))
    for window, attempt in ((WINDOW, "20261120T082000Z-a0"), (hour(9), "20261120T084000Z-a2")):
        prefix = prefix_of("tallyroll", window, attempt)
        file = put_file(copy, prefix, "000-0000", whole.items())
        put_manifests(copy, prefix, whole.window.table, [file], NOW)
    monkeypatch.chdir(tmp_path)
    return whole


def test_the_spark_script_recounts_what_was_proven(kept: Archived, tmp_path: Path) -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "spark" / "recount.py"))
    proofs = [f"{path}" for path in tmp_path.glob(f"archive/tallyroll/{script['PROOFS']}")]
    found: dict[str, tuple[int, Decimal]] = {}
    for pattern in script["data_of"](proofs).split(","):
        for path in Path("/").glob(pattern.lstrip("/")):
            assert script["pairs_of"](path.read_bytes() + b"\0\0") == script["pairs_of"](
                path.read_bytes()
            )
            for key, sums in script["pairs_of"](path.read_bytes()):
                found[key] = script["added"](found[key], sums) if key in found else sums
    assert {key: n for key, (n, _) in found.items()} == {"k0": 4, "large": 4, "k1": 1, "k2": 0}
    reading = ArchivePass(kept.bucket, kept.prefix, CODEC)
    assert len(list(reading)) == reading.counted.items
    tallies = reading.counted.tallies
    assert found == {key: (n, Decimal(amount) / MICROS) for key, (n, amount) in tallies.items()}


def test_the_spark_script_refuses_half_a_file() -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "spark" / "recount.py"))
    with pytest.raises(ValueError, match="ends within a gzip member"):
        script["lines_of"](gzip.compress(b"{}\n" * 50)[:-9])
    assert script["counted"]('{"Item": {"pk": {"S": "k.1"}, "sk": {"S": "t#k.1"}}}') is None


def test_duckdb_recounts_what_was_proven(kept: Archived) -> None:
    [block] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, duckdb.DuckDBPyRelation] = {}
    exec(block, names)
    recount = names["recount"].fetchall()
    reading = ArchivePass(kept.bucket, kept.prefix, CODEC)
    assert len(list(reading)) == reading.counted.items
    truth = {
        key: (n, Decimal(amount) / MICROS) for key, (n, amount) in reading.counted.tallies.items()
    }
    assert {key: (n, total) for key, n, total in recount} == truth
    assert [row[:2] for row in recount] == [("k0", 4), ("large", 4), ("k1", 1), ("k2", 0)]


def test_the_layout_is_as_it_is_written(kept: Archived) -> None:
    layout = re.search(r"## The layout\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert layout
    folders: list[str] = []
    patterns = []
    for line in layout[1].splitlines():
        depth = (len(line) - len(line.lstrip())) // 4
        name = line.split()[0] if "{export" not in line else line.strip()
        folders[depth:] = [name]
        if not name.endswith("/"):
            patterns.append(re.sub(r"\\{.*?\\}|\\\*", "[^/]+", re.escape("".join(folders))))
    keys = list(kept.bucket.list("archive/"))
    assert all(any(re.fullmatch(pattern, key) for pattern in patterns) for key in keys)
    assert all(any(re.fullmatch(pattern, key) for key in keys) for pattern in patterns)


def test_athena_columns_are_those_of_the_partitions(kept: Archived) -> None:
    [columns] = re.findall(r"PARTITIONED BY \((.*?)\)", PAGE)
    assert columns == "day string, hour int, window_id string"
    [struct] = re.findall(r"item struct<(.*)>\n\)", PAGE, re.DOTALL)
    named = dict(re.findall(r"(\w+): struct<(\w+): string>", struct))
    found = {
        name: kind
        for item in kept.items()
        if item["sk"]["S"].startswith("e#")
        for name, value in item.items()
        for kind in value
    }
    assert named == {name: kind.lower() for name, kind in found.items() if name not in INSIDE}
