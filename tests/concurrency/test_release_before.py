"""The release before, from its own sources, beside windows in which an id counts once at all, from
which events are taken back, and whose tallies have a width of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tallyroll.adapters.aws.client import make_client
from tallyroll.ingest.writer import BatchReport
from tallyroll.lifecycle.freezing import put_spec
from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.model.messages import Message
from tallyroll.model.retractions import Retraction
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import Span
from tallyroll.operations.heat.wishes import WishDesk
from tallyroll.pipeline import Pipeline
from tallyroll.reasons import Reason
from tests.concurrency.crowd import HOUR, Crowd, open_window
from tests.harness.release import ARCHIVE, CODE

pytestmark = [pytest.mark.engine, pytest.mark.proof]
TIME_LEFT_MS = 60_000
VOTES = 10
OF_BEFORE: dict[str, Any] = {"stripes_rule": "shards"}  # the placing that both releases know
# What `tests.harness.release` holds: its writer, reader and cleanup, told line by line what to do.
PROGRAM = """
import json, sys
from types import SimpleNamespace
import boto3
from moto import mock_aws
from tallyroll.ingest.writer import Writer
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.messages import Message
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings

class Queue:
    def __init__(self):
        self.letters = []

    def reject(self, rejections):
        self.letters += [each.reason for each in rejections]
        return [True] * len(rejections)

    def counts(self):
        return SimpleNamespace(visible=0, in_flight=0, delayed=0)

    def __getattr__(self, name):
        return lambda *_: None

mock_aws().start()  # for the bucket; tables are at the endpoint
settings, queue = Settings(**json.loads(sys.stdin.readline())), Queue()
boto3.client("s3").create_bucket(Bucket=settings.bucket)
made = Pipeline(settings)
writer = Writer(settings, made.store, made.catalog, queue, made.effects)
for line in sys.stdin:
    verb, *asked = json.loads(line)
    if verb == "write":
        report = writer.write([Message(*each) for each in asked], 60_000)
        told = sorted(report.failures), report.events, queue.letters
    elif verb == "count":
        counts = [made.reader.count(key, None, None, 60_000, consistent=True) for key in asked]
        told = [count.events for count in counts]
    elif verb == "freeze":
        told = made.catalog.put_spec(freeze(made.catalog.window(*asked), settings)).hot
    else:
        told = [str(problem) for problem in made.cleanup.run(60_000).problems]
    print(json.dumps(told), flush=True)
"""


@dataclass
class Before:
    """A process of the release before."""

    process: subprocess.Popen[str]

    def ask(self, *line: object) -> Any:
        """Its answer to one line."""
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(line), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def write(self, *messages: Message) -> Any:
        """The ids of the messages that it hands back, how many events it counted, all letters."""
        facts = [(each.id, each.body, each.sent, each.receives, "r") for each in messages]
        return tuple(self.ask("write", *facts))


@contextmanager
def running(endpoint: str, folder: Path, facts: dict[str, Any]) -> Iterator[Before]:
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    variables = {"PYTHONPATH": str(folder / CODE), "AWS_ENDPOINT_URL_DYNAMODB": endpoint}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    ) as process:
        assert process.stdin
        print(json.dumps(facts), file=process.stdin, flush=True)
        yield Before(process)
        process.stdin.close()


def of_before(crowd: Crowd) -> dict[str, Any]:
    """The settings of the release before for a crowd's pipeline."""
    few = {"shards": 8, "stripes_min": 8, "buckets": 16, "gates": 64}
    return {"name": crowd.settings.name, **few, "bucket": "archive"}


def sealed(made: Pipeline, spec: Spec) -> None:
    state = made.catalog.window(spec.window)
    assert state
    state = made.catalog.advance(replace(state, status=Status.CLOSING))
    made.store.shut_gates(spec)
    *_, sums = seal(spec, made.store, made.totals, made.effects, Sealing())
    counted: dict[str, Any] = {"keys": sums.keys, "events": sums.events, "amount": sums.amount}
    times = {**state.times, Status.SEALED: made.effects.now()}
    made.catalog.advance(replace(state, status=Status.SEALED, times=times, **counted))


def identities(crowd: Crowd) -> int:
    table = f"{crowd.settings.name}-identities"
    return len(make_client("dynamodb").scan(TableName=table, ConsistentRead=True)["Items"])


def written(crowd: Crowd, messages: Sequence[Message]) -> BatchReport:
    return crowd._writer().write(messages, TIME_LEFT_MS)


