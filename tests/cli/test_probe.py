"""`tallyroll probe` before a pipeline in memory, whose writer counts while the probe waits."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.memory import MemoryStore
from tallyroll.cli import main
from tallyroll.errors import Throttled
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.tallies import Tally
from tallyroll.operations.probe import plan as probes
from tallyroll.operations.probe import run
from tallyroll.operations.probe.history import ReadRule, Share
from tallyroll.reads.counts import Count, PeriodCount
from tallyroll.reads.reader import PortReader
from tests.cli.command_line import Answer, CommandLine
from tests.harness.pipeline import NOW, SMALL, START, WINDOW, StillEffects, hour, opened

EVENTS = 200
PER_SLEEP = 12


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ROUNDS", 8)


@pytest.fixture
def counting(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A command line whose writer counts some messages whenever somebody waits."""
    return while_waiting(cli, monkeypatch)


def while_waiting(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    sleep = StillEffects.sleep

    def busy(self: StillEffects, ms: float) -> None:
        sleep(self, ms)
        count_some(cli, PER_SLEEP)

    monkeypatch.setattr(StillEffects, "sleep", busy)
    return cli


def count_some(cli: CommandLine, most: int) -> None:
    messages = cli.pipeline.queue.receive(most)
    if messages:
        assert not cli.pipeline.writer().write(messages, 60_000).failures
    for message in messages:
        cli.pipeline.queue.delete(message.receipt)


def live(cli: CommandLine, *argv: str) -> Answer:
    return cli.run("probe", "--live", "--yes", "--events", str(EVENTS), *argv)


def verdicts(answer: Answer) -> dict[str, str]:
    """The verdict of each rule in the table."""
    rows = [line.split() for line in answer.out.splitlines()]
    names = [*ReadRule, "all-counted"]
    return {row[0]: " ".join(row[2:]) for row in rows if row and row[0] in names}


def test_without_live_it_says_what_it_would_cost(cli: CommandLine) -> None:
    answer = cli.run("probe", "--events", "1000", "--keys", "2")
    assert answer.status == 0
    assert cli.producer.tried == []
    assert "20261120T070000Z, 20261120T080000Z" in answer.out
    assert "nothing was sent: --live does it" in answer.err
    (told,) = cli.run("probe", "--events", "1000", "--keys", "2", "--json").json
    plan = told["plan"]
    assert plan["windows"] == [hour(7), WINDOW]
    assert [key.startswith("tallyroll-probe/20261120T083000Z-") for key in plan["keys"]] == [
        True
    ] * 2
    assert plan["events"] == 1000
    assert 750 < plan["messages"] < 1000, "singles, packets of ten, and an eighth of all twice"
    assert plan["write_units_max"] == 6 * plan["messages"] + 2 * (2 * 4 + 6)
    assert 0 < plan["dollars_max"] < 1


@pytest.mark.parametrize("scope", ["key", "pipeline"])
def test_every_rule_holds_whatever_an_id_counts_once_in(
    scope: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The events' ids differ by window, key, sender and probe, so none is taken for another."""
    made = CommandLine(opened(replace(SMALL, identity=scope)), monkeypatch, capsys)
    counting = while_waiting(made, monkeypatch)
    names = set()
    for _ in range(2):
        plan, *rules, result = live(counting, "--json").json
        assert all(not rule["broken"] and not rule["undecided"] for rule in rules)
        assert (result["result"], result["counted"]) == ("holds", EVENTS)
        bodies = set(counting.producer.bodies)
        names |= {json.loads(body)["id"] for body in bodies}
        assert len(names) == len(bodies)
        messages = plan["plan"]["messages"]
        assert plan["plan"]["write_units_max"] == 8 * messages + 3 * (2 * 4 + 6)
    assert not counting.pipeline.queue.dead_letters
    assert len(counting.pipeline.store.identity_items) == len(names)


def test_every_rule_holds_while_events_are_counted(counting: CommandLine) -> None:
    answer = live(counting)
    assert answer.status == 0, answer.err
    assert set(verdicts(answer).values()) == {"holds"}
    bodies = [json.loads(body) for body in counting.producer.bodies]
    packets = [body for body in bodies if "events" in body]
    assert {len(packet["events"]) for packet in packets} == {10}
    ids = [body["id"] for body in bodies]
    assert len(set(ids)) < len(ids), "some are sent twice"
    assert {body["key"].rpartition("/")[2] for body in bodies} == {"1", "2", "3"}
    assert "stay" in answer.err

    plan, *rules, result = live(counting, "--json").json
    assert [rule["rule"] for rule in rules] == list(ReadRule)
    assert all(rule["judged"] and not rule["broken"] and not rule["undecided"] for rule in rules)
    assert plan["plan"]["events"] == EVENTS
    assert (result["result"], result["events"], result["counted"]) == ("holds", EVENTS, EVENTS)
    assert (result["missing"], result["unsent"], result["unanswered"]) == ([], 0, 0)
    tallies = [
        counting.pipeline.tally(key, window)[0]
        for key in plan["plan"]["keys"]
        for window in plan["plan"]["windows"]
    ]
    assert sum(tallies) == EVENTS
    assert all(tallies), "every key has events in every window"


Store = dict[str, Tally]
Mistake = Callable[[Store, Store], Store]


def twice(tallies: Store, _before: Store) -> Store:
    return {key: replace(one, n=2 * one.n, amount=2 * one.amount) for key, one in tallies.items()}


def torn(tallies: Store, _before: Store) -> Store:
    return {key: replace(one, amount=one.amount + bool(one.n)) for key, one in tallies.items()}


def older(_tallies: Store, before: Store) -> Store:
    return before


def lost(tallies: Store, _before: Store) -> Store:
    return {key: Tally(key, 0, 0) for key in tallies}


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        (twice, ReadRule.ABOVE),
        (torn, ReadRule.TORN),
        (older, ReadRule.BACKWARDS),
        (lost, ReadRule.BELOW),
    ],
)
def test_a_store_that_tells_it_wrong(
    counting: CommandLine, monkeypatch: pytest.MonkeyPatch, mistake: Mistake, rule: ReadRule
) -> None:
    tallies, calls = MemoryStore.tallies, 0
    seen: dict[tuple[str, str], Store] = {}

    def wrong(self: MemoryStore, spec: Spec, keys: Sequence[str]) -> Store:
        nonlocal calls
        calls += 1
        found = tallies(self, spec, keys)
        place = spec.window, keys[0]
        answer = mistake(found, seen.get(place, found)) if calls % 7 == 0 else found
        seen.setdefault(place, found)
        return answer

    monkeypatch.setattr(MemoryStore, "tallies", wrong)
    answer = live(counting)
    assert answer.status == 1
    assert verdicts(answer)[rule].startswith("broken")
    assert f"{rule}: a" in answer.err


