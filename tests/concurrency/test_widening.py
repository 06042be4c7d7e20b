"""Four processes count while the stripes of their tallies are raised, and their window closes.

TIMES=10 TALLYROLL_TIER=proof .venv/bin/python -m pytest tests/concurrency/test_widening.py
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
from tallyroll.limits import TRANSACTION_ACTIONS_MAX
from tallyroll.model.states import Status
from tallyroll.pipeline import Pipeline
from tests.concurrency import widening
from tests.concurrency.crowd import HOUR, Crowd
from tests.concurrency.widening import (
    CLOSES_IN,
    EVENTS,
    KEYS,
    PROCESSES,
    STEP_S_MAX,
    STEPS,
    TIME_LEFT_MS,
    Rush,
    Told,
    key_of,
)

pytestmark = [pytest.mark.engine, pytest.mark.proof]
FIRST, MOST = 8, 64  # stripes


def count(made: Pipeline) -> int:
    """All events, by reads that begin now."""
    counts = [made.reader.count(key, None, None, TIME_LEFT_MS, consistent=True) for key in KEYS]
    return sum(each.events for each in counts)


def rushed(crowd: Crowd, given: Rush) -> list[Told]:
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([widening.__name__])
    barrier: Barrier = context.Barrier(PROCESSES + 1)
    answered = context.Value("q", 0)
    pipes: list[tuple[Pipe, Pipe]] = [context.Pipe(duplex=False) for _ in range(PROCESSES)]
    processes = [
        context.Process(target=widening.rush, args=(given, number, barrier, answered, pipe))
        for number, (_, pipe) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    made, before = crowd.made, 0
    try:
        for step in range(STEPS):
            barrier.wait(STEP_S_MAX)
            least = answered.value
            read = count(made)  # a process that knows the stripes of its last read
            assert max(least, before) <= read <= EVENTS
            before = read
            if step == CLOSES_IN:
                state = made.catalog.window(crowd.spec.window)
                assert state
                made.catalog.advance(replace(state, status=Status.CLOSING))
                made.store.shut_gates(crowd.spec)
        barrier.wait(STEP_S_MAX)
        list(seal(crowd.spec, made.store, made.totals, made.effects, Sealing()))
        state = made.catalog.window(crowd.spec.window)
        assert state
        made.catalog.advance(replace(state, status=Status.SEALED))
        barrier.wait(STEP_S_MAX)
        return [pipe.recv() for pipe, _ in pipes if pipe.poll(STEP_S_MAX)]
    finally:
        barrier.abort()
        for process in processes:
            process.join(STEP_S_MAX)
            process.kill()


@pytest.mark.parametrize("_", range(int(os.environ.get("TIMES", "1"))))
def test_four_processes_count_while_stripes_are_raised_and_their_window_closes(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, _: int
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    crowd = Crowd.gathered(
        stripes=FIRST, shards=MOST, accept_for_ms=2 * HOUR, settle_ms=0, cache_live_ms=0
    )
    made, spec = crowd.made, crowd.spec
    assert (spec.stripes_of("ann"), spec.stripes_most("ann")) == (FIRST, MOST)

    told = rushed(crowd, Rush(crowd.settings, dynamodb_endpoint, spec, crowd.now))

    assert len(told) == PROCESSES
    records = crowd.records()
    ids = Counter(record.id for record in records)
    letters = {name for each in told for name in each.letters}
    assert set(ids.values()) == {1}
    assert {f"m{name[1:]}" for name in ids} | letters == {f"m{n}" for n in range(EVENTS)}
    assert not letters & {f"m{name[1:]}" for name in ids}
    assert sum(each.waiting for each in told) > 0, "nobody met a shut gate"
    in_doubt = sum(each.unknown for each in told) * TRANSACTION_ACTIONS_MAX
    assert 0 <= len(records) - sum(each.counted for each in told) <= in_doubt

    of = Counter(key_of(int(name[1:])) for name in ids)
    tallies = made.store.tallies(spec, KEYS)
    totals = made.totals.of_window(spec.window, KEYS)
    for key in KEYS:
        mine = [record for record in records if record.key == key]
        amount = sum(record.amount for record in mine)
        assert (tallies[key].n, tallies[key].amount) == (of[key], amount)
        assert (totals[key].n, totals[key].amount) == (of[key], amount)
        assert tallies[key].raised == MOST
        assert tallies[key].covered == of[key]
        stripes = {record.stripe for record in mine}
        assert max(filter(None, stripes)) > FIRST, "no stripe beyond the first ones was used"
    assert count(made) == len(records)
