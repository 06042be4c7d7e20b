"""Laws of the merge of shards and of its cursor."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tallyroll.client.packing import pack
from tallyroll.errors import UsageError
from tallyroll.model.events import Event, Packet, decode
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, RecordPage, record_of
from tallyroll.model.sharding import calculated
from tallyroll.model.stored import StoredEvent, StoredPacket, packed_id, stored
from tallyroll.reads.cursor import CURSOR_VERSION, Position, cursor_of, read_cursor
from tallyroll.reads.merge import Merge, Part, page_limit
from tests.harness.pipeline import NOW, START, WINDOW, record_with, spec_of
from tests.properties import strategies as some
from tests.tiers import examples

laws = settings(max_examples=examples(100))
SPEC = spec_of(start=0, end=2**60)
positions = st.builds(Position, some.ids, st.none() | st.integers(0, 10**6))
ids = st.text("ab:.é\uffff\U00010000", min_size=1, max_size=4)


def packet(record_id: str, events: int) -> Record:
    """A packet's record as the writer stores it."""
    entries = tuple((index, 10**6 + index, None) for index in range(events))
    body = Packet("k", record_id, START, entries)
    return record_of(body, Message("m", "", NOW, 1, "r"), SPEC)


@dataclass
class Shards:
    """A store of one key; `most` is what it gives at once, however much is asked for."""

    shards: list[dict[str, Record]]
    most: int = 10**6
    reads: int = 0

    def page(self, shard: int, after: str, limit: int) -> RecordPage:
        self.reads += 1
        listed = sorted(record_id for record_id in self.shards[shard - 1] if record_id > after)
        there = listed[: min(limit, self.most)]
        records = tuple(self.shards[shard - 1][record_id] for record_id in there)
        return RecordPage(records, more=len(listed) > len(there))

    def put(self, shard: int, record: Record) -> None:
        self.shards[shard % len(self.shards)][record.id] = record

    def has(self, record_id: str) -> bool:
        return any(record_id in shard for shard in self.shards)

    def records(self) -> list[Record]:
        return sorted(
            (record for shard in self.shards for record in shard.values()),
            key=lambda record: record.id,
        )

    def events(self, *, packed: bool = False) -> list[StoredEvent | StoredPacket]:
        """All that is there, in the order that answers have."""
        found: list[StoredEvent | StoredPacket] = []
        for record in self.records():
            one = stored(record)
            found += [one] if packed or isinstance(one, StoredEvent) else one.events
        return found

    def answer(
        self,
        position: Position,
        most: int,
        *,
        size: int = 10**9,
        packed: bool = False,
        rounds: int = 10**6,
        due: int = 3,
    ) -> Part:
        """One answer from a position on; after so many rounds time is over."""
        begun = None
        if position.index is not None:
            (begun,) = (r for r in self.records() if r.id == position.record_id)
        merge = Merge(
            range(1, len(self.shards) + 1), position, most, size, packed=packed, begun=begun
        )
        limit = page_limit(most, len(self.shards))
        while (places := merge.due(due)) and rounds:
            rounds -= 1
            merge.add({shard: self.page(shard, after, limit) for shard, after in places})
        return merge.part(lambda record: record)


kinds = st.sampled_from([0, 0, 0, 1, 2, 5])  # events of a packet, or none: a single event
placed = st.lists(
    st.tuples(ids, kinds, st.integers(0, 5)), max_size=25, unique_by=lambda one: one[0]
)


def _spread(number: int, records: list[tuple[str, int, int]]) -> Shards:
    shards = Shards([{} for _ in range(number)])
    for record_id, events, at in records:
        shards.put(at, packet(record_id, events) if events else record_with(record_id))
    return shards


splits = st.builds(_spread, st.integers(1, 6), placed)
"""Records of a key, singles and packets, spread over shards in any way."""


