"""An id counts once, however many processes write it, under two keys and in two windows, of which
one is closed meanwhile.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from threading import Barrier
from typing import Any

import pytest

from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.dynamodb.items import parse_identity
from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.limits import TRANSACTION_ACTIONS_MAX
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.windows import Span
from tallyroll.reasons import Reason
from tests.concurrency import voters
from tests.concurrency.crowd import HOUR, Crowd, open_window
from tests.concurrency.voters import (
    AT_ONCE,
    BATCH,
    CANDIDATES,
    IDS,
    ROUNDS,
    STEP_S_MAX,
    STEPS,
    VOTERS,
    Election,
    Told,
)

pytestmark = [pytest.mark.engine, pytest.mark.proof]
CLOSES_IN = 3  # the round in which one of the windows closes


def closed(crowd: Crowd, spec: Spec) -> None:
    state = crowd.made.catalog.window(spec.window)
    assert state
    crowd.made.catalog.advance(replace(state, status=Status.CLOSING))
    crowd.made.store.shut_gates(spec)


def sealed(crowd: Crowd, spec: Spec) -> None:
    made = crowd.made
    list(seal(spec, made.store, made.totals, made.effects, Sealing()))
    state = made.catalog.window(spec.window)
    assert state
    made.catalog.advance(replace(state, status=Status.SEALED))


def elected(crowd: Crowd, closing: Spec, election: Election) -> list[Told]:
    """Let the voters write. In one step they all write the same votes while a window is closed."""
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([voters.__name__])
    barrier: Barrier = context.Barrier(VOTERS + 1)
    pipes: list[tuple[Pipe, Pipe]] = [context.Pipe(duplex=False) for _ in range(VOTERS)]
    processes = [
        context.Process(target=voters.voter, args=(election, number, barrier, pipe))
        for number, (_, pipe) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    try:
        for step in range(ROUNDS * STEPS):
            barrier.wait(STEP_S_MAX)
            if step == CLOSES_IN * STEPS + AT_ONCE:
                closed(crowd, closing)
        barrier.wait(STEP_S_MAX)
        sealed(crowd, closing)
        barrier.wait(STEP_S_MAX)
        return [pipe.recv() for pipe, _ in pipes if pipe.poll(STEP_S_MAX)]
    finally:
        barrier.abort()
        for process in processes:
            process.join(STEP_S_MAX)
            process.kill()


def taken_ids(crowd: Crowd) -> Counter[tuple[str, str, bytes]]:
    """What the identities say: window, key and digest of the vote that counts."""
    scan = make_client("dynamodb").get_paginator("scan").paginate
    pages = scan(TableName=f"{crowd.settings.name}-identities", ConsistentRead=True)
    found = [parse_identity(item) for page in pages for item in page["Items"]]
    return Counter((each.window, each.key, each.digest) for each in found)


def test_four_processes_write_the_same_ids_into_two_windows_and_under_two_keys(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    crowd = Crowd.gathered(stripes=8, identity="pipeline", accept_for_ms=2 * HOUR)
    start = crowd.spec.start
    closing = open_window(crowd.made, Span(start - HOUR, start), start)
    election = Election(crowd.settings, dynamodb_endpoint, crowd.now, (crowd.now, start - 1))

    told = elected(crowd, closing, election)

    assert len(told) == VOTERS
    specs = [crowd.spec, closing]
    counted = [(spec.window, record) for spec in specs for record in crowd.records(spec)]
    assert Counter(record.id for _, record in counted) == {f"ballot-{n}": 1 for n in range(IDS)}
    assert taken_ids(crowd) == Counter((at, each.key, each.digest) for at, each in counted)

    totals = crowd.made.totals.of_window(closing.window, CANDIDATES)
    tallies = crowd.made.store.tallies(crowd.spec, CANDIDATES)
    of = Counter((at, each.key) for at, each in counted)
    for key in CANDIDATES:
        assert tallies[key].n == of[crowd.spec.window, key]
        assert totals[key].n == of[closing.window, key]
    # Each was the first with one batch of each round, until its window was closed.
    assert min(of.values()) >= (CLOSES_IN + 1) * BATCH
    assert sum(each.waiting for each in told) > 0, "nobody met a shut gate"

    voter_of = {
        (spec.window, key): 2 * at + number
        for at, spec in enumerate(specs)
        for number, key in enumerate(CANDIDATES)
    }
    winners = {
        f"{voter_of[at, each.key]}-{each.id.removeprefix('ballot-')}" for at, each in counted
    }
    everybody = {f"{voter}-{number}" for voter in range(VOTERS) for number in range(IDS)}
    letters = [letter for each in told for letter in each.letters]
    assert {reason for _, reason in letters} == {Reason.ID_CONFLICT}
    assert {name for name, _ in letters} == everybody - winners
    in_doubt = sum(each.unknown for each in told) * TRANSACTION_ACTIONS_MAX
    assert 0 <= IDS - sum(each.counted for each in told) <= in_doubt
