"""Largest keys of a range on DynamoDB Local, while a window is sealed: each event once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.records import increments_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.totals import Correction, Total
from tallyroll.model.windows import Grid
from tallyroll.pipeline import Pipeline
from tallyroll.ports.store import Verdict
from tests.concurrency.crowd import Crowd, open_window
from tests.concurrency.test_retractions import closed
from tests.harness.pipeline import record_with

pytestmark = pytest.mark.engine
KEYS = ("a", "a-1", "a.1", "a.1.0", "a!", "b", "ü")
MICROS = 1_000_000


def test_each_event_is_in_the_sums_once(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    crowd = Crowd.gathered(stripes=8, settle_ms=0)
    made, first = crowd.made, crowd.spec
    second = open_window(made, Grid.of(3600).after(first.span), first.start)
    made.catalog.put_secret("0" * 64)
    counted, chance = Counter[str](), Random(7)
    for spec in (first, second):
        for number in range(60):
            _commit(made, spec, key := chance.choice(KEYS), f"{number:03}")
            counted[key] += 1

    def found() -> dict[str, int]:
        reader = Pipeline(crowd.settings).reader
        top = reader.top_within(first.start, second.end, 100)
        assert top.complete
        total = reader.total(first.start, second.end)
        assert (total.events, total.complete) == (top.events, True)
        return {key.key: key.n for key in top.largest}

    def listed() -> dict[str, int]:
        reader = Pipeline(crowd.settings).reader
        page = reader.keys_page(first.start, second.end, limit=3)
        rest = reader.keys_page(cursor=page.cursor)
        assert rest.cursor is None
        return {key.key: key.n for key in (*page.keys, *rest.keys)}

    assert found() == listed() == counted
    closed(crowd)
    for at, _ in enumerate(seal(first, made.store, made.totals, made.effects, Sealing())):
        assert found() == counted, "while it is being sealed"
        assert at or listed() == counted
    state = made.catalog.window(first.window)
    assert state
    n = sum(total.n for key in KEYS for total in _totals(made, first, key))
    made.catalog.advance(
        replace(state, status=Status.SEALED, listed=LISTING_BUCKETS, events=n, amount=n * MICROS)
    )
    assert found() == counted
    made.totals.correct([Correction(first.window, "x", ("a",), 1, MICROS, b"digest", 0)])
    counted["a"] -= 1
    assert found() == listed() == counted


def _totals(made: Pipeline, spec: Spec, key: str) -> list[Total]:
    return made.totals.of_key(key, spec.window, "99999999T999999Z")


def _commit(made: Pipeline, spec: Spec, key: str, name: str) -> None:
    record = replace(
        record_with(name, shard=spec.shard(key, name), ts=spec.start, series=((0, 1),)), key=key
    )
    outcome = made.store.commit(spec, [record], increments_of([record]))
    assert outcome.verdict is Verdict.COMMITTED