def paged(
    shards: Shards, sizes: Sequence[int], *, size: int = 10**9, packed: bool = False
) -> list[StoredEvent | StoredPacket]:
    """All answers, of these sizes in turn, put together."""
    found: list[StoredEvent | StoredPacket] = []
    position = Position()
    for number in count():
        part = shards.answer(position, sizes[number % len(sizes)], size=size, packed=packed)
        found += part.found
        if part.then is None:
            return found
        assert part.found, "no way on"
        if size == 10**9:
            assert len(part.found) == sizes[number % len(sizes)]
        position = part.then
    raise AssertionError


@laws
@given(splits, st.integers(1, 7), st.integers(1, 4), st.booleans())
def test_merging_any_split_gives_the_sorted_whole(
    shards: Shards, most: int, due: int, packed: bool
) -> None:
    shards.most = most
    part = shards.answer(Position(), 10**6, packed=packed, due=due)
    assert list(part.found) == shards.events(packed=packed)
    assert part.then is None


@laws
@given(splits, st.lists(st.integers(1, 9), min_size=1, max_size=4), st.booleans())
def test_answers_of_any_sizes_together_are_one(
    shards: Shards, sizes: list[int], packed: bool
) -> None:
    assert paged(shards, sizes, packed=packed) == shards.events(packed=packed)


@laws
@given(splits, st.integers(1, 400))
def test_answers_cut_by_their_bytes_together_are_one(shards: Shards, size: int) -> None:
    assert paged(shards, [10**6], size=size) == shards.events()


@laws
@given(splits, st.integers(1, 9))
def test_an_answer_holds_as_many_as_it_may(shards: Shards, most: int) -> None:
    part = shards.answer(Position(), most)
    there = shards.events()
    assert list(part.found) == there[:most]
    assert (part.then is None) or len(part.found) == most


@laws
@given(splits, st.data())
def test_what_is_written_meanwhile_appears_if_it_lies_ahead(
    shards: Shards, data: st.DataObject
) -> None:
    """Nothing twice, nothing lost, and nothing before the position disturbs."""
    found: list[StoredEvent | StoredPacket] = []
    expected: list[StoredEvent | StoredPacket] = []
    position = Position()
    for _ in range(200):
        part = shards.answer(position, data.draw(st.integers(1, 6)))
        found += part.found
        if part.then is None:
            expected += _behind(shards, position)
            break
        expected += part.found
        position = part.then
        new = data.draw(ids)
        if not shards.has(new):
            record = packet(new, 3) if data.draw(st.booleans()) else record_with(new)
            shards.put(data.draw(st.integers(0, 5)), record)
    assert found == expected
    assert len({_place(one) for one in found}) == len(found)
    places = [_place(one) for one in found]
    assert places == sorted(places)


def _place(one: StoredEvent | StoredPacket) -> tuple[str, int]:
    assert isinstance(one, StoredEvent)
    return (one.packet or one.id, -1 if one.index is None else one.index)


def _behind(shards: Shards, position: Position) -> list[StoredEvent | StoredPacket]:
    """All that is stored after a position."""
    limit = 10**9 if position.index is None else position.index
    return [one for one in shards.events() if _place(one) > (position.record_id, limit)]


@laws
@given(splits, st.data())
def test_running_out_of_time_loses_nothing(shards: Shards, data: st.DataObject) -> None:
    shards.most = data.draw(st.integers(1, 3))
    found: list[StoredEvent | StoredPacket] = []
    position: Position | None = Position()
    for _ in range(1_000):
        assert position is not None
        part = shards.answer(position, 5, rounds=data.draw(st.integers(0, 4)))
        found += part.found
        position = part.then
        if position is None:
            break
    else:
        assume(False)
    assert found == shards.events()


@laws
@given(st.integers(1, 1_000), st.integers(1, 10_000))
def test_a_page_is_no_larger_than_the_answer(events: int, shards: int) -> None:
    assert 1 <= page_limit(events, shards) <= events
    assert page_limit(events, shards) * shards >= events


