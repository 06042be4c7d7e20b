"""Events are taken back once each, however many processes do it, while their window closes.

TIMES=10 TALLYROLL_TIER=proof .venv/bin/python -m pytest tests/concurrency/test_retractions.py
"""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from threading import Barrier
from typing import Any

import pytest

from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.states import Status
from tests.concurrency import recalls
from tests.concurrency.crowd import HOUR, SEGMENTS, Crowd
from tests.concurrency.recalls import (
    EVENTS,
    KEYS,
    PACKED,
    PROCESSES,
    RECALLED,
    SINGLE,
    STEP_S_MAX,
    STEPS,
    Heard,
    Recall,
    recalled,
    worth,
)

pytestmark = [pytest.mark.engine, pytest.mark.proof]
MICROS = 1_000_000
CLOSES_IN, SEALED_IN = STEPS // 2, STEPS // 2 + 3  # the steps during which that is done


def closed(crowd: Crowd) -> None:
    state = crowd.made.catalog.window(crowd.spec.window)
    assert state
    crowd.made.catalog.advance(replace(state, status=Status.CLOSING))
    crowd.made.store.shut_gates(crowd.spec)


def sealed(crowd: Crowd) -> None:
    made = crowd.made
    list(seal(crowd.spec, made.store, made.totals, made.effects, Sealing()))
    state = made.catalog.window(crowd.spec.window)
    assert state
    made.catalog.advance(replace(state, status=Status.SEALED))


def taken_back(crowd: Crowd, recall: Recall) -> list[Heard]:
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([recalls.__name__])
    barrier: Barrier = context.Barrier(PROCESSES + 1)
    pipes: list[tuple[Pipe, Pipe]] = [context.Pipe(duplex=False) for _ in range(PROCESSES)]
    processes = [
        context.Process(target=recalls.take_part, args=(recall, number, barrier, pipe))
        for number, (_, pipe) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    try:
        for step in range(STEPS):
            barrier.wait(STEP_S_MAX)
            if step == CLOSES_IN:
                closed(crowd)
            if step == SEALED_IN:
                sealed(crowd)
        barrier.wait(STEP_S_MAX)
        return [pipe.recv() for pipe, _ in pipes if pipe.poll(STEP_S_MAX)]
    finally:
        barrier.abort()
        for process in processes:
            process.join(STEP_S_MAX)
            process.kill()


def stored(crowd: Crowd) -> tuple[list[Record], list[Tombstone]]:
    """All records and tombstones in the window's table."""
    records: list[Record] = []
    stones: list[Tombstone] = []
    for segment in range(SEGMENTS):
        for page in crowd.made.store.scan(crowd.spec.table, segment, SEGMENTS):
            for held in map(crowd.made.codec.parse, page):
                if isinstance(held, Record):
                    records.append(held)
                elif isinstance(held, Tombstone):
                    stones.append(held)
    return records, stones


@pytest.mark.parametrize("_", range(int(os.environ.get("TIMES", "1"))))
def test_four_processes_take_events_back_while_their_window_closes(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, _: int
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    crowd = Crowd.gathered(stripes=8, retraction="queue", accept_for_ms=2 * HOUR, settle_ms=0)
    recall = Recall(crowd.settings, dynamodb_endpoint, crowd.now)

    heard = taken_back(crowd, recall)

    assert len(heard) == PROCESSES
    records, stones = stored(crowd)
    made, window = crowd.made, crowd.spec.window
    corrections = {key: made.totals.corrections(key, window) for key in KEYS}
    late = [(each.keys[0], each.id, each.index) for of in corrections.values() for each in of]
    early = [each.name for each in stones]
    once = Counter(recalled(number) for number in range(RECALLED))
    assert Counter(early) + Counter(late) == once, "each once, by tombstone or by correction"
    assert set(once.values()) == {1}
    assert early, "none before the gates shut"
    assert late, "none after the seal"
    assert sum(each.waiting for each in heard) > 0, "nobody met a shut gate"

    assert sum(record.n for record in records) == EVENTS
    counted, taken = Counter[str](), Counter[str]()
    sums, amounts = Counter[str](), Counter[str]()
    for record in records:
        counted[record.key] += record.n
        sums[record.key] += record.amount
    for number in range(RECALLED):
        key, id_, index = recalled(number)
        taken[key] += 1
        amounts[key] += worth(int(id_[1:]) if index is None else index) * MICROS
    tallies = made.store.tallies(crowd.spec, KEYS)
    for key in KEYS:
        before = sum(1 for name in early if name[0] == key)
        tally = tallies[key]
        assert (tally.n, tally.retracted[0]) == (counted[key] - before, before)
        assert sum(events for _, events in tally.series) == tally.n
        count = made.reader.count(key, None, None, 60_000, consistent=True)
        assert (count.events, count.amount) == (
            counted[key] - taken[key],
            sums[key] - amounts[key],
        )
        assert count.retracted == (taken[key], amounts[key])

    assert SINGLE + PROCESSES * PACKED == EVENTS == sum(counted.values())
    assert sum(each.rejected for each in heard) == 0
    assert sum(each.retracted for each in heard) <= RECALLED
    settled = [each.retracted + each.duplicates for each in heard]
    assert sum(settled) >= 2 * RECALLED
