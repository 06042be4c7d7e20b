"""`tallyroll simulate`: a model of partitions, from options or a file."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.harness.pipeline import NOW


def test_a_simulation_from_options(cli: CommandLine, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    asked = ("simulate", "--rate", "2500", "--lasts", "200s", "--report", str(page))
    answer = cli.run(*asked)
    assert answer.status == 0
    assert "partitions, at first" in answer.out
    assert f"wrote {page}" in answer.err
    assert "<svg" in page.read_text()


def test_the_delay_strategies_and_json(cli: CommandLine) -> None:
    asked = ("simulate", "--rate", "1500", "--lasts", "3m", "--delay", "30s", "--compare")
    answer = cli.run(*asked)
    assert "a delay of 30 s is kept by" in answer.out
    assert "counts twice" in answer.out
    (told,) = cli.run(*asked, "--json").json
    assert told["fewest_shards"] > 2
    assert told["sent"] >= told["counted"] > 0
    assert len(told["strategies"]) == 6
    assert told["seconds"] == 180


def test_the_writers_own_transactions(cli: CommandLine) -> None:
    asked = ("simulate", "--rate", "300", "--lasts", "20s", "--json")
    (told,) = cli.run(*asked, "--transactions").json
    (flow,) = cli.run(*asked).json
    assert told["counted"] == pytest.approx(flow["counted"], rel=0.1)


def test_a_file_of_events(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    rows = [{"id": f"e{n}", "key": f"k{n % 3}", "ts": NOW + 100 * n} for n in range(600)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "no JSON\n")
    answer = cli.run("simulate", str(path), "--json")
    assert answer.status == 1
    (told,) = answer.json
    assert (told["seconds"], told["load"]) == (60, "recorded")
    assert told["sent"] == pytest.approx(600, rel=0.2)


def test_a_hot_partition_exceeds_its_share_and_partitions_split(cli: CommandLine) -> None:
    asked = ("simulate", "--rate", "70", "--shards", "1", "--provisioned", "400")
    (lent,) = cli.run(*asked, "--partitions", "4", "--json").json
    assert (lent["throttled_share"], lent["waiting"]) == (0, 0)
    assert lent["write_units"] / lent["seconds"] == pytest.approx(144, abs=1)
    split = ("simulate", "--rate", "1500", "--shards", "8", "--lasts", "30m", "--json")
    (found,) = cli.run(*split).json
    assert (found["partitions_at_start"], found["partitions"]) == (4, 12)


def test_one_key_is_divided_only_where_its_sort_keys_do_not_ascend(cli: CommandLine) -> None:
    asked = ("simulate", "--rate", "1500", "--shards", "1")
    (never,) = cli.run(*asked, "--json").json
    assert never["throttled_share"] == 1
    answer = cli.run(*asked, "--random-sort-keys")
    for row in ("nothing throttled from 636 s on", "events waiting at the end 0"):
        assert answer.row(*row.split())


def test_the_guides_load_test(cli: CommandLine) -> None:
    """A table that was made for 11,000 write units and cut to 400 still has 11 partitions."""
    asked = ("simulate", "--rate", "150", "--provisioned", "400", "--lasts", "1m")
    made = ("--partitions", "11", "--stored", "100", "--reads", "900", "--distinct", "1000")
    (told,) = cli.run(*asked, *made, "--mix", "zipf", "--json").json
    assert (told["partitions_at_start"], told["partitions"]) == (11, 11)
    assert (told["totals"]["keys"], told["totals"]["write_units"]) == (1_000, 4_000)
    assert told["reads_throttled_share"] > 0
    answer = cli.run(*asked, *made)
    assert "read units throttled" in answer.out
    assert "sealing 1 keys, write units" in answer.out
    assert cli.run(*asked, "--json").json[0]["partitions"] == 1


@pytest.mark.parametrize(("shape", "events"), [("step", 55_200), ("spike", 65_847)])
def test_a_load_that_changes(cli: CommandLine, shape: str, events: int) -> None:
    asked = ("--shape", shape, "--peak", "900", "--at", "1m", "--mix", "zipf", "--distinct", "9")
    (told,) = cli.run("simulate", "--rate", "20", "--lasts", "2m", *asked, "--json").json
    assert told["load"] == f"{shape} 20 events/s, zipf, then 900"
    assert told["sent"] == pytest.approx(events, rel=0.02)
    mix = ("--mix", "hotspot", "--hotspot", "0.2/0.8", "--distinct", "10")
    (told,) = cli.run("simulate", "--rate", "20", "--lasts", "10s", *mix, "--json").json
    assert told["load"] == "flat 20 events/s, hotspot"


def test_a_file_is_the_load_and_its_events_need_times(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"key": "k"}\n')
    both = cli.run("simulate", str(path), "--rate", "1")
    assert (both.status, both.out) == (2, "")
    assert "give FILE or --rate, not both" in both.err
    undated = cli.run("simulate", str(path))
    assert (undated.status, undated.out) == (2, "")
    assert f"{path}: an event of 'k' has no ts" in undated.err


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ((), "give --rate"),
        (("--rate", "0"), "--rate 0: must be more than 0"),
        (("--rate", "10", "--peak", "20"), "--peak belongs to --shape"),
        (("--rate", "10", "--shape", "step"), "--peak belongs to --shape"),
        (("--rate", "10", "--shape", "spike", "--peak", "-1"), "--peak -1"),
        (("--rate", "10", "--lasts", "100ms"), "--lasts 0.1s"),
        (("--rate", "10", "--mix", "hotspot", "--hotspot", "x"), "--hotspot 'x'"),
        (("--rate", "10", "--mix", "zipf", "--distinct", "0"), "--distinct 0"),
        (("--rate", "20000", "--lasts", "2s", "--transactions"), "up to 10,000"),
        (("--rate", "20", "--lasts", "2h", "--transactions"), "within one window"),
        (("--rate", "10", "--partitions", "3"), "--partitions 3: throughput and size need at"),
        (("--rate", "10", "--stored", "-1"), "--stored -1: must be from 0 to"),
        (("absent.jsonl",), "absent.jsonl"),
        (("absent.jsonl", "--rate", "1"), "absent.jsonl"),
        (("--rate", "10", "--lasts", "2s", "--report", "/absent/x.html"), "--report"),
    ],
)
def test_nonsense_is_refused(cli: CommandLine, asked: tuple[str, ...], why: str) -> None:
    answer = cli.run("simulate", *asked)
    assert (answer.status, answer.out) == (2, "")
    assert why in answer.err


def test_a_missing_numpy_is_named_with_its_remedy(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "numpy" else found(name))
    answer = cli.run("simulate", "--rate", "10")
    assert answer.status == 3
    assert "needs numpy: pip install '.[planning]'" in answer.err
