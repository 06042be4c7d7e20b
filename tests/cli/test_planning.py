"""`tallyroll plan`: from options, from a file, as JSON and as a context; partition keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallyroll.settings.options import Options
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import NOW


def events_file(path: Path, lines: int = 300) -> Path:
    rows = [
        {"id": f"e{n}", "key": "hot" if n % 3 else f"k{n}", "ts": NOW + n * 5} for n in range(lines)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_plan_from_options(cli: CommandLine) -> None:
    answer = cli.run("plan", "--rate", "5000", "--hottest", "2000", "--mean", "300")
    assert answer.status == 0
    for text in ("shards, at least", "warm throughput", "in all", "deleting item by item instead"):
        assert text in answer.out
    assert "warm throughput: charged for each table" in answer.err
    # In the month's line, in what explains it, and in the warning.
    assumed = "the price of a warm unit is an assumption that no bill has confirmed"
    assert " ".join(answer.out.split()).count(assumed) == 2
    assert assumed in " ".join(answer.err.split())
    cold = cli.run("plan", "--rate", "50", "--mean", "3")
    assert assumed not in " ".join((cold.out + cold.err).split())


def test_a_plan_as_json_and_its_context(cli: CommandLine) -> None:
    (told,) = cli.run("plan", "--rate", "5_000", "--hottest", "2000", "--json").json
    assert told["load"]["keys"] == 1_000
    assert told["shards"] == 5
    assert told["dollars_a_month"]["in all"] > told["dollars_a_month"]["SQS"] > 0
    assert {"name", "value", "formula", "source", "warning"} == set(told["lines"][0])
    answer = cli.run("plan", "--rate", "5000", "--hottest", "2000", "--context")
    context = json.loads(answer.out)
    assert context == told["context"]
    assert Options.from_context(context).warm_units == told["warm_units"]


def test_beside_a_plan_are_cheaper_ones_and_why_it_is_expensive(cli: CommandLine) -> None:
    asked = ("plan", "--rate", "5000", "--hottest", "2000", "--mean", "300")
    (told,) = cli.run(*asked, "--json").json
    names = [each["name"] for each in told["cheaper"]]
    log = "a log of the hottest key"
    assert names == ["packets of 17", "no warm throughput", "windows of a day", log]
    dollars = [each["dollars"] for each in told["cheaper"]]
    assert dollars[1] == pytest.approx(told["dollars_a_month"]["in all"] - 7_117.50)
    answer = cli.run(*asked)
    for name, cost in zip(names, dollars, strict=True):
        assert f"{name} {cost:,.2f}" in " ".join(answer.out.split())
    (why,) = told["explained"]
    assert why in " ".join(answer.out.split())
    assert not any("count" in line.split() for line in answer.out.splitlines() if "dollars" in line)


def test_reads_are_planned(cli: CommandLine) -> None:
    asked = ("plan", "--rate", "5000", "--hottest", "2000", "--reads", "20_000", "--asked", "1")
    answer = cli.run(*asked, "--staleness", "10s")
    assert answer.row("HTTP", "API", "52,560.00", "52,560,000,000", "requests", "x", "$1", "a")
    assert "(400 caches x 1 keys / 10 s)" in " ".join(answer.out.split()).replace("20,000, ", "(")
    assert "over API Gateway's default quota of 10,000 a second" in answer.err


@pytest.mark.parametrize(
    "asked",
    [
        ("plan", "--rate", "5000", "--hottest", "2000", "--reads", "20_000"),
        ("simulate", "--rate", "500", "--lasts", "10s", "--compare"),
    ],
)
def test_without_a_terminal_it_is_80_columns_wide(cli: CommandLine, asked: tuple[str, ...]) -> None:
    lines = [line.rstrip() for line in cli.run(*asked).out.splitlines()]
    assert max(map(len, lines)) == 80


def test_a_plan_from_a_file_of_events(cli: CommandLine, tmp_path: Path) -> None:
    path = events_file(tmp_path / "events.jsonl")
    (told,) = cli.run("plan", str(path), "--json").json
    assert told["load"]["events_per_second"] == 200
    assert told["load"]["hottest_per_second"] == 133
    with path.open("a") as file:
        file.write("no JSON\n")
    answer = cli.run("plan", str(path), "--packed", "10")
    assert answer.status == 1
    assert "line 301: not-json" in answer.err
    assert "300 of 300 events have ids of their own" in answer.err


def test_windows_and_retention_are_planned(cli: CommandLine) -> None:
    asked = ("plan", "--rate", "10", "--window", "1d", "--retention", "7d", "--json")
    (told,) = cli.run(*asked).json
    assert told["context"]["tallyroll:window_seconds"] == 86_400
    assert told["context"]["tallyroll:retention_seconds"] == 604_800


def test_ids_that_count_once_beyond_their_window_are_planned(cli: CommandLine) -> None:
    asked = ("plan", "--rate", "5000", "--identity", "pipeline")
    (told,) = cli.run(*asked, "--json").json
    lines = {line["name"]: line["value"] for line in told["lines"]}
    assert lines["write units of ids a second"] == 10_000
    assert lines["write units of an event's id"] == 2
    assert told["dollars_a_month"]["writes of their ids"] > 0
    assert told["context"]["tallyroll:identity"] == "pipeline"
    answer = cli.run(*asked)
    assert "warm throughput of identities: set by UpdateTable on NAME-identities" in answer.err
    assert "ids that stay taken" in answer.out
    plain = cli.run("plan", "--rate", "5000", "--identity", "window", "--json")
    assert plain.json == cli.run("plan", "--rate", "5000", "--json").json
    assert cli.run("plan", "--from-deployment", "--identity", "key").status == 2


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ((), "give --rate"),
        (("--rate", "x"), "give a number"),
        (("--rate", "-5"), "tallyroll: --rate -5.0: must be a number above 0"),
        (("--rate", "5", "--hottest", "6"), "tallyroll: --hottest 6: one key cannot have more"),
        (("--rate", "5", "--hottest", "-1"), "--hottest -1.0: must be a number above 0"),
        (("--rate", "5", "--mean", "6"), "--mean 6: the mean cannot be above the peak, 5"),
        (("--rate", "9", "--hottest", "1", "--distinct", "2"), "the hottest has at least 4.5"),
        (("--rate", "9", "--hottest", "1", "--distinct", "0"), "--distinct 0: must be from 1"),
        (("--rate", "5", "--event-bytes", "0"), "--event-bytes 0: must be from 1"),
        (("--rate", "5", "--packed", "0"), "--packed 0: must be from 1 to 1,000"),
        (("--rate", "5", "--reads", "-1"), "--reads -1.0: must be 0 or more"),
        (("--rate", "4_600_000"), "--rate 4,600,000: one key takes at most"),
        (("--rate", "4_000_000", "--hottest", "4_000"), "--rate 4,000,000: takes"),
        (("--rate", "5", "--window", "1500ms"), "windows have whole seconds"),
        (("--rate", "5", "--retention", "365d"), "over the quota of 2,500"),
        (("--rate", "5", "--sort", "x"), "--sort: give --keys FILE"),
        (("--keys", "x"), "give --keys FILE and --by FIELD together"),
        (("--by", "x"), "give --keys FILE and --by FIELD together"),
        (("absent.jsonl",), "absent.jsonl"),
        (("absent.jsonl", "--rate", "5"), "not both"),
        (("absent.jsonl", "--event-bytes", "900"), "leave out --event-bytes"),
        (("absent.jsonl", "--distinct", "5"), "leave out --event-bytes, --distinct"),
        (("--keys", "x", "--by", "y", "--rate", "5"), "give only --by and --sort"),
        (("--keys", "x", "--by", "y", "--context"), "give only --by and --sort"),
        (("--keys", "x", "--by", "y", "--identity", "key"), "give only --by and --sort"),
        (("--rate", "5", "--identity", "day"), "window"),
        (("--rate", "inf"), "must be a number above 0"),
        (
            ("--rate", "5", "--staleness", "2m"),
            "--staleness 120: a count is cached for at most 60 s",
        ),
        (("--rate", "5", "--asked", "2"), "--asked 2: --rate alone plans one key; give --hottest"),
        (("--rate", "5", "--hottest", "2", "--asked", "0"), "--asked 0: must be from 1 to 1,000"),
    ],
)
def test_nonsense_is_refused(cli: CommandLine, asked: tuple[str, ...], why: str) -> None:
    answer = cli.run("plan", *asked)
    assert (answer.status, answer.out) == (2, "")
    assert why in answer.err


def test_a_packet_in_the_file_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "packets.jsonl"
    packet = {"id": "p", "key": "k", "t0": NOW, "events": [[0], [1]]}
    path.write_text(json.dumps(packet) + "\n")
    answer = cli.run("plan", str(path))
    assert (answer.status, answer.out) == (2, "")
    assert "line 1 is a packet: give the events that are in it" in answer.err


def test_without_a_mean_the_month_is_at_the_peak(cli: CommandLine) -> None:
    remark = "the month is at the peak all the time: give --mean for another rate"
    assert remark in cli.run("plan", "--rate", "50").err
    assert remark not in cli.run("plan", "--rate", "50", "--mean", "5").err


def test_a_partition_key_is_scored(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    rows = [{"status": "ab"[n % 2], "user": f"u{n % 700}", "at": n} for n in range(2_000)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    answer = cli.run("plan", "--keys", str(path), "--by", "status", "--sort", "at")
    assert answer.status == 0
    assert answer.out.startswith("status as partition key: bad")
    assert "sort keys ascend" in answer.out
    (told,) = cli.run("plan", "--keys", str(path), "--by", "user", "--json").json
    assert (told["by"], told["verdict"], told["values"]) == ("user", "good", 700)
    path.write_text('{"a": 1}\n{"a": \n')
    broken = cli.run("plan", "--keys", str(path), "--by", "a")
    assert (broken.status, broken.out) == (2, "")
    assert f"{path}, line 2: Expecting value" in broken.err
    path.write_text("[1]\n")
    assert "line 1: not a JSON object" in cli.run("plan", "--keys", str(path), "--by", "a").err


def test_a_load_in_a_given_time_is_planned(cli: CommandLine, tmp_path: Path) -> None:
    path = events_file(tmp_path / "events.jsonl")
    (told,) = cli.run("plan", str(path), "--within", "1m", "--json").json
    lines = {line["name"]: line["value"] for line in told["lines"]}
    assert (lines["events a second"], lines["windows to open"]) == (5, 1)
    assert told["dollars_once"]["in all"] >= 0
    items = ("plan", "--items", "20_000_000", "--event-bytes", "1024", "--within", "30m")
    answer = cli.run(*items)
    assert "11,111 20,000,000 items x 1 / 1,800 s" in " ".join(answer.out.split())
    assert "Once, in US dollars, without storage" in answer.out
    assert "over the default quota of 40,000 a table" in answer.err


def test_a_provisioned_tables_partitions_are_shown(cli: CommandLine) -> None:
    asked = ("plan", "--units", "5000/2000", "--raised", "8000/2000", "--stored", "85")
    (told,) = cli.run(*asked, "--cut", "8000/200", "--json").json
    assert [step["partitions"] for step in told["steps"]] == [4, 8, 9, 9]
    assert told["steps"][3]["each"][0] == {"partitions": 7, "read_units": 1000, "write_units": 25}
    answer = cli.run(*asked)
    assert "raised to 8,000/2,000" in answer.out
    assert "today a partition takes up to 1,000 write units a second" in answer.err


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (("--within", "30m"), "--within TIME: give FILE with it, or --items N of --event-bytes"),
        (("--items", "5"), "--within TIME: give FILE with it"),
        (("f.jsonl", "--items", "5", "--within", "1m"), "--within TIME: give FILE with it"),
        (("--items", "0", "--within", "1m"), "--items 0: must be from 1"),
        (("--items", "5", "--within", "40d"), "--within 3.456e+06 s: must be from 1 s to 30 days"),
        (("--items", "5", "--within", "1m", "--rate", "5"), "give only --event-bytes, --distinct"),
        (("f.jsonl", "--within", "1m", "--distinct", "5"), "give only --packed of a load"),
        (("--items", "5", "--within", "1m", "--context"), "leave out --context"),
        (("--items", "900_000_000", "--within", "10s"), "--within is too short: events a second"),
        (("--units", "5/x"), "'5/x': give read and write units a second"),
        (("--units", "5/2e9"), "give read and write units a second"),
        (("--units", "5/3", "--stored", "-1"), "--stored -1: give GB, from 0 to 10^9"),
        (("--units", "5/3", "--cut", "6/1"), "--cut 6/1: must be 5/3 or less"),
        (("--cut", "6/1"), "--raised, --stored and --cut: give --units R/W with them"),
        (("--units", "5/3", "--rate", "5"), "--units makes a table: give only --raised"),
    ],
)
def test_other_nonsense_is_refused(cli: CommandLine, asked: tuple[str, ...], why: str) -> None:
    answer = cli.run("plan", *asked)
    assert (answer.status, answer.out) == (2, "")
    assert why in answer.err


def test_a_plan_warns_of_an_uneven_suffix(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "suffix product" not in cli.run("plan", "--rate", "50").err
    monkeypatch.setenv("TALLYROLL_SUFFIX", "product")
    monkeypatch.setenv("TALLYROLL_SHARDS", "200")
    answer = cli.run("plan", "--rate", "50")
    assert "suffix product sends 64% of random 8-digit ids to suffix 1" in answer.err
    (context,) = cli.run("plan", "--rate", "50", "--context", "--json").json
    assert (context["tallyroll:suffix"], context["tallyroll:shards"]) == ("product", 200)
    monkeypatch.setenv("TALLYROLL_SUFFIX", "randomly")
    refused = cli.run("plan", "--rate", "50")
    assert (refused.status, refused.out) == (2, "")
    assert "TALLYROLL_SUFFIX" in refused.err


def test_logs_are_planned(cli: CommandLine, tmp_path: Path) -> None:
    asked = ("plan", "--rate", "5000", "--hottest", "2000", "--mean", "300")
    answer = cli.run(*asked, "--logs", '{"home": 2000}')
    said = " ".join(answer.out.split())
    assert "2,000 logged events x" in said
    assert "reads of their slots" in said
    file = tmp_path / "events.jsonl"
    some = [{"key": "home", "ts": NOW} for _ in range(900)]
    some += [{"key": "own", "id": f"e{number}", "ts": NOW} for number in range(900)]
    file.write_text("".join(json.dumps(row) + "\n" for row in some))
    (told,) = cli.run("plan", str(file), "--json").json
    (log,) = [each for each in told["cheaper"] if "log" in each["name"]]
    assert log["name"] == "logs of 'home' (900)"
    assert "logs" not in told["load"]
    (told,) = cli.run("plan", str(file), "--logs", '{"home": 900, "own": 900}', "--json").json
    assert told["load"]["logs"]["home"] == {"events_per_second": 900, "named": 900}
    assert told["load"]["logs"]["own"] == {"events_per_second": 0, "named": 900}
    assert told["dollars_a_month"]["in all"] == pytest.approx(log["dollars"], abs=0.1)
    wrong = cli.run(*asked, "--logs", '{"home": 6000}')
    assert (wrong.status, "--logs 6,000: these keys cannot have more" in wrong.err) == (2, True)
    refused = cli.run(*asked, "--logs", '{"home": 0}').err
    assert """Invalid value for --logs: '{"home": 0}': give an object""" in refused


def test_each_logged_key_of_a_file_is_planned_at_its_own_peak(
    cli: CommandLine, tmp_path: Path
) -> None:
    """Also one that is none of the hottest, and two that are hottest one after another."""
    file = tmp_path / "events.jsonl"
    some = [{"key": "a", "ts": NOW} for _ in range(900)]
    some += [{"key": "b", "ts": NOW + 1_000} for _ in range(900)]
    some += [{"key": f"k{n}", "ts": NOW + 2_000} for n in range(30) for _ in range(10)]
    some += [{"key": "least", "ts": NOW + 2_000}]
    file.write_text("".join(json.dumps(row) + "\n" for row in some))
    (told,) = cli.run("plan", str(file), "--json").json
    assert [each["name"] for each in told["cheaper"] if "log" in each["name"]]
    named = {"a": 900, "b": 900, "least": 1}
    (told,) = cli.run("plan", str(file), "--logs", json.dumps(named), "--json").json
    rates = {key: each["events_per_second"] for key, each in told["load"]["logs"].items()}
    assert rates["a"] == rates["b"] == pytest.approx(450, rel=0.01)
    assert rates["least"] == pytest.approx(0.5, rel=0.01)
