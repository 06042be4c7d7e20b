"""Logs on a real engine: sixteen writers, one logged key, most of it twice, a close in between."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tallyroll.ingest.cost import LogCounts
from tallyroll.model.messages import Message
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.stored import apart, stored
from tallyroll.ports.store import Outcome
from tallyroll.reasons import Reason
from tests.concurrency.crowd import Crowd, Watcher
from tests.concurrency.logs_night import TROUBLES, Night
from tests.concurrency.test_writers import deliveries

pytestmark = pytest.mark.engine
EVENTS = 3_000
RATE = 1_000
KEY = "home-page"
SHUT_AFTER = 12  # commits


@pytest.fixture
def crowd(dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    return Crowd.gathered(stripes=64, logs={KEY: RATE})


def messages(crowd: Crowd) -> list[Message]:
    """Plain events, sent at the rate of the key."""
    chance, begin = Random(3), crowd.spec.start
    return [
        Message(
            str(UUID(int=chance.getrandbits(128), version=4)),
            json.dumps({"key": KEY, "value": number % 7}),
            begin + number * 1_000 // RATE,
            1,
            f"receipt-{number}",
        )
        for number in range(EVENTS)
    ]


def there(crowd: Crowd) -> Counter[str]:
    """How often each message is stored, in a log or as a record."""
    found: Counter[str] = Counter()
    for record in crowd.records():
        found.update(each.message or each.id for each in apart(stored(record)))
    return found


def test_a_logged_key_under_sixteen_writers(crowd: Crowd) -> None:
    sent = messages(crowd)

    def read() -> int:
        return crowd.made.store.tallies(crowd.spec, [KEY])[KEY].n

    with Watcher(crowd, read) as watcher:
        crowd.deliver(deliveries(sent, 1), seed=2)
    tally = crowd.made.store.tallies(crowd.spec, [KEY])[KEY]
    assert (tally.n, tally.amount) == (EVENTS, sum(n % 7 for n in range(EVENTS)) * 1_000_000)
    assert there(crowd) == dict.fromkeys((each.id for each in sent), 1)
    assert len(set(watcher.answers)) > 5, "it was hardly watched while it grew"
    counts = LogCounts()
    for report in crowd.reports:
        counts.add(report.logs)
    assert counts.lost, "no writer was faster than another"


def test_a_close_amid_the_traffic_of_a_log(crowd: Crowd) -> None:
    sent = messages(crowd)
    commit, commits = crowd.made.store.commit, count(1)

    def closing(spec: Spec, *what: Any) -> Outcome:
        if next(commits) == SHUT_AFTER:
            crowd.made.store.shut_gates(spec)
        return commit(spec, *what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Crowd, "_write", once)
        patch.setattr(crowd.made.store, "commit", closing)
        crowd.deliver(deliveries(sent, 1), seed=2)
    before = crowd.made.store.tallies(crowd.spec, [KEY])[KEY].n
    window = crowd.made.catalog.window(crowd.spec.window)
    assert window
    crowd.made.catalog.advance(replace(window, status=Status.SEALED))
    crowd.reports.clear()
    crowd.deliver([replace(each, receives=9) for each in sent], seed=3)
    rejected = sum(report.rejected[Reason.WINDOW_SEALED] for report in crowd.reports)
    assert before + rejected == EVENTS
    assert 0 < before < EVENTS
    assert sum(report.duplicates for report in crowd.reports) == before
    assert there(crowd).total() == len(there(crowd)) == before


def once(crowd: Crowd, batch: list[Message]) -> list[Message]:
    """What is handed back behind the shut gates does not come again."""
    crowd.reports.append(crowd._writer().write(batch, 60_000))
    return []


@pytest.mark.proof
def test_writers_die_while_one_of_two_windows_is_closed(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the seeds of `python -m tests.concurrency.logs_night`."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    night = Night(dynamodb_endpoint, 1)
    night.run()
    assert 0.6 * night.events < night.judge() < 0.9 * night.events
    assert night.deaths >= TROUBLES // 3
    assert night.stops > 1
    logs = night.logs
    assert logs.lost > 0
    assert logs.full > 0
    assert logs.entries > 4 * logs.leaves
