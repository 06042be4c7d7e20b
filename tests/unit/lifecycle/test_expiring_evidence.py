"""Commands that prove an event in the archive of a window, of which Parquet may be in the place."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.evidence import ArchivedItems, read_archive
from tallyroll.archive.layout import proof_key
from tallyroll.errors import ProofMismatch
from tests.harness.archives import Archived
from tests.unit.lifecycle.test_compactor import Watched, parquet, run, ticketed


@pytest.fixture
def whole() -> Archived:
    return ticketed()


def test_evidence_is_read_from_what_is_left(whole: Archived) -> None:
    def read() -> ArchivedItems:
        kept = ArchivedItems(["k1"], ["e1", "e4"])
        ports = (whole.bucket, CODEC)
        return read_archive(whole.window, "tallyroll", *ports, kept, lambda *_: None)

    before = read()
    run(whole)
    for key in sorted(whole.bucket.passing):
        whole.remove(key)
    assert (read().records, read().stones) == (before.records, before.stones)
    [made] = parquet(whole)
    whole.remove(proof_key(made.prefix))
    with pytest.raises(ProofMismatch, match="not proven"):
        read()


@pytest.mark.parametrize("late", [False, True])
def test_evidence_that_expires_while_it_is_read_is_read_in_its_other_place(
    whole: Archived, *, late: bool
) -> None:
    calls: list[str] = []

    def read(bucket: Any) -> ArchivedItems:
        kept = ArchivedItems(["k1", "large"], ["e1", "e4", "q"])
        calls.clear()
        return read_archive(whole.window, "tallyroll", bucket, CODEC, kept, lambda *_: None)

    def expires(*_: Any) -> None:
        calls.append("")
        if len(calls) == at and not whole.bucket.passing:
            run(whole)
            for key in sorted(whole.bucket.passing):
                whole.remove(key)

    at = 0
    read(Watched(whole.bucket, expires))
    at = len(calls) if late else 2
    before = read(whole.bucket)
    there = read(Watched(whole.bucket, expires))
    assert whole.bucket.passing
    assert (there.records, there.stones) == (before.records, before.stones)
    [mine], [of_both] = there.parts.values(), before.parts.values()
    assert sorted(mine, key=attrgetter("number")) == sorted(of_both, key=attrgetter("number"))
