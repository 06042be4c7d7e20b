"""The largest keys of a live window: merged from all buckets, in bounded memory and time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Stripe, Tally
from tallyroll.reads.lookups import DEADLINE_RESERVE_MS
from tests.harness.pipeline import WINDOW, opened
from tests.unit.reads.test_lookups import best, event, look, voted


def test_a_top_out_of_time_is_what_was_read_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = voted()
    monkeypatch.setattr("tallyroll.reads.lookups.STRIPES_HELD", 4)  # a stripe a page
    stripes = pipeline.store.stripes

    def slow(*known: Any) -> Iterator[list[Stripe]]:
        for page in stripes(*known):
            pipeline.effects.pass_by(1_000)
            yield page

    monkeypatch.setattr(pipeline.store, "stripes", slow)
    part = look(pipeline).top(WINDOW, 3, DEADLINE_RESERVE_MS + 5_000)
    assert not part.complete
    assert part.missing >= 1
    assert 0 < part.events < 16


def test_a_top_finds_keys_that_begin_one_another() -> None:
    pipeline = opened()
    keys = {"a": 9, "a.1": 5, "a.1.1": 7, "a.2": 3, "a.10": 1, "b": 2}
    for key, votes in keys.items():
        pipeline.write(*(event(f"{key}{n}", key=key) for n in range(votes)))
    top = best(pipeline, 10)
    assert {tally.key: tally.n for tally in top.largest} == keys
    assert [tally.n for tally in top.largest] == sorted(keys.values(), reverse=True)
    assert (top.keys, top.events) == (len(keys), sum(keys.values()))


def test_memory_does_not_grow_with_the_keys_of_a_live_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tallyroll.reads.lookups.STRIPES_HELD", 400)
    pipeline = opened()
    peaks = []
    for keys in (500, 5_000):

        def listed(
            _: Spec, number: int, after: str, limit: int, keys: int = keys
        ) -> Iterator[list[Stripe]]:
            for first in range(0, keys, limit):
                names = [f"key-{n:06d}-{number}" for n in range(first, min(first + limit, keys))]
                yield [Stripe(f"{name}.1", Tally(name, 1, 1)) for name in names]

        monkeypatch.setattr(pipeline.store, "stripes", listed)
        tracemalloc.start()
        top = best(pipeline)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (top.keys, top.complete) == (4 * keys, True)
    assert peaks[1] < 1.5 * peaks[0]
