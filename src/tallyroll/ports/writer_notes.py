"""Writers' notes: heartbeats, and batches that hold messages which were received before.

A writer notes such a batch before anything else, and clears the note when the batch has ended. A
note that was not cleared has two consequences. Its messages may still be in the queue, hidden from
the queue's age metric, so the windows that may accept them stay open. And one of its messages may
have killed the writer, so the next writers process them in ever smaller groups, and the harmless
ones leave the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from tallyroll.limits import MESSAGES_NOTED_MAX
from tallyroll.model.messages import Message

WRITERS_PK = "~writers"  # partition key of the notes in the catalog
# Digest of a message's id. In one of some 10,000 batches of 1,000 messages, two have the same; then
# a death of a writer on one of them counts for both.
DIGEST_BYTES = 4
DEATHS_SEEN_MAX = 8  # messages are divided into at most 2^8 groups


@dataclass(frozen=True, slots=True)
class Reception:
    """The note of a batch that a writer began at `at` (ms).

    Its messages that were received before were sent between `oldest` and `newest` (ms). `digests`
    are the concatenated digests of those that the writer works on now, at most 1,000.
    """

    id: str
    at: int
    oldest: int
    newest: int
    digests: bytes = b""

    @property
    def named(self) -> frozenset[bytes]:
        """The digests, separated."""
        size = DIGEST_BYTES
        return frozenset(self.digests[at : at + size] for at in range(0, len(self.digests), size))

    @property
    def alone(self) -> bool:
        """Whether the writer works on only one message that was received before."""
        return len(self.digests) == DIGEST_BYTES


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """When (ms) a writer last ended a batch whose notes were all stored, and when a writer last
    finished a message: counted it, found it a duplicate, or rejected it. None: never.
    """

    at: int | None = None
    finished: int | None = None


class WriterNotes(Protocol):
    """What writers note in the catalog."""

    def note_received(self, reception: Reception) -> None:
        """Put a note, or replace the one with its id."""

    def clear_received(self, reception: Reception) -> None:
        """Delete a note."""

    def receptions(self, since: int, until: int, most: int) -> list[Reception]:
        """The newest `most` notes of [since, until) ms, ascending."""

    def beat(self, at: int, *, finished: bool) -> None:
        """Note that a writer ended a batch at `at` (ms), and whether it finished a message. The
        latest times are kept.
        """

    def heartbeat(self) -> Heartbeat:
        """The latest heartbeat of all writers."""


@dataclass(frozen=True, slots=True)
class Deaths:
    """The writers that died while they worked on a message.

    `among` is how many of them also worked on other messages that were received before. `alone` has
    the start times (ms) of those that did not.
    """

    among: int
    alone: tuple[int, ...]


def message_digest(message: Message) -> bytes:
    """The digest that identifies a message in a note."""
    return blake2b(message.id.encode(), digest_size=DIGEST_BYTES).digest()


def reception_of(note_id: str, at: int, messages: Sequence[Message]) -> Reception:
    """The note of a batch with these messages, at least one. It has the digests of those that were
    received most often.
    """
    named = sorted(messages, key=lambda message: -message.receives)[:MESSAGES_NOTED_MAX]
    sent = [message.sent for message in messages]
    return Reception(note_id, at, min(sent), max(sent), b"".join(map(message_digest, named)))


def deaths_of(messages: Sequence[Message], receptions: Sequence[Reception]) -> Mapping[str, Deaths]:
    """The writers that died on each of these messages, by message id; without messages on which
    none died.
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
