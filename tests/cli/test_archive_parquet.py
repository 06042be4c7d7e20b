"""Archives as Parquet by the command: made, verified, read and queried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.archive.corrections import copy_corrections
from tallyroll.archive.parquet.files import DUCKDB, ParquetWriter
from tallyroll.errors import Refused
from tests.cli.command_line import CommandLine
from tests.harness.archives import Archived
from tests.harness.pipeline import WINDOW
from tests.harness.retracted_archives import LIKE_PACKED, correction_of, retracted_archive

HERE = ("--bucket", "memory")
SUMS = "SELECT key, count(*) AS n, sum(value) AS v FROM events GROUP BY key ORDER BY key"
LATE = 199_999  # a row that is computed after the first ones were given


@pytest.fixture
def whole() -> Archived:
    made = retracted_archive()
    made.pipeline.totals.correct([correction_of(made, "e#e0")])
    copy_corrections(made.window, made.pipeline.totals, made.bucket)
    return made


@pytest.fixture
def cli(
    whole: Archived, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(whole.pipeline, monkeypatch, capsys)


def test_partitions_of_parquet_for_athena(cli: CommandLine) -> None:
    [made] = cli.run("archive", "compact", "--json", *HERE).json
    answer = cli.run("archive", "list", "--athena", "votes_events", "--parquet", *HERE)
    assert answer.out == (
        "ALTER TABLE votes_events ADD IF NOT EXISTS\n"
        f"  PARTITION (day='2026-11-20', hour=8, window_id='{WINDOW}')"
        f" LOCATION 's3://memory/{made['prefix']}/events/';\n"
    )
    other = cli.run("archive", "list", "--athena", "votes", *HERE)
    assert "/data/'" in other.out
    assert ".parquet." not in other.out
    alone = cli.run("archive", "list", "--parquet", *HERE)
    assert (alone.status, "--parquet goes with --athena" in alone.err) == (2, True)


def test_parquet_is_made_verified_read_and_queried(cli: CommandLine, whole: Archived) -> None:
    before = cli.run("archive", "sql", SUMS, "--json", *HERE)
    read = cli.run("archive", "read", WINDOW, *HERE)
    [made] = cli.run("archive", "compact", "--json", *HERE).json
    assert (made["window"], made["result"], made["events"]) == (WINDOW, "proven", 9)
    assert made["was"] > made["bytes"] > 0
    [again] = cli.run("archive", "compact", WINDOW, "--json", *HERE).json
    assert again == {**made, "result": "was proven"}
    listed = cli.run("archive", "list", "--json", *HERE).json
    assert [each.get("format") for each in listed] == [None, "parquet"]
    assert all(each["state"] == "proven" for each in listed)
    verified = cli.run("archive", "verify", "--against-totals", "--json", *HERE)
    assert verified.status == 0
    ours, theirs = [
        {name: of for name, of in each.items() if name != "prefix"} for each in verified.json
    ]
    assert ours == theirs
    same = cli.run("archive", "read", made["prefix"], *HERE)
    assert same.status == read.status == 0
    assert sorted(same.out.splitlines()) == sorted(read.out.splitlines())
    after = cli.run("archive", "sql", SUMS, "--json", *HERE)
    assert after.json == before.json
    assert (
        after.json
        == [
            {"key": "k0", "n": 3, "v": "1.500002"},
            {"key": "k1", "n": 1, "v": "0.500000"},
            {"key": "large", "n": 4, "v": "8.000000"},
        ]
        or sum(row["n"] for row in after.json) == 8
    )
    assert "those without a proven archive are left out" in after.err


@pytest.mark.parametrize("layout", ["dynamodb", "parquet"])
def test_an_event_with_the_id_of_a_packed_one_stays(
    layout: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = retracted_archive(more=LIKE_PACKED)
    taken = [correction_of(made, "e#p", 2, id="p", amount=1), correction_of(made, "e#p:3")]
    made.pipeline.totals.correct(taken[:1])
    cli = CommandLine(made.pipeline, monkeypatch, capsys)
    if layout == "parquet":
        assert cli.run("archive", "compact", *HERE).status == 0
    query = "SELECT id, packet FROM events WHERE starts_with(id, 'p:') ORDER BY ALL"
    found = cli.run("archive", "sql", query, "--json", *HERE).json
    names = [(row["id"], row["packet"]) for row in found]
    assert names == [("p:0", "p"), ("p:2", None), ("p:3", None)]
    made.pipeline.totals.correct(taken[1:])
    left = cli.run("archive", "sql", query, "--json", *HERE).json
    assert [(row["id"], row["packet"]) for row in left] == names[:2]


def test_what_is_taken_back_after_the_copy_is_known(
    cli: CommandLine, whole: Archived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = DirectoryBucket(tmp_path)
    for key in whole.bucket.list("archive/"):
        copy.put(key, whole.bucket.get(key))
    whole.pipeline.totals.correct([correction_of(whole, "e#e3")])
    query = ("archive", "sql", "SELECT count(*) AS n FROM events", "--json")
    asked = cli.run(*query, *HERE)
    assert (asked.json, "copies" in asked.err) == ([{"n": 7}], False)
    there = ("--dir", str(tmp_path))
    unasked = cli.run(*query, *there)
    assert unasked.json == [{"n": 8}]
    assert "what was taken back later is among the events" in unasked.err
    assert cli.run(*query, *there, "--against-totals").json == [{"n": 7}]

    def refused(*_: object) -> int:
        raise Refused("no right to read it", "AccessDenied")

    monkeypatch.setattr(type(whole.pipeline.totals), "revision", refused)
    without = cli.run(*query, *HERE)
    assert (without.status, without.json) == (0, [{"n": 8}])
    assert "is among the events; the totals table was not reached: no right" in without.err
    failed = cli.run(*query, *HERE, "--against-totals")
    assert (failed.status, failed.out) == (3, "")


def test_a_flipped_bit_is_told(cli: CommandLine, whole: Archived) -> None:
    [made] = cli.run("archive", "compact", "--json", *HERE).json
    key = f"{made['prefix']}/events/0000.parquet"
    whole.change(key, lambda body: body[:-1] + b"?")
    verified = cli.run("archive", "verify", made["prefix"], *HERE)
    assert verified.status == 1
    assert f"{key}: " in verified.err
    assert cli.run("archive", "verify", WINDOW, *HERE).status == 0
    asked = cli.run("archive", "sql", SUMS, *HERE)
    assert (asked.status, asked.out) == (1, "")
    assert "events/0000.parquet" in asked.err


def test_a_damaged_archive_gets_no_parquet(cli: CommandLine, whole: Archived) -> None:
    key = whole.spoil()
    answer = cli.run("archive", "compact", *HERE)
    assert answer.status == 1
    assert "no Parquet was proven" in answer.err
    assert key in answer.err
    assert not any(".parquet." in name for name in whole.bucket.list("archive/"))
    whole.remove(f"{whole.prefix}/proof.json")
    named = cli.run("archive", "compact", WINDOW, *HERE)
    assert named.status == 1
    assert "it is not proven" in named.err
    nothing = cli.run("archive", "compact", *HERE)
    assert nothing.status == 0
    assert "nothing to do" in nothing.err


def test_a_window_that_takes_too_much_memory_does_not_end_the_command(
    cli: CommandLine, whole: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise Refused("DuckDB: Out of Memory Error", DUCKDB)

    monkeypatch.setattr(ParquetWriter, "finish", refused)
    answer = cli.run("archive", "compact", *HERE)
    assert answer.status == 1
    assert f"{whole.prefix}: no Parquet was proven: DuckDB: Out of Memory" in answer.err


def test_queries_of_a_copy(cli: CommandLine, whole: Archived, tmp_path: Path) -> None:
    copy = DirectoryBucket(tmp_path)
    for key in whole.bucket.list("archive/"):
        copy.put(key, whole.bucket.get(key))
    there = ("--dir", str(tmp_path))
    assert cli.run("archive", "compact", *there).status == 0
    table = cli.run("archive", "sql", "SELECT count(*) AS n FROM stored_events", *there)
    assert table.out.split() == ["n", "──", "16"]
    text = cli.run("archive", "sql", "SELECT id, retracted FROM stored_events", "--csv", *there)
    assert "p:1,True" in text.out.splitlines()
    [row] = cli.run(
        "archive", "sql", "SELECT payload FROM events WHERE id = 'e3'", "--json", *there
    ).json
    assert json.loads(row["payload"]) == {"n": 3}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT nothing FROM events", "nothing"),
        ("SELEC", "syntax error"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("COPY events TO '/tmp/x.csv'", "disabled"),
        ("SET enable_external_access = true", "locked"),
        ("", "query '': it is empty; give SQL, such as 'SELECT key, sum(value) FROM events"),
        (";", "query ';': it is empty"),
        ("/* events */ -- of a key", "of a key': it is empty"),
    ],
)
def test_a_wrong_query_is_told(cli: CommandLine, query: str, words: str) -> None:
    answer = cli.run("archive", "sql", query, *HERE)
    assert answer.status == 2
    assert words in answer.err


@pytest.mark.parametrize(("form", "rows"), [((), 0), (("--csv",), 2_000)])
def test_a_row_that_fails_late_is_told(cli: CommandLine, form: tuple[str, ...], rows: int) -> None:
    query = f"SELECT if(range = {LATE}, 'x', '1')::INT AS a FROM range({LATE + 1})"
    answer = cli.run("archive", "sql", query, *form, *HERE)
    assert answer.status == 2
    assert "DuckDB: Conversion Error" in answer.err
    assert len(answer.out.splitlines()) >= rows


def test_columns_of_one_name_are_numbered_in_json(cli: CommandLine) -> None:
    query = "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS b, 5 AS a"
    [row] = cli.run("archive", "sql", query, "--json", *HERE).json
    assert row == {"a": 1, "a_1": 2, "a_1_1": 3, "b": 4, "a_2": 5}
    assert cli.run("archive", "sql", query, "--csv", *HERE).out == "a,a,a_1,b,a\n1,2,3,4,5\n"


def test_values_of_every_kind_are_shown(cli: CommandLine) -> None:
    query = (
        "SELECT 'nan'::DOUBLE AS a, ['-inf'::DOUBLE, 0.5] AS b, {'x': 'inf'::FLOAT} AS c,"
        " 0.0::DOUBLE AS d, NULL AS e, true AS f, DATE '2026-11-20' AS g"
    )
    answer = cli.run("archive", "sql", query, "--json", *HERE)
    [row] = [json.loads(line, parse_constant=pytest.fail) for line in answer.out.splitlines()]
    assert list(row.values()) == ["nan", ["-inf", 0.5], {"x": "inf"}, 0.0, None, True, "2026-11-20"]
    table = cli.run("archive", "sql", query, *HERE)
    cells = table.out.splitlines()[2].split("  ")
    assert (table.status, [*filter(None, map(str.strip, cells))]) == (
        0,
        ["nan", '["-inf", 0.5]', '{"x": "inf"}', "0.0", "yes", "2026-11-20"],
    )


def test_without_archives_there_is_nothing_to_query(cli: CommandLine, whole: Archived) -> None:
    whole.remove(f"{whole.prefix}/proof.json")
    answer = cli.run("archive", "sql", SUMS, *HERE)
    assert (answer.status, answer.out) == (3, "")
