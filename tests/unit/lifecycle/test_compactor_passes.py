"""The compactor, with a run for each of its two passes: one makes Parquet, the next proves it."""

from __future__ import annotations

from typing import Any

import pytest

from tallyroll.archive.layout import is_parquet, proof_key
from tests.harness.archives import Archived
from tests.unit.lifecycle.test_compactor import (
    PARKED,
    TICKET,
    TIME,
    Watched,
    judge,
    parquet,
    retracted_like,
    run,
    ticketed,
)


@pytest.fixture
def whole() -> Archived:
    return ticketed()


def test_the_proof_may_take_a_run_of_its_own(whole: Archived) -> None:
    effects, read = whole.pipeline.effects, list[str]()

    def slow_to_prove(name: str, given: Any) -> None:
        if name == "stream" and is_parquet(given[0].partition("/events/")[0]):
            effects.sleep(TIME)

    def noting(name: str, given: Any) -> None:
        if name == "stream":
            read.append(given[0])

    assert run(whole, Watched(whole.bucket, slow_to_prove)).problems == []
    assert whole.bucket.get(TICKET) == b""
    [made] = parquet(whole)
    assert not made.proven
    other = retracted_like(whole)
    assert run(other, Watched(other.bucket, noting)).problems == []
    judge(other)
    assert {key.startswith(f"{made.prefix}/") for key in read} == {True}
    assert "takes longer" in run(whole, Watched(whole.bucket, slow_to_prove)).problems[0]
    assert [*whole.bucket.list("compacting/")] == [PARKED]


def test_parquet_that_was_damaged_before_its_proof_is_made_again(whole: Archived) -> None:
    run(whole, layout="both")
    [made] = parquet(whole)
    file = f"{made.prefix}/events/0000.parquet"
    body = whole.bucket.get(file)
    whole.remove(proof_key(made.prefix))
    whole.bucket.put(file, body[:-9] + bytes([body[-9] ^ 1]) + body[-8:])
    whole.bucket.put(TICKET, b"")
    assert run(whole).problems == []
    judge(whole)
    assert whole.bucket.get(file) == body
