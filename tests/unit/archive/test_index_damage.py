"""Nothing that is wrong with an index passes for an event that is not there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.duplicates import split_digests
from tallyroll.archive.indexed import entries, making
from tallyroll.archive.indexed.entries import Partition, digest_of, name_digest, partition_of
from tallyroll.archive.indexed.finding import IndexedArchive
from tallyroll.archive.layout import proof_key
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.model.records import Record
from tests.harness.archives import Archived, archived, line_of
from tests.harness.indexed_archives import index, indexed, items, names, opened, run
from tests.harness.retracted_archives import LIKE_PACKED, retracted_archive


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    indexed(monkeypatch)


@pytest.fixture
def whole(small: None) -> Archived:
    return retracted_archive(more=LIKE_PACKED)


def rewrite(of: Archived, number: int, change: Callable[[list[bytes]], Sequence[bytes]]) -> str:
    """Another partition in the place of one, and its digest in the proof; its key."""
    key = sorted(index(of))[number]
    partition = Partition.decoded(key, of.bucket.get(key))
    body = entries.encoded(partition.files, change(list(partition)))
    of.bucket.put(key, body)
    proven = json.loads(of.bucket.get(proof_key(of.prefix)))
    proven["index"]["digests"][number] = digest_of(body)
    of.bucket.put(proof_key(of.prefix), json.dumps(proven).encode())
    return key


def test_verify_names_a_partition_that_lacks_an_entry_or_has_one_more(whole: Archived) -> None:
    stranger = bytes(6) + bytes(4)
    for number, change, said in (
        (0, lambda some: some[1:], "lacks 1 entries, as of "),
        (
            1,
            lambda some: [],
            f"lacks {len(Partition.decoded('', index(whole)[sorted(index(whole))[1]]))} entries",
        ),
        (2, lambda some: [*some, some[-1]], "its entries are not ascending"),
        (3, lambda some: [stranger, *some], "has in excess 1 entries"),
    ):
        key = rewrite(whole, number, change)
        findings = [each for each in whole.findings() if each.startswith(f"index: {key}: ")]
        assert any(said in each for each in findings), findings


def test_verify_names_what_is_missing_or_has_changed(whole: Archived) -> None:
    first, second, third, *_ = sorted(index(whole))
    whole.remove(first)
    whole.change(second, lambda body: body[:-1] + bytes([body[-1] ^ 1]))
    whole.change(third, lambda _: b"")
    assert whole.findings() == [
        f"index: {first}: missing",
        f"index: {second}: changed since it was proven",
        f"index: {third}: changed since it was proven",
    ]


def test_an_index_that_loses_an_entry_is_not_proven(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted mistake of the proof itself."""
    made = archived(proven=False)
    monkeypatch.setattr(making, "merge", lambda *runs: list(merge(*runs))[1:])
    with pytest.raises(
        ProofMismatch, match=r"index: \d+ entries were written, \d+ are of the items"
    ):
        run(made)


def test_another_index_that_stands_is_named(small: None) -> None:
    made, reference = archived(proven=False), archived()
    key = min(index(reference))
    made.bucket.put(key, b"another")
    with pytest.raises(ProofMismatch, match=f"there is another index under {key}"):
        run(made)


def damages(of: Archived) -> Iterator[Callable[[], object]]:
    """Ways to damage what a lookup reads, of which none is a proof that says otherwise."""
    for key in index(of):
        body = index(of)[key]
        yield lambda key=key: of.remove(key)  # type: ignore[misc]
        for other in (b"", body[: len(body) // 2], body[:-10], body[:-1] + bytes([body[-1] ^ 1])):
            yield lambda key=key, other=other: of.bucket.put(key, other)  # type: ignore[misc]
    for file in of.files():
        body = of.bucket.get(file.key)
        yield lambda key=file.key: of.remove(key)  # type: ignore[misc]
        for other in (b"", body[:-1], body[1:], gzip.compress(gzip.decompress(body))):
            yield lambda key=file.key, other=other: of.bucket.put(key, other)  # type: ignore[misc]


def test_damage_never_passes_for_an_event_that_is_not_there(whole: Archived) -> None:
    there = {name: len(opened(whole).items_of(*name)) for name in names(whole)}
    objects = dict(whole.bucket._objects)
    seen = 0
    for damage in damages(whole):
        damage()
        for name, count in there.items():
            try:
                assert len(opened(whole).items_of(*name)) == count
            except (ProofMismatch, Missing):
                seen += 1
        whole.bucket._objects = dict(objects)
    assert seen > 100


def test_a_data_file_of_other_items_is_named(whole: Archived) -> None:
    """Whole in itself, as long, but not the one that was proven."""
    file = whole.files()[0]
    [first, *_] = [each for each in items(whole) if isinstance(each.holds, Record)]
    assert isinstance(first.holds, Record)
    name = (first.holds.key, first.holds.id)
    partitions = len(index(whole))
    place = Partition.decoded(
        "", index(whole)[sorted(index(whole))[partition_of(name_digest(*name), partitions)]]
    ).places(name_digest(*name))[0]
    other = gzip.compress(
        line_of({"pk": {"S": "k.1"}, "sk": {"S": "g#1"}, "open": {"BOOL": False}})
    )
    body = whole.bucket.get(file.key)
    padded = other + bytes(place.length - len(other))
    whole.bucket.put(file.key, body[: place.first] + padded + body[place.first + place.length :])
    with pytest.raises(ProofMismatch):
        opened(whole).items_of(*name)


@pytest.mark.parametrize(
    "said", [{}, [], {"partitions": 2, "digests": ["a"]}, {"partitions": 0, "digests": []}]
)
def test_a_proof_with_a_malformed_index_is_named(whole: Archived, said: Any) -> None:
    key = proof_key(whole.prefix)
    whole.bucket.put(key, json.dumps({**json.loads(whole.bucket.get(key)), "index": said}).encode())
    with pytest.raises(ProofMismatch, match="proof malformed"):
        opened(whole)
    assert [each for each in whole.findings() if "proof malformed" in each]


@pytest.mark.parametrize(
    "head", [b"{}", b"[]", b'{"version":1,"files":[[]]}', b"junk", b'{"version":2,"files":[]}']
)
def test_a_partition_that_cannot_be_read_is_named(head: bytes) -> None:
    with pytest.raises(ProofMismatch, match=r"^(index malformed: k: |k: version 2 is unknown)"):
        Partition.decoded("k", head + b"\n")
    with pytest.raises(ProofMismatch, match="index malformed"):
        Partition.decoded("k", b'{"version":1,"files":[]}\nodd')


def test_a_place_that_there_is_not_is_named() -> None:
    digest = name_digest("k", "e")
    for place in (1 << 14, 2):
        partition = Partition([("a", [5, 6])], digest + place.to_bytes(4))
        with pytest.raises(ProofMismatch, match="there is no member"):
            partition.places(digest)


def test_a_name_is_in_the_partition_that_spills_give_it() -> None:
    digests = sorted(name_digest("k", f"e{n}") for n in range(500))
    for parts in (1, 2, 3, 7, 256):
        split = split_digests(digests, parts)
        for number, body in enumerate(split):
            found = [body[at : at + 6] for at in range(0, len(body), 6)]
            assert {partition_of(each, parts) for each in found} <= {number}


def test_an_archive_without_proof_has_no_index(small: None) -> None:
    made = archived(proven=False)
    assert IndexedArchive.opened(made.bucket, made.prefix, CODEC) is None