def test_a_cache_that_keeps_for_too_long(
    counting: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = PortReader.count

    def stale(self: PortReader, *asked: Any, **named: Any) -> Count:
        self._kept._kept_ms = 60_000
        return count(self, *asked, **named)

    monkeypatch.setattr(PortReader, "count", stale)
    answer = live(counting, "--keys", "1")
    assert answer.status == 1
    assert verdicts(answer)[ReadRule.STALE].startswith("broken")


def test_what_is_not_counted_in_time(cli: CommandLine) -> None:
    answer = live(cli, "--timeout", "30s")
    assert answer.status == 3
    assert verdicts(answer)["all-counted"] == "not in time"
    assert "not counted in time: " in answer.err
    assert "Do the writers run?" in answer.err
    *_, result = live(cli, "--timeout", "30s", "--json").json
    assert (result["result"], result["counted"]) == ("out-of-time", 0)
    assert sum(place["events"] for place in result["missing"]) == EVENTS


def test_a_broken_rule_comes_before_the_time(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tallies = MemoryStore.tallies

    def wrong(self: MemoryStore, spec: Spec, keys: Sequence[str]) -> Store:
        return {key: Tally(key, 10**6, 0) for key in tallies(self, spec, keys)}

    monkeypatch.setattr(MemoryStore, "tallies", wrong)
    assert live(cli, "--timeout", "30s").status == 1


def test_messages_that_the_queue_refuses_at_first(counting: CommandLine) -> None:
    refused: set[str] = set()

    def at_first(body: str) -> str | None:
        if body in refused:
            return None
        refused.add(body)
        return "busy"

    counting.producer.refuses = at_first
    assert live(counting).status == 0


def test_messages_that_the_queue_never_takes(counting: CommandLine) -> None:
    counting.producer.refuses = lambda body: "no" if '"events"' in body else None
    answer = live(counting)
    assert answer.status == 3
    assert "messages were not certainly taken by the queue" in answer.err
    counting.producer.refuses = lambda body: "no"
    answer = live(counting)
    assert answer.status == 3
    assert "nothing was sent" in answer.err


def test_reads_that_fail(counting: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    count, calls = PortReader.count, 0

    def failing(self: PortReader, *asked: Any, **named: Any) -> Count:
        nonlocal calls
        calls += 1
        if calls % 5 == 0:
            raise Throttled("Query: too much")
        return count(self, *asked, **named)

    monkeypatch.setattr(PortReader, "count", failing)
    answer = live(counting)
    assert answer.status == 0, answer.err
    assert "reads failed" in answer.err
    counting.cut_off()
    assert live(counting).status == 3


def test_a_store_that_answers_no_reads_ends_the_probe(
    counting: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def failing(self: PortReader, *asked: Any, **named: Any) -> Count:
        calls.append(asked)
        raise Throttled("Query: too much")

    monkeypatch.setattr(PortReader, "count", failing)
    monkeypatch.setattr(run, "UNANSWERED_MAX", 2)
    answer = live(counting)
    assert answer.status == 3
    assert "Query: too much" in answer.err
    assert len(calls) <= 3 * (probes.READERS + 1)


def test_rolled_up_days_are_shares_of_a_read() -> None:
    count = Count("k", 5, 7, (), NOW, periods=(PeriodCount("day#20261119", 24, 5, 7),))
    read = run.read_of(count, "client", NOW, NOW + 1)
    (share,) = read.shares
    assert (share.n, share.amount) == (5, 7)
    assert share == Share(START - 32 * 3_600_000, START - 8 * 3_600_000, 5, 7)


@pytest.mark.parametrize(
    "argv", [("--events", "0"), ("--events", "100001"), ("--keys", "0"), ("--prefix", "~x")]
)
def test_wrong_use(cli: CommandLine, argv: tuple[str, ...]) -> None:
    answer = cli.run("probe", *argv)
    assert (answer.status, answer.out) == (2, "")
    assert argv[0] in answer.err


def test_somebody_has_to_agree(counting: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    answer = counting.run("probe", "--live")
    assert answer.status == 2
    assert "give --yes" in answer.err
    for typed, status in (("\n", 2), ("", 2), ("yes\n", 0)):
        assert counting.producer.tried == []
        monkeypatch.setattr(sys, "stdin", Terminal(typed))
        assert main.main(["probe", "--live", "--events", "40"]) == status
    assert counting.producer.tried


def test_no_window_takes_events(cli: CommandLine) -> None:
    cli.pipeline.move(Status.CLOSING, WINDOW)
    answer = cli.run("probe")
    assert answer.status == 3
    assert "does the roller run?" in answer.err


def test_a_window_that_soon_takes_no_more_is_left_alone(cli: CommandLine) -> None:
    cli.pipeline.effects.pass_by(START + 2 * 3_600_000 - NOW - probes.MARGIN_MS - 3_600_000)
    (told,) = cli.run("probe", "--json").json
    assert told["plan"]["windows"] == [hour(7), WINDOW]
    cli.pipeline.effects.pass_by(1)
    (told,) = cli.run("probe", "--json").json
    assert told["plan"]["windows"] == [WINDOW]
