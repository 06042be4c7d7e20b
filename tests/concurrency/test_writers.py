"""Exactness where it is hardest, on a real engine: many writers, one hot key, all of it twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.model.messages import Message
from tallyroll.model.records import Increment, Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.ports.paging import listed_tallies
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.reasons import Reason
from tests.concurrency.crowd import Crowd, Watcher

pytestmark = pytest.mark.engine
EVENTS = 6_000
HELD_S_MAX = 600.0
KEYS = 2_000
SPREAD = 2 * KEYS  # each is a transaction's record and tally, which the engine runs in turn


@pytest.fixture
def crowd(dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    return Crowd.gathered(stripes=64)


@pytest.fixture
def cold_crowd(dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    return Crowd.gathered(stripes=8)


def deliveries(messages: list[Message], seed: int) -> list[Message]:
    """Every message one to three times, in an order by chance."""
    chance = Random(seed)
    delivered = [
        replace(message, receives=n)
        for message in messages
        for n in range(1, chance.randint(1, 3) + 1)
    ]
    chance.shuffle(delivered)
    return delivered


def hold_commits(crowd: Crowd, patch: pytest.MonkeyPatch, *, after: int) -> threading.Event:
    """Once `after` records are committed, hold every further commit until the event is set."""
    going_on, committed, lock = threading.Event(), 0, threading.Lock()
    commit = crowd.made.store.commit

    def held(spec: Spec, records: Sequence[Record], increments: Sequence[Increment]) -> Outcome:
        nonlocal committed
        if committed >= after:
            assert going_on.wait(HELD_S_MAX), "nobody let the writers go on"
        outcome = commit(spec, records, increments)
        with lock:
            committed += len(records) * (outcome.verdict is Verdict.COMMITTED)
        return outcome

    patch.setattr(crowd.made.store, "commit", held)
    return going_on


def test_one_hot_key_under_sixteen_writers(crowd: Crowd) -> None:
    messages = [crowd.message(n, "hot", n % 7) for n in range(EVENTS)]

    def read() -> int:
        return crowd.made.store.tallies(crowd.spec, ["hot"])["hot"].n

    with Watcher(crowd, read) as watcher:
        crowd.deliver(deliveries(messages, 1), seed=2)
    tally = crowd.made.store.tallies(crowd.spec, ["hot"])["hot"]
    assert (tally.n, tally.amount) == (EVENTS, sum(n % 7 for n in range(EVENTS)) * 1_000_000)
    assert 0 <= EVENTS - crowd.counted <= crowd.in_doubt
    assert len(set(watcher.answers)) > 5, "it was hardly watched while it grew"
    ids = Counter(record.id for record in crowd.records())
    assert len(ids) == ids.total() == EVENTS


@pytest.mark.proof
def test_many_keys_under_sixteen_writers(cold_crowd: Crowd) -> None:
    crowd = cold_crowd
    messages = [crowd.message(n, f"key-{n % KEYS}", 1) for n in range(SPREAD)]

    def read() -> int:
        """All keys' events, bucket by bucket: what comes in meanwhile may be seen or not."""
        numbers = range(1, crowd.spec.buckets + 1)
        buckets = (listed_tallies(crowd.made.store, crowd.spec, number) for number in numbers)
        return sum(tally.n for bucket in buckets for tally in bucket)

    with Watcher(crowd, read, pause_s=2) as watcher:
        crowd.deliver(deliveries(messages, 3), seed=4)
    assert watcher.answers
    keys = [f"key-{n}" for n in range(KEYS)]
    tallies = crowd.made.store.tallies(crowd.spec, keys)
    assert {tally.n for tally in tallies.values()} == {SPREAD // KEYS}
    assert len(crowd.records()) == SPREAD


def test_a_window_closed_in_the_middle(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was counted is in the total; the rest is rejected or was a duplicate."""
    few = 1_500
    closing = hold_commits(crowd, monkeypatch, after=few // 4)
    delivered = deliveries([crowd.message(n, f"key-{n % 3}", 1) for n in range(few)], 5)

    def close_early() -> int:
        """Reads until a quarter is counted, then closes and seals the window under the writers."""
        counted = sum(t.n for t in crowd.made.store.tallies(crowd.spec, keys).values())
        state = crowd.made.catalog.window(crowd.spec.window)
        if counted >= few // 4 and state and state.status is Status.OPEN:
            state = crowd.made.catalog.advance(replace(state, status=Status.CLOSING))
            closing.set()
            effects = crowd.made.effects
            crowd.made.store.shut_gates(crowd.spec)
            made = crowd.made
            sealed.extend(seal(crowd.spec, made.store, made.totals, effects, Sealing()))
            crowd.made.catalog.advance(replace(state, status=Status.SEALED))
        return counted

    keys = [f"key-{n}" for n in range(3)]
    sealed: list[object] = []
    with Watcher(crowd, close_early):
        crowd.deliver(delivered, seed=6)
    assert sealed, "the window was not closed while the writers worked"
    counted = sum(report.events for report in crowd.reports)
    records = crowd.records()
    totals = crowd.made.totals.of_window(crowd.spec.window, keys)
    assert sum(total.n for total in totals.values()) == len(records) < few
    assert 0 <= len(records) - counted <= crowd.in_doubt
    stored = {record.id for record in records}
    rejected = {letter.message.id for letter in crowd.queue.dead_letters}
    assert {letter.reason for letter in crowd.queue.dead_letters} == {Reason.WINDOW_SEALED}
    assert rejected == {f"message-{n}" for n in range(few) if f"event-{n}" not in stored}
