"""What is decided about a slot, by what is known of it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tallyroll import limits
from tallyroll.errors import Refused, Rejected
from tallyroll.logs.entries import (
    LogEntry,
    SlotName,
    check_id,
    entries_in,
    entry_of,
    leaf_record,
    slot_of,
)
from tallyroll.logs.slots import Slot, next_step
from tallyroll.model.events import Event, Packet
from tallyroll.model.formats.references import Reference
from tallyroll.model.messages import Message
from tallyroll.model.records import Record
from tallyroll.model.specs import LOGS_RULE, Spec, log_rule
from tallyroll.model.stored import StoredPacket, stored
from tests.harness.pipeline import NOW, START, spec_of

SPEC = spec_of(suffix="calculated+log2", logs={"k": log_rule(1_000)})
SLOT = slot_of(SPEC, "k", NOW)
MOST = limits.LOG_ENTRIES_MAX


def entry(number: int, **changes: object) -> LogEntry:
    made = LogEntry(str(UUID(int=number, version=4)), NOW, 1_000_000, None, NOW)
    return made._replace(**changes)  # type: ignore[arg-type]


def leaf(position: int, *numbers: int, ends: bool = False, spec: Spec = SPEC) -> Record:
    return leaf_record(spec, SLOT, position, [entry(each) for each in numbers], ends=ends)


def message(message_id: str = str(UUID(int=7, version=4)), sent: int = NOW) -> Message:
    return Message(message_id, "", sent, 1, "")


def test_a_leaf_holds_its_entries() -> None:
    some = [entry(1), entry(2, ts=NOW - 9, amount=-2_500_000, payload='{"a":1}', sent=NOW + 3)]
    record = leaf_record(SPEC, SLOT, 3, some, ends=False)
    assert entries_in(record) == some
    assert (record.n, record.amount) == (2, -1_500_000)
    packet = stored(record)
    assert isinstance(packet, StoredPacket)
    assert [each.id for each in packet.events] == [f"{record.id}:0", f"{record.id}:1"]
    assert [each.message for each in packet.events] == [each.message for each in some]


def test_all_leaves_of_a_group_are_on_one_shard_and_groups_are_spread() -> None:
    def shard(number: int, position: int) -> int:
        record_id = leaf_record(SPEC, SlotName("k", number), position, [entry(1)], ends=False)
        return record_id.shard

    assert {shard(number, position) for number in range(2) for position in (0, 9)} == {shard(0, 0)}
    assert len({shard(number, 0) for number in range(0, 500, 2)}) == SPEC.shards


def test_a_damaged_leaf_is_refused() -> None:
    record = leaf(0, 1, 2)
    for data in (b"", (record.data or b"")[:-3], (record.data or b"")[16:]):
        with pytest.raises(Refused, match="log of key 'k' is damaged"):
            entries_in(replace(record, data=data))


UPLOADED = Reference("bucket", "payloads/k", 9, "ab" * 32)


@pytest.mark.parametrize(
    ("event", "message_id", "logged"),
    [
        (Event("k", None, None, 1, None), str(UUID(int=7, version=4)), True),
        (Event("k", None, NOW, 1, '"text"'), str(UUID(int=7, version=4)), True),
        (Event("k", "own", None, 1, None), str(UUID(int=7, version=4)), False),
        (Event("other", None, None, 1, None), str(UUID(int=7, version=4)), False),
        (Event("k", None, None, 1, None, ("l",)), str(UUID(int=7, version=4)), False),
        (Event("k", None, None, 1, None), str(UUID(int=0xABC, version=4)).upper(), False),
        (Event("k", None, None, 1, None), "no uuid", False),
        (Event("k", None, None, 1, None, (), UPLOADED), str(UUID(int=7, version=4)), False),
        (Event("k", None, None, 1, '"' + "é" * 300 + '"'), str(UUID(int=7, version=4)), False),
        (Packet("k", "p", NOW, ((0, 1, None),)), str(UUID(int=7, version=4)), False),
    ],
)
def test_log_or_record_follows_from_message_and_spec(
    event: Event | Packet, message_id: str, *, logged: bool
) -> None:
    assert (entry_of(event, message(message_id), SPEC) is not None) is logged


def test_an_id_of_a_leaf_is_rejected() -> None:
    for event in (Event("k", "~log.1", None, 1, None), Packet("j", "~log.1", NOW, ((0, 1, None),))):
        with pytest.raises(Rejected, match="must not begin with '~log"):
            check_id(event, message())
        assert entry_of(event, message(), SPEC) is None
    with pytest.raises(Rejected, match="must not begin with '~log"):
        check_id(Event("k", None, None, 1, None), message("~log.1"))


def test_a_leaf_that_ends_its_slot_is_another_one() -> None:
    assert leaf(0, 1).digest != leaf(0, 1, ends=True).digest


def test_only_the_prefix_without_a_gap_counts() -> None:
    slot = Slot().after([leaf(3, 3), leaf(0, 0), leaf(1, 1)])
    assert (slot.free, len(slot.entries)) == (2, 2)
    assert slot.after([leaf(3, 3), leaf(2, 2)]).free == 4


def test_who_is_in_the_prefix_is_stored_and_the_rest_is_put_at_the_first_gap() -> None:
    slot = Slot().after([leaf(0, 1, 2)])
    step = next_step(slot, [entry(1), entry(2, amount=9), entry(3)], MOST)
    assert (step.stored, step.taken, step.appended) == (
        (entry(1),),
        (entry(2, amount=9),),
        (entry(3),),
    )
    assert (step.left, step.records) == ((), ())


def test_what_does_not_fit_waits() -> None:
    some = [entry(number) for number in range(MOST + 2)]
    step = next_step(Slot(), some, MOST)
    assert (len(step.appended), len(step.left)) == (MOST, 2)
    large = [entry(number, payload='"' + "x" * 4_000 + '"') for number in range(30)]
    step = next_step(Slot(), large, MOST)
    assert sum(each.size for each in step.appended) <= limits.LOG_LEAF_BYTES_MAX
    assert step.left


@pytest.mark.parametrize("ended", [True, False])
def test_a_full_slot_takes_no_more_and_what_is_not_in_it_gets_a_record(*, ended: bool) -> None:
    positions = 2 if ended else limits.LOG_POSITIONS
    leaves = [leaf(at, at, ends=ended and at == positions - 1) for at in range(positions)]
    slot = Slot().after(leaves)
    assert slot.full
    step = next_step(slot, [entry(0), entry(99)], MOST)
    assert (step.stored, step.records, step.appended) == ((entry(0),), (entry(99),), ())
    assert slot.after([leaf(positions, 98)]) == slot


def test_a_slot_of_few_entries_is_ended() -> None:
    sparse = Slot().after([leaf(0, 0)])
    assert next_step(sparse, [entry(9)], MOST).ends
    dense = Slot().after([leaf(0, *range(15))])
    assert not next_step(dense, [entry(99)], MOST).ends
    assert next_step(Slot(), [entry(9)], MOST).ends


def test_a_rate_says_how_long_a_slot_is() -> None:
    lengths = [log_rule(rate).slot_ms for rate in (1, 1_000, 5_000, 100_000)]
    assert lengths == [1_000_000, 1_000, 200, 10]
    assert START // log_rule(1).slot_ms < 10**13  # its number fits into an id


def test_another_number_of_positions_is_another_rule() -> None:
    """Writers of two releases must agree when a slot is full; a spec names the rule alone."""
    assert (LOGS_RULE, limits.LOG_POSITIONS) == ("log2", 96)
