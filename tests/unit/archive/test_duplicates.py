"""Items that stand twice in an archive, and the archives that their sums let pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.archive import proof, proof_joining
from tallyroll.archive.duplicates import (
    DIGEST_BYTES,
    digests_in,
    key_digest,
    repeated,
    repeats_named,
    split_digests,
)
from tallyroll.archive.layout import ArchivedItem, progress_dir
from tallyroll.errors import ProofMismatch
from tallyroll.model.items import StoredItem
from tallyroll.model.states import Window
from tests.harness.archives import Archived, sealed_and_exported
from tests.harness.pipeline import NOW, Pipeline, record_with
from tests.unit.archive.test_recount import archived, exported, findings, prefix, proven, rewrite

DIGESTS = st.lists(st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES) | st.just(b"7" * 12))


@given(st.lists(DIGESTS, max_size=5), st.integers(1, 9))
def test_repeats_are_found_in_all_runs_whatever_the_parts(
    runs: list[list[bytes]], parts: int
) -> None:
    wanted = sorted(one for one, times in Counter(chain(*runs)).items() if times > 1)
    bodies = [split_digests(sorted(run), parts) for run in runs]
    found = [
        digest
        for part in range(parts)
        for digest in repeated([digests_in(body[part]) for body in bodies])
    ]
    assert found == wanted


def test_an_item_of_which_one_place_was_found_is_not_said_to_stand_there_twice() -> None:
    item = StoredItem("k.1", "e#1", {})
    once = ArchivedItem(item, record_with(), "file", 7)
    digest = key_digest(item)
    unnamed = f"an item occurs more than once, its digest is {digest.hex()}"
    assert repeats_named([], [digest]) == [unnamed]
    assert repeats_named([once], [digest]) == [unnamed]
    named = "item k.1/e#1 occurs more than once: file line 7, file line 9"
    assert repeats_named([once, replace(once, line=9)], [digest]) == [named]


def test_a_digest_tells_where_the_keys_part() -> None:
    assert key_digest(StoredItem("a", "b", {})) == key_digest(StoredItem("a", "b", {"n": 1}))
    assert key_digest(StoredItem("ab", "c", {})) != key_digest(StoredItem("a", "bc", {}))


def swapped(*, events: int = 5, kind: str = "e#") -> tuple[Pipeline, Window, str]:
    """An archive with the counts and sums of a whole one, in which an item is gone and an equal one
    stands twice; and that one's name.
    """
    pipeline, window = sealed_and_exported(
        {"id": f"e{n}", "key": "k", "ts": NOW, "value": 1} for n in range(events)
    )
    items = archived(pipeline)
    first, second, *_ = [at for at, item in enumerate(items) if item["sk"]["S"].startswith(kind)]
    items[first] = items[second]
    rewrite(pipeline, window, items)
    return pipeline, window, f"{items[second]['pk']['S']}/{items[second]['sk']['S']}"


@pytest.mark.parametrize("kind", ["e#", "g#"])
def test_a_record_that_stands_in_for_another_is_named(kind: str) -> None:
    pipeline, window, name = swapped(kind=kind)
    [finding] = findings(pipeline, window)
    assert finding.startswith(f"item {name} occurs more than once: ")
    assert finding.count("000-0000.json.gz line ") == 2
    assert Archived(pipeline, window).findings(pipeline.totals) == [finding]


def test_nothing_else_would_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, window, _ = swapped()
    monkeypatch.setattr(proof, "repeated", lambda _: iter([]))
    assert proven(pipeline, window) == len(archived(pipeline))


def test_it_is_found_over_many_spills_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "HELD_ITEMS", 0)
    monkeypatch.setattr(proof, "DIGESTS_HELD", 7)
    monkeypatch.setattr(proof, "PARTITION_ITEMS", 20)
    pipeline, window, name = swapped(events=60)
    [finding] = findings(pipeline, window)
    assert name in finding
    kept = list(pipeline.bucket.list(progress_dir(window.attempt.archive)))
    assert sum("items-" in key for key in kept) > 10
    assert sum("repeated-" in key for key in kept) == 4


def test_it_is_found_in_two_files_of_which_each_has_its_own_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proof, "NOTE_EVERY_MS", 0)
    pipeline, window = exported(keys=1)
    items = archived(pipeline)
    first, second, *_ = [at for at, item in enumerate(items) if item["sk"]["S"].startswith("g#")]
    items[first] = items[second]
    rewrite(pipeline, window, items[:second], items[second:])
    [finding] = findings(pipeline, window)
    assert "000-0000.json.gz line " in finding
    assert "000-0001.json.gz line " in finding
    assert sum("proof-" in key for key in pipeline.bucket.list(progress_dir(prefix(window)))) == 2


def test_one_that_there_is_no_time_to_name_is_found_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline, window, _ = swapped()
    compare = proof_joining.compare

    def slow(*known: object) -> list[str]:
        pipeline.effects.pass_by(3_600_000)
        return compare(*known)  # type: ignore[arg-type]

    monkeypatch.setattr(proof, "compare", slow)
    with pytest.raises(ProofMismatch, match="occurs more than once, its digest is"):
        proven(pipeline, window)


def test_a_whole_archive_is_left_as_it_is() -> None:
    pipeline, window = sealed_and_exported([{"id": "e", "key": "k", "ts": NOW}])
    items = proven(pipeline, window) or 0
    window = replace(window, attempt=replace(window.attempt, items=items))
    assert Archived(pipeline, window).findings(pipeline.totals) == []
