"""The comparison with other ways to count: what it says of each of them is so."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.peers import __main__ as bench
from benchmarks.peers import load as loads
from benchmarks.peers import measure, report, ways
from benchmarks.peers.measure import Measured, measured
from benchmarks.peers.reads import Read, measured_reads
from benchmarks.peers.ways import Adding, Powertools, PynamoDB, RandomShards, Summing, Way
from benchmarks.peers.wire import Wire
from local.aws.embedded import Embedded
from tallyroll.settings import Settings

EVENTS = 300
AGAIN = 15  # 5 % of them
WRITTEN = 101  # by the writer that dies


@pytest.fixture(scope="module")
def aws() -> Iterator[Embedded]:
    with (
        Embedded(Settings(name="peers", shards=4)) as embedded,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in embedded.environment.items():
            patch.setenv(name, value)
        patch.setattr(ways, "PROGRESS_MS", 20)
        patch.setattr(measure, "PROGRESS_MS", 20)
        yield embedded


@pytest.fixture
def wire() -> Iterator[Wire]:
    tapped = Wire()
    with tapped.tapped():
        yield tapped


def _single(name: str = "single") -> loads.Load:
    return loads.own_ids(name, loads.keys_of("hot", EVENTS), int(time.time() * 1_000))


def _run(way: Way, load: loads.Load, wire: Wire, dies_after: int) -> Measured:
    way.dies_after = dies_after
    told: list[int] = []
    row = measured(way, load, wire, told.append, sealed=True)
    assert told == list(map(len, load.batches))
    assert row.counted - row.events == row.off
    return row


@pytest.mark.parametrize("kind", [Adding, RandomShards, PynamoDB])
def test_additions_count_redeliveries_and_what_a_dead_writer_wrote_twice(
    kind: type[Adding | RandomShards | PynamoDB], aws: Embedded, wire: Wire
) -> None:
    row = _run(kind(kind.__name__, f"a-{kind.__name__}"), _single(), wire, WRITTEN)
    assert row.off == AGAIN + WRITTEN
    assert row.units == row.requests == (EVENTS + AGAIN + WRITTEN) / EVENTS


def test_sums_of_batches_take_few_writes_and_count_each_redelivered_batch_twice(
    aws: Embedded, wire: Wire
) -> None:
    load = _single()
    row = _run(Summing("g", "sums", 1), load, wire, 1)
    assert row.off == AGAIN + len(load.batches[load.dies])
    invocations = sum(1 for batch in load.batches if batch) + 1  # the one that died comes again
    assert row.units == row.requests == invocations / EVENTS


def test_powertools_counts_the_event_twice_on_which_its_function_died(
    aws: Embedded, wire: Wire
) -> None:
    row = _run(Powertools("b", "powertools"), _single(), wire, WRITTEN)
    assert row.off == 1
    assert row.requests > 3


@pytest.mark.parametrize(("scope", "items"), [("window", 1), ("pipeline", 2)])
def test_tallyroll_is_exact(scope: str, items: int, aws: Embedded, wire: Wire) -> None:
    name = f"ids-{scope}"
    row = _run(bench.ours(aws, name, 2, ["hot"], identity=scope), _single(name), wire, 2)
    assert row.exact
    # The dead writer's transactions, and the cancelled ones, cost too.
    assert 2 * items < row.units < 5 * items


def test_the_ids_that_both_remember_for_days_are_remembered_as_long(
    aws: Embedded, wire: Wire
) -> None:
    way = Powertools("b", "remembering")
    load = _single()
    way.handle(loads.invocation(load.batches[0][:1]))
    [item] = ways.dynamodb_client().scan(TableName="remembering-done")["Items"]
    days = (int(item["expiration"]["N"]) - time.time()) / 86_400
    assert round(days, 2) == Settings(name="peers").identity_days


@pytest.mark.parametrize("payloads", loads.PAYLOADS)
def test_packets_of_many_keys_are_exact(payloads: str, aws: Embedded, wire: Wire) -> None:
    keys = loads.keys_of("zipf", EVENTS)
    way = bench.ours(aws, f"zipf-{payloads}", 1, keys)
    load = loads.packed(payloads, keys, int(time.time() * 1_000), payloads)
    assert len(load.truth) > 50
    row = _run(way, load, wire, 1)
    assert row.exact


def test_a_way_that_should_have_died_and_did_not_ends_the_comparison(
    aws: Embedded, wire: Wire
) -> None:
    with pytest.raises(RuntimeError, match="did not die"):
        _run(Adding("a", "immortal"), _single(), wire, EVENTS + 1)


def test_payloads_have_40_bytes() -> None:
    for kind in ("text", "random"):
        load = loads.packed(kind, loads.keys_of("hot", 100), 1_795_161_600_000, kind)
        bare = loads.packed(kind, loads.keys_of("hot", 100), 1_795_161_600_000)
        size = len("".join(load.bodies)) - len("".join(bare.bodies))
        assert 35 <= size / 100 <= 48


def test_reads_are_compared_with_the_truth(aws: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peers.reads.SHARDS", (1, 3))
    monkeypatch.setattr("benchmarks.peers.reads.TIMES", 2)
    monkeypatch.setattr("benchmarks.peers.reads.WARM_UP", 1)
    found = measured_reads(aws, bench.pipeline_of)
    assert [read.shards for read in found] == [1, 3]
    assert all(read.ours > 0 and read.in_turn > 0 and read.threads > 0 for read in found)


def test_the_documents_have_tables_and_charts_between_their_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme, whole = tmp_path / "README.md", tmp_path / "benchmarks.md"
    for path in (readme, whole):
        path.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    monkeypatch.setattr(report, "README", readme)
    monkeypatch.setattr(report, "WHOLE", whole)
    monkeypatch.setattr(report, "PICTURES", tmp_path / "pictures")
    rows = [
        Measured("(a) <plain>", 100, 120, 20, 10.0, 1.0, 1.0, 900.0, 2.5),
        Measured("(c) other", 100, 120, 20, 10.0, 1.0, 1.0, 900.0, 2.5),
        Measured("(e) Tallyroll", 100, 100, 0, 50.0, 0.01, 2.1, 60.0, 1.5),
    ]
    report.write_documents({"one hot key": rows}, [Read(10, 5.0, 9.0, 8.0)], 100)
    short, text = readme.read_text(), whole.read_text()
    for each in (short, text):
        assert (each[:7], each[-7:]) == ("before\n", "\nafter\n")
        assert "old" not in each
        assert "| (e) Tallyroll | 100 | exact | 50 | 5.0 |" in each
    assert ("(c) other" in short, "(c) other" in text) == (False, True)
    assert ('src="docs/pictures/' in short, 'src="pictures/' in text) == (True, True)
    for theme in report.COLOURS:
        picture = ET.parse(tmp_path / "pictures" / f"bench-{theme}.svg")
        widths = [float(bar.get("width", "0")) for bar in picture.iter() if "rect" in bar.tag]
        assert len(widths) == 3 * len(rows)
        assert widths[0] > widths[2] == 0  # events off the truth
    report.write_documents({"one hot key": rows}, [], 100)
    assert readme.read_text().count(report.BEGIN) == whole.read_text().count(report.BEGIN) == 1