def test_an_answer_reads_each_shard_about_once() -> None:
    shards = Shards([{} for _ in range(16)])
    for number in range(2_000):
        record = record_with(f"id-{number}")
        shards.put(calculated(record.id, 16), record)
    shards.answer(Position(), 100)
    assert shards.reads <= 16 + 3


def test_only_what_an_answer_takes_is_held() -> None:
    merge = Merge(range(1, 1_001), Position(), 10, 10**9)
    for shard in range(1, 1_001):
        records = tuple(record_with(f"{n:04}-{shard:04}") for n in range(10))
        if shard in dict(merge.due(1_000)):
            merge.add({shard: RecordPage(records, more=True)})
        assert len(merge.known()) <= len(merge._held) <= 10


# --- packets


@laws
@given(st.lists(some.packable_events, min_size=1, max_size=20))
def test_packets_come_apart_into_their_events(events: list[Event]) -> None:
    numbers = count(1)
    there: list[StoredEvent] = []
    for body in pack(events, lambda: f"p{next(numbers)}"):
        message = Message("m", body, NOW, 1, "r")
        one = stored(record_of(decode(body), message, SPEC))
        assert isinstance(one, StoredPacket)
        there += one.events
    assert sorted((e.ts, e.amount, e.payload or "") for e in there) == sorted(
        (e.ts or 0, e.amount, e.payload or "") for e in events
    )
    assert [packed_id(event.id) for event in there] == [(e.packet, e.index) for e in there]


@pytest.mark.parametrize("other", ["p", "p:", ":1", "p:01", "p:-1", "p:1 ", "p:٣", "p:²", "p:1e2"])
def test_other_ids_name_no_packed_event(other: str) -> None:
    assert packed_id(other) is None


# --- cursors


@laws
@given(positions, some.keys, st.booleans())
def test_cursors_round_trip(position: Position, key: str, packed: bool) -> None:
    cursor = cursor_of(WINDOW, key, position, packed=packed)
    assert cursor.isascii()
    assert cursor.replace("-", "").replace("_", "").isalnum()
    assert read_cursor(cursor, WINDOW, key, packed=packed) == position


@laws
@given(st.text(max_size=60) | st.text("ABCDabcd0123-_=", max_size=60))
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        read_cursor(text, WINDOW, "k", packed=False)


@laws
@given(positions, st.data())
def test_a_cursor_that_was_touched_is_refused(position: Position, data: st.DataObject) -> None:
    cursor = cursor_of(WINDOW, "k", position, packed=False)
    at = data.draw(st.integers(0, len(cursor) - 1))
    letter = data.draw(st.sampled_from("ABCxyz019-_=+/ "))
    other = data.draw(
        st.sampled_from(
            [
                cursor[:at] + letter + cursor[at + 1 :],
                cursor[:at],
                cursor[:at] + letter + cursor[at:],
            ]
        )
    )
    assume(other != cursor)
    with pytest.raises(UsageError):
        read_cursor(other, WINDOW, "k", packed=False)


@laws
@given(positions)
def test_a_cursor_of_another_question_is_refused(position: Position) -> None:
    cursor = cursor_of(WINDOW, "k", position, packed=False)
    for window, key, packed in (
        ("20261120T090000Z", "k", False),
        (WINDOW, "l", False),
        (WINDOW, "k", True),
    ):
        with pytest.raises(UsageError, match="belongs to key 'k', window 20261120T080000Z"):
            read_cursor(cursor, window, key, packed=packed)


def test_a_cursor_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cursor = cursor_of(WINDOW, "k", Position("a"), packed=False)
    fields = json.loads(base64.urlsafe_b64decode(cursor + "==")[6:])
    assert fields == [CURSOR_VERSION, WINDOW, "k", False, "a", None]
    monkeypatch.setattr("tallyroll.reads.cursor.CURSOR_VERSION", 2)
    with pytest.raises(UsageError, match="version 1: begin again"):
        read_cursor(cursor, WINDOW, "k", packed=False)
