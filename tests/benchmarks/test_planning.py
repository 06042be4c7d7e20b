"""The simulated promises of a plan, and that an hour at scale takes little memory."""

from __future__ import annotations

import tracemalloc

from benchmarks.planning import SEEDS, course, plan_of, validated


def test_planned_shards_keep_what_they_promise_in_95_of_100_seeds() -> None:
    heading, (_, shards, after, fewer, start_shards, start) = validated((10_000,))
    assert len(heading) == 6
    counts = {
        name: int(text.split()[0]) for name, text in zip("alr", (after, fewer, start), strict=True)
    }
    assert counts["a"] <= 0.05 * SEEDS
    assert counts["l"] >= 0.95 * SEEDS
    assert counts["r"] <= 0.05 * SEEDS
    assert int(shards) < int(start_shards.replace(",", ""))


def test_a_million_events_a_second_are_simulated_in_aggregate() -> None:
    plan = plan_of(1_000_000)
    tracemalloc.start()
    try:
        run = course(plan, shards=plan.chosen_shards, warm_units=plan.warm_units, seconds=60)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(run.came) > 59e6
    assert most < 50e6