def test_it_neither_counts_nor_rejects_there_and_reads_proves_and_drops_what_is_stored(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    facts = {"accept_for_ms": 2 * HOUR, "retention_ms": 0, "settle_ms": 0, "cache_live_ms": 0}
    crowd = Crowd.gathered(stripes=8, keep_identities=True, **OF_BEFORE, **facts)
    now, start = crowd.now, crowd.spec.start
    ruled = Pipeline(replace(crowd.settings, identity=IdentityScope.PIPELINE))
    spec = open_window(ruled, Span(start - HOUR, start), start)

    def votes(key: str, ts: int, receives: int = 1) -> list[Message]:
        body = {"key": key, "ts": ts}
        return [
            Message(f"{key}-{n}", json.dumps({**body, "id": f"b{n}"}), now, receives, f"{key}-{n}")
            for n in range(VOTES)
        ]

    ann, bob, plain = votes("ann", start - 1), votes("bob", start - 1), votes("plain", now)
    own = of_before(crowd)
    with running(dynamodb_endpoint, tmp_path, own | facts) as before:
        # It hands back what is for that window, and counts what is for another one beside it.
        back = [each.id for each in ann]
        assert before.write(*ann, *plain) == (back, VOTES, [])
        assert (crowd.records(spec), identities(crowd)) == ([], 0)

        # This code's writer counts them, once, whatever the other one does with the copies.
        report = written(crowd, [*ann, *plain])
        assert (report.events, report.duplicates, report.failures) == (VOTES, VOTES, [])
        assert written(crowd, bob).rejected == {Reason.ID_CONFLICT: VOTES}
        again = [*votes("ann", start - 1, 2), *votes("bob", start - 1, 2)]
        assert before.write(*again) == (sorted(each.id for each in again), 0, [])
        assert before.ask("count", "ann", "bob", "plain") == [VOTES, 0, VOTES]
        assert len(crowd.records(spec)) == identities(crowd) == VOTES

        # Sealed by this code, the window is read, proven and dropped by the other.
        sealed(ruled, spec)
        assert before.write(*again) == (sorted(each.id for each in again), 0, [])
        for _ in range(5):
            assert before.ask("clean") == []
        assert before.ask("count", "ann", "bob", "plain") == [VOTES, 0, VOTES]

    state = crowd.made.catalog.window(spec.window)
    assert state
    assert state.status is Status.DROPPED
    report = written(crowd, votes("ann", start - 1, 2))
    assert (report.duplicates, report.failures) == (VOTES, [])
    assert identities(crowd) == VOTES


def test_it_takes_nothing_back_and_nothing_of_what_was_taken_back_counts_again(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its letters of retractions are redriven after the update. Its reader is net, by window; its
    cleanup meets tombstones, and drops nothing.
    """
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    facts = {"accept_for_ms": 2 * HOUR, "retention_ms": 0, "settle_ms": 0, "cache_live_ms": 0}
    crowd = Crowd.gathered(stripes=8, retraction="queue", **OF_BEFORE, **facts)
    now, start = crowd.now, crowd.spec.start
    spec = open_window(crowd.made, Span(start - HOUR, start), start)

    def events(receives: int = 1) -> list[Message]:
        bodies = [json.dumps({"key": "k", "ts": start - 1, "id": f"e{n}"}) for n in range(VOTES)]
        return [Message(f"e{n}", body, now, receives, f"e{n}") for n, body in enumerate(bodies)]

    def retractions(*numbers: int) -> list[Message]:
        bodies = [Retraction.of("k", f"e{n}", window=spec.window).body for n in numbers]
        return [
            Message(f"r{n}", body, now, 1, "r") for n, body in zip(numbers, bodies, strict=True)
        ]

    own = of_before(crowd)
    with running(dynamodb_endpoint, tmp_path, own | facts) as before:
        assert before.write(*events()) == ([], VOTES, [])
        assert before.write(*retractions(0, 1)) == ([], 0, [Reason.NOT_AN_OBJECT] * 2)

        # This code takes back what the other one counted; there its copies are duplicates.
        assert written(crowd, retractions(0, 1, 2, 3)).retracted == 4
        assert before.write(*events(2))[:2] == ([], 0)
        assert before.ask("count", "k") == [VOTES - 4]

        # Also once the window is sealed.
        sealed(crowd.made, spec)
        report = written(crowd, [*retractions(4, 5), *retractions(0)])
        assert (report.retracted, report.duplicates) == (2, 1)
        assert before.write(*events(2))[:2] == ([], 0)
        assert before.ask("count", "k") == [VOTES - 6]
        [problem] = before.ask("clean")
        assert "neither a record, a tally nor a gate" in problem, "its proof knows no tombstones"
        assert [before.ask("clean") for _ in range(4)] == [[]] * 4

    count = crowd.made.reader.count("k", None, None, TIME_LEFT_MS, consistent=True)
    assert (count.events, count.retracted[0]) == (VOTES - 6, 6)
    state = crowd.made.catalog.window(spec.window)
    assert state
    assert state.status is Status.EXPORTING


def test_it_counts_where_a_wish_was_frozen_and_freezes_without_one(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It ignores why a key has its shards. What it freezes may lack a wish, which the list says."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    crowd = Crowd.gathered(stripes=8, **OF_BEFORE, cache_live_ms=0)
    made, span = crowd.made, crowd.spec.span
    calendar = made.catalog.calendar()
    assert calendar
    desk = WishDesk(made.catalog, calendar, made.effects)
    later = [calendar.grid.after(span)]
    later.append(calendar.grid.after(later[0]))
    split = desk.split("k", 64, later[0].start)
    for each in later:
        table = f"{crowd.settings.name}-{each.id}"
        assert made.catalog.create(Window(each.id, table, each.start, each.end))
    window = made.catalog.window(later[0].id)
    assert window
    spec = put_spec(window, calendar, made.catalog, made.store, crowd.settings, made.effects.now())
    assert (spec.hot, spec.why) == ({"k": 64}, {"k": "wish"})
    made.store.make_table(window.table, {"tallyroll": crowd.settings.name})
    made.store.open_gates(spec)
    made.catalog.advance(replace(window, status=Status.OPEN))

    own = of_before(crowd)
    body = {"key": "k", "ts": spec.start + 1}
    votes = [
        Message(f"m{n}", json.dumps({**body, "id": f"e{n}"}), spec.start + 2, 1, "r")
        for n in range(VOTES)
    ]
    with running(dynamodb_endpoint, tmp_path, own) as before:
        assert before.write(*votes) == ([], VOTES, [])
        report = written(crowd, votes)
        assert (report.events, report.duplicates) == (0, VOTES)
        assert before.ask("freeze", later[1].id) == {}
    lacking = [one for one in desk.hot_keys() if one.lacks]
    assert [(one.key, one.window, one.shards, one.wish) for one in lacking] == [
        ("k", later[1].id, 8, split.wish)
    ]


def test_it_hands_back_what_is_of_a_window_by_the_calendar(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Beside it, it counts what is of a window before the first month."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    crowd = Crowd.gathered(stripes=8, **OF_BEFORE, cache_live_ms=0)
    catalog = crowd.made.catalog
    calendar, live = catalog.calendar(), catalog.live()
    assert calendar
    assert live
    grid = calendar.grid.with_length("month", crowd.spec.end)
    assert catalog.extend(calendar, replace(calendar, grid=grid), live)
    first = grid.lengths[-1][0]
    open_window(crowd.made, grid.at(first), first)

    def event(name: str, ts: int) -> Message:
        return Message(name, json.dumps({"key": "k", "ts": ts, "id": name}), ts, 1, name)

    own = {"name": crowd.settings.name, "shards": 8, "stripes_min": 8, "bucket": "archive"}
    hourly, monthly = event("a", crowd.now), event("b", first + 40 * HOUR)
    with running(dynamodb_endpoint, tmp_path, own) as before:
        assert before.write(hourly) == ([], 1, [])
        assert before.write(hourly, monthly, event("c", crowd.now)) == (["b"], 1, [])
        report = written(crowd, [hourly, monthly])
        assert (report.events, report.duplicates, report.failures) == (1, 1, [])
    assert crowd.made.reader.count("k", until=grid.at(first).end).events == 3


def test_it_hands_back_and_reads_all_where_tallies_have_a_width_of_their_own(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its writer places nothing there. Its reader finds raised stripes, and its cleanup proves and
    drops the window.
    """
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    facts = {"accept_for_ms": 2 * HOUR, "retention_ms": 0, "settle_ms": 0, "cache_live_ms": 0}
    crowd = Crowd.gathered(stripes=8, **OF_BEFORE, **facts)
    now, start = crowd.now, crowd.spec.start
    wide = Pipeline(replace(crowd.settings, stripes_rule="own", shards=64))
    spec = open_window(wide, Span(start - HOUR, start), start)
    assert (spec.suffix, spec.stripes_of("k"), spec.stripes_most("k")) == ("calculated+s1", 8, 64)

    def events(first: int, number: int, receives: int = 1) -> list[Message]:
        bodies = [json.dumps({"key": "k", "ts": start - 1, "id": f"e{n}"}) for n in range(1_000)]
        some = range(first, first + number)
        return [Message(f"e{n}", bodies[n], now, receives, f"e{n}") for n in some]

    own = {"name": crowd.settings.name, "shards": 16, "stripes_min": 64, "bucket": "archive"}
    with running(dynamodb_endpoint, tmp_path, own | facts) as before:
        back = sorted(each.id for each in events(0, VOTES))
        plain = [Message("p", json.dumps({"key": "p", "ts": now, "id": "p"}), now, 1, "p")]
        assert before.write(*events(0, VOTES), *plain) == (back, 1, [])
        for first in range(0, 120, 3):  # until the first stripe is there
            assert written(crowd, events(first, 3)).events == 3
        for times in range(3):
            crowd.made.store.widen(spec, "k")
            for first in range(120 + 90 * times, 210 + 90 * times, 3):
                assert written(crowd, events(first, 3)).events == 3
        assert crowd.made.store.tallies(spec, ["k"])["k"].raised == 64
        assert before.ask("count", "k", "p") == [390, 1]

        sealed(wide, spec)
        assert before.write(*events(0, VOTES, 2))[1:] == (0, [])
        for _ in range(5):
            assert before.ask("clean") == []
        assert before.ask("count", "k") == [390]
    state = crowd.made.catalog.window(spec.window)
    assert state
    assert state.status is Status.DROPPED
