"""Writers' notes: heartbeats, and batches that hold messages which were received before.

A writer notes such a batch before anything else, and clears the note when the batch has ended. So a
note that stays says two things. Its messages may still be in the queue, hidden from the queue's age
metric: windows that may accept them stay open. And one of them may have killed the writer: the next
writers run them in ever smaller groups, so that the others leave the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from tallyroll.limits import MESSAGES_NOTED_MAX
from tallyroll.model.messages import Message

WRITERS_PK = "~writers"  # where they lie in the catalog, apart from all else
# Of a message's id. Two messages of a batch share one once in some 10,000 batches of 1,000; then
# the one is taken for as deadly as the other.
DIGEST_BYTES = 4
DEATHS_SEEN_MAX = 8  # a group is cut no further than into 2^8 parts


@dataclass(frozen=True, slots=True)
class Reception:
    """A batch on which a writer began at `at` (ms), with messages that were received before.

    They were sent between `oldest` and `newest` (ms). `digests` are those of the messages that are
    worked on at the moment, at most 1,000, joined.
    """

    id: str
    at: int
    oldest: int
    newest: int
    digests: bytes = b""

    @property
    def named(self) -> frozenset[bytes]:
        """The digests one by one."""
        size = DIGEST_BYTES
        return frozenset(self.digests[at : at + size] for at in range(0, len(self.digests), size))

    @property
    def alone(self) -> bool:
        """Whether of those received before one message alone was being worked on."""
        return len(self.digests) == DIGEST_BYTES


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """When (ms) a writer last ended a batch with all notes of it taken, and when one last finished
    a message: counted it, found it a duplicate, or rejected it. None: never.
    """

    at: int | None = None
    finished: int | None = None


class WriterNotes(Protocol):
    """What writers note in the catalog. Reads are strongly consistent."""

    def note_received(self, reception: Reception) -> None:
        """Put a note, in the place of one with its id."""
        ...

    def clear_received(self, reception: Reception) -> None:
        """Take a note back."""
        ...

    def receptions(self, since: int, until: int, most: int) -> list[Reception]:
        """The notes put at [since, until) ms that were not taken back, ascending: the newest, at
        most so many.
        """
        ...

    def beat(self, at: int, *, finished: bool) -> None:
        """Note that a writer ended a batch at `at` (ms), and whether it finished a message; later
        times stand.
        """
        ...

    def heartbeat(self) -> Heartbeat:
        """The last heartbeat of all writers."""
        ...


@dataclass(frozen=True, slots=True)
class Deaths:
    """How many writers died while they worked on a message among others, and when (ms) those began
    that worked on no other message which was received before.
    """

    among: int
    alone: tuple[int, ...]


def message_digest(message: Message) -> bytes:
    """The digest that identifies a message in a note."""
    return blake2b(message.id.encode(), digest_size=DIGEST_BYTES).digest()


def reception_of(note_id: str, at: int, messages: Sequence[Message]) -> Reception:
    """The note of a batch with these messages, of which there is one at least; those that were
    received most often are named.
    """
    named = sorted(messages, key=lambda message: -message.receives)[:MESSAGES_NOTED_MAX]
    sent = [message.sent for message in messages]
    return Reception(note_id, at, min(sent), max(sent), b"".join(map(message_digest, named)))


def deaths_of(messages: Sequence[Message], receptions: Sequence[Reception]) -> Mapping[str, Deaths]:
    """The writers that died while they worked on each of these messages, by message id. Messages
    without any are left out.
    """
    notes: dict[bytes, list[Reception]] = {}
    for each in receptions:
        for digest in each.named:
            notes.setdefault(digest, []).append(each)
    deaths: dict[str, Deaths] = {}
    for message in messages:
        if found := notes.get(message_digest(message)):
            alone = tuple(each.at for each in found if each.alone)
            deaths[message.id] = Deaths(len(found) - len(alone), alone)
    return deaths
