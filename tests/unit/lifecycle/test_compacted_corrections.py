"""The compactor and copies of corrections that a late cleanup puts: none expires uncopied."""

from __future__ import annotations

from typing import Any

import pytest

from tallyroll.archive.inventory import Archive
from tests.harness.archives import Archived
from tests.unit.lifecycle.test_compactor import (
    TICKET,
    Watched,
    parquet,
    run,
    source_keys,
    ticketed,
)


@pytest.fixture
def whole() -> Archived:
    return ticketed()


def another(line: bytes) -> bytes:
    """Another correction than that of a line."""
    other = line.replace(b'"e0"', b'"e1"')
    assert other != line
    return other


def copies(whole: Archived, made: Archive) -> set[bytes]:
    """The files of corrections beside the Parquet."""
    return {whole.bucket.get(key) for key in whole.bucket.list(f"{made.prefix}/corrections/")}


def test_corrections_that_came_last_are_copied_too(whole: Archived) -> None:
    run(whole, layout="both")
    [made] = parquet(whole)
    [copied] = whole.bucket.list(f"{whole.prefix}/corrections/")
    late = copied.replace(".jsonl", "-0000001.jsonl")
    whole.bucket.put(late, another(whole.bucket.get(copied)))
    whole.bucket.put(TICKET, b"")
    assert run(whole).problems == []
    assert copies(whole, made) == {whole.bucket.get(copied), whole.bucket.get(late)}


def test_corrections_that_come_amid_the_tags_expire_only_once_they_are_copied(
    whole: Archived,
) -> None:
    [copied] = whole.bucket.list(f"{whole.prefix}/corrections/")
    late = copied.replace(".jsonl", "-0000001.jsonl")
    body = another(whole.bucket.get(copied))

    def sleeper(name: str, given: Any) -> None:
        if name == "put" and given[0].endswith("/alone.json"):
            whole.bucket.put(late, body)

    assert run(whole, Watched(whole.bucket, sleeper)).problems == []
    [made] = parquet(whole)
    assert source_keys(whole) - whole.bucket.passing == {late}
    whole.bucket.put(TICKET, b"")  # the sleeper puts it last
    assert run(whole).problems == []
    assert late in whole.bucket.passing
    assert body in copies(whole, made)


def test_corrections_that_come_again_after_they_expired_are_copied_but_once(
    whole: Archived,
) -> None:
    [copied] = whole.bucket.list(f"{whole.prefix}/corrections/")
    first = whole.bucket.get(copied)
    run(whole)
    for key in sorted(whole.bucket.passing):
        whole.remove(key)
    whole.bucket.passing.clear()
    whole.bucket.put(copied, first + another(first))
    for _ in range(2):
        whole.bucket.put(TICKET, b"")
        assert run(whole).problems == []
        [made] = parquet(whole)
        assert copies(whole, made) == {first, another(first)}
    assert whole.bucket.passing == {copied}
