"""What `tallyroll load` does to times and values so that they count, and tells of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tallyroll.model.amounts import JsonFloat, parse_amount, rounded
from tests.cli.command_line import CommandLine, lines
from tests.harness.pipeline import NOW, SECOND

pytestmark = pytest.mark.usefixtures("here")

ISO = "2026-11-20T08:30:00Z"  # NOW


def bodies(cli: CommandLine) -> list[dict[str, Any]]:
    return [json.loads(body) for body in cli.producer.bodies]


def bad_lines(folder: Path) -> list[tuple[int, str]]:
    (path,) = folder.glob("*.bad.jsonl")
    told = [json.loads(line) for line in path.read_text().splitlines()]
    return [(each["line"], each["reason"]) for each in told]


def test_times_as_texts_in_events_of_our_own_form(cli: CommandLine, here: Path) -> None:
    """With all that an event can have: no column is named."""
    packet = {"v": 1, "id": "p", "key": "k", "t0": NOW, "events": [[0, 2]]}
    (here / "e.jsonl").write_bytes(
        lines(
            {"key": "k", "ts": ISO, "value": 0.25, "payload": "a text", "id": "e"},
            {"key": "k", "ts": "2026-11-20 09:30:00.5+01:00"},
            {"key": "k", "ts": "2026-11-20T08:30"},
            {"key": "k", "ts": NOW},
            packet,
            {"key": "k", "ts": "soon"},
            {**packet, "t0": ISO},
        )
    )
    answer = cli.run("load", "e.jsonl", "--no-pack")
    assert answer.status == 1
    assert [each["ts"] for each in bodies(cli) if "ts" in each] == [NOW, NOW + 500, NOW, NOW]
    (own,) = [each for each in bodies(cli) if each["id"] == "e"]
    assert (own["value"], own["payload"]) == (0.25, "a text")
    assert packet in bodies(cli)
    assert bad_lines(here) == [(6, "bad-ts"), (7, "bad-ts")]
    assert "1 line had a time without a zone, which was read as UTC" in answer.err
    assert "ts 'soon': must be a number or a time as ISO 8601 has it" in answer.err
    assert "--ts-value T one time for all events" in answer.err


def test_what_is_read_a_second_time_is_noted_once(cli: CommandLine, here: Path) -> None:
    zoneless = {"key": "k", "ts": ISO.removesuffix("Z"), "value": 1 / 3}
    (here / "f.jsonl").write_bytes(lines(zoneless))
    answer = cli.run("load", "f.jsonl", "--key", "key", "--ts", "ts", "--round", "6")
    assert "1 line had a time without a zone, which was read as UTC" in answer.err


@pytest.mark.parametrize("form", ["own", "columns", "mapping", "csv", "parquet"])
def test_values_are_rounded_where_that_is_asked_for(
    cli: CommandLine, here: Path, form: str
) -> None:
    values = [0.1 + 0.2, 1 / 3, 2.0000005, 2.0000015, -1e-9, 7, 1.5]
    options = {
        "columns": ("--key", "key"),
        "mapping": ("--mapping", '{"key": "key", "ts": "ts", "value": "value"}'),
    }.get(form, ())
    if form == "csv":
        name = "e.csv"
        (here / name).write_text("key,ts,value\n" + "".join(f"k,{NOW},{v!r}\n" for v in values))
    elif form == "parquet":
        name = "e.parquet"
        rows = ",".join(f"('k', {NOW}, {v!r}::DOUBLE)" for v in values)
        duckdb.sql(f"COPY (SELECT * FROM (VALUES {rows}) AS t(key, ts, value)) TO '{name}'")
    else:
        name = "e.jsonl"
        (here / name).write_bytes(lines(*({"key": "k", "ts": NOW, "value": v} for v in values)))
    answer = cli.run("load", name, *options)
    assert answer.status == 1
    assert [reason for _, reason in bad_lines(here)] == ["bad-value"] * 5
    assert "bad-value: a value is a number of at most 6 decimals; --round 6 rounds it" in answer.err
    cli.producer.bodies.clear()
    answer = cli.run("load", name, *options, "--round", "6", "--no-pack")
    assert (answer.status, answer.err) == (0, "")
    found = sorted(each["value"] for each in bodies(cli))
    assert found == [0, 0.3, 0.333333, 1.5, 2.0, 2.000002, 7]


def test_rounding_is_exact_and_leaves_what_no_amount_can_be() -> None:
    endless = JsonFloat("1e-99999999999999999999")
    for number in (1e300, float("inf"), float("nan"), "1", None, True, 5, endless):
        assert rounded(number, 6) is number
    assert parse_amount(rounded(999_999_999_999_999.9999996, 3)) == 10**15 * 10**6
    assert parse_amount(rounded(-0.0, 0)) == 0
    assert parse_amount(rounded(2.5, 0)) == parse_amount(rounded(1.5, 0)) == 2_000_000


def test_one_time_for_all_events(cli: CommandLine, here: Path) -> None:
    """Also for lines whose own time would be refused; packets keep theirs."""
    packet = {"v": 1, "id": "p", "key": "k", "t0": NOW - SECOND, "events": [[0]]}
    given: list[dict[str, Any]] = [
        {"key": "k"},
        {"key": "k", "ts": "soon"},
        {"key": "k", "ts": NOW // 1000},
        {"key": "k", "ts": NOW - 1},
    ]
    (here / "e.jsonl").write_bytes(lines(*given, packet))
    (here / "e.csv").write_text("key,ts\nk,soon\nk,\n")
    (here / "f.csv").write_text("key\nk\n")
    answer = cli.run("load", "e.jsonl", "e.csv", "f.csv", "--ts-value", ISO, "--no-pack")
    assert (answer.status, answer.err) == (0, "")
    assert [each["ts"] for each in bodies(cli) if each["id"] != "p"] == [NOW] * 7
    cli.drain()
    assert cli.run("--json", "count", "k").json[0]["events"] == 8


def test_the_same_file_at_another_time_or_with_other_decimals_has_other_ids(
    cli: CommandLine, here: Path
) -> None:
    (here / "e.csv").write_text("key,value\nk,1.25\n")
    for options in (("--ts-value", ISO), ("--ts-value", str(NOW + 1))):
        for more in ((), ("--round", "1")):
            assert cli.run("load", "e.csv", *options, *more).status == 0
    assert len({each["id"] for each in bodies(cli)}) == 4
    assert sorted(each["events"][0][1] for each in bodies(cli)) == [1.2, 1.2, 1.25, 1.25]


def test_one_time_in_a_mapping(cli: CommandLine, here: Path) -> None:
    (here / "e.jsonl").write_bytes(lines({"a": "k"}))
    mapping = {"key": "a", "ts": f"`{NOW}`"}
    assert cli.run("load", "e.jsonl", "--mapping", json.dumps(mapping), "--no-pack").status == 0
    assert bodies(cli)[0]["ts"] == NOW


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--ts-value", "yesterday"), "--ts-value"),  # it would be another time tomorrow
        (("--ts-value", "1970-01-02"), "looks like seconds"),
        (("--ts-value", ISO, "--ts", "at"), "leave out --ts and --ts-unit"),
        (("--ts-value", ISO, "--ts-unit", "s"), "leave out --ts and --ts-unit"),
        (("--ts-value", ISO, "--mapping", '{"key": "a"}'), "`1795163400000`"),
        (("--round", "7"), "give the number of decimals, 0 to 6"),
        (("--round", "-1"), "give the number of decimals, 0 to 6"),
    ],
)
def test_wrong_use(cli: CommandLine, here: Path, argv: tuple[str, ...], said: str) -> None:
    (here / "e.csv").write_text("key,at\nk,1\n")
    answer = cli.run("load", "e.csv", *argv)
    assert (answer.status, answer.out) == (2, "")
    assert said in answer.err
    assert cli.producer.tried == []
