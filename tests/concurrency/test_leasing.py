"""Writers that share a write rate on a real engine: no span is given twice."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tallyroll.adapters.dynamodb.catalog import DynamoCatalog
from tallyroll.ingest.pacing import lease_turn
from tests.concurrency.crowd import Crowd

pytestmark = pytest.mark.engine
LEASERS, ROUNDS, STEP_MS, RATE, UNITS = 8, 25, 400, 1_000, 150
START = 1_795_161_600_000
BARRIER_S_MAX = 60


def test_leasers_at_once_get_the_rate_and_no_more(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on when all have asked; each leaser's own is ahead by some ms."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    catalog: DynamoCatalog = Crowd.gathered(stripes=8).made.catalog
    barrier = threading.Barrier(LEASERS)
    granted: list[int] = []
    denied: list[int] = []

    def lease(number: int) -> None:
        for round_ in range(ROUNDS):
            barrier.wait(BARRIER_S_MAX)
            now = START + round_ * STEP_MS + number * 10
            turn = lease_turn(UNITS, RATE, now, now + STEP_MS)
            start = catalog.take_turn(turn)
            (granted if start <= turn.latest else denied).append(start)

    with ThreadPoolExecutor(LEASERS) as pool:
        list(pool.map(lease, range(LEASERS)))
    starts, span = sorted(granted), UNITS * 1_000_000 // RATE
    assert len(granted) + len(denied) == LEASERS * ROUNDS
    assert denied, "more was asked than there is"
    assert all(after - before >= span for before, after in pairwise(starts)), "no two overlap"
    elapsed_s = ((ROUNDS * STEP_MS) + LEASERS * 10) / 1_000
    assert len(granted) * UNITS <= RATE * elapsed_s + RATE
    assert len(granted) * UNITS >= 0.9 * RATE * elapsed_s, "and nearly all of it"
