"""A scan of the dead letters: several workers receive each letter once.

SQS cannot list messages. So letters are received until none is new, stay hidden while they are
processed, and are made visible at the end. If this process is killed, they reappear by themselves.

A scan's memory is bounded: the letters that its workers hold, the receipts of at most 50,000
letters that stay in the queue, and 12 to 24 bytes for each other letter that stays.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from threading import Lock

from tallyroll.limits import QUEUE_BATCH_MAX
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.ports.dead_letters import DeadLetters
from tallyroll.ports.effects import Effects

# Longer than a batch takes. After a kill, letters stay hidden for at most this long.
HIDDEN_SECONDS = 300
# SQS delivers nothing while about 120,000 messages are in flight (Amazon SQS Developer Guide,
# "Standard queue message quotas"). Less than half leaves room for letters being processed, for
# another scan, and for the letters that a killed one left hidden.
HELD_MAX = 50_000
BATCH_LETTERS = 100  # keys of one BatchGetItem
BATCH_BYTES = 4 * 1024 * 1024  # roughly; bounds a worker's memory
JOBS = 8  # `make bench` shows the effect of more
# A worker ends after so many empty receives in a row: the fewer if as many letters were seen as SQS
# counts. One is needed also then, since the count lags.
LOOKS_IN_VAIN, LOOKS_IN_VAIN_OF_ALL = 2, 1
SWEEPS_IN_VAIN = 3  # a scan ends after all known letters were received so often again
_SLOTS_MIN = 1_024
_HASH_BYTES = 8


class Names:
    """A set of texts, by their 64-bit hashes: 12 to 24 bytes each, some 130 MB for ten million.

    Texts with equal hashes are taken for the same. Among ten million texts the chance of such a
    pair is below one in 100,000.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(_HASH_BYTES * _SLOTS_MIN))
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def __contains__(self, name: str) -> bool:
        return bool(self._slots[self._slot(self._slots, _hash_of(name))])

    def add(self, name: str) -> None:
        """Add a text, if it is not there."""
        found = _hash_of(name)
        slot = self._slot(self._slots, found)
        if self._slots[slot]:
            return
        self._slots[slot] = found
        self._used += 1
        if self._used * 3 > len(self._slots) * 2:
            self._grow()

    def _grow(self) -> None:
        slots = array("Q", bytes(2 * _HASH_BYTES * len(self._slots)))
        for found in self._slots:
            if found:
                slots[self._slot(slots, found)] = found
        self._slots = slots

    @staticmethod
    def _slot(slots: Sequence[int], found: int) -> int:
        """The slot of a hash, or the empty slot where it belongs, by linear probing."""
        slot = found % len(slots)
        while slots[slot] not in (0, found):
            slot = (slot + 1) % len(slots)
        return slot


def _hash_of(name: str) -> int:
    """The text's hash, 1 to 2**64 - 1; 0 marks an empty slot."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") or 1


class DeadLetterScan:
    """One scan of the dead letters: gives each letter to one worker, once.

    A letter stays held until it is deleted. If more than `HELD_MAX` letters are held, the oldest
    are made visible, so that SQS delivers others; they are recognized when they are received again.
    A scan deletes nothing. It is thread-safe.
    """

    def __init__(self, letters: DeadLetters, effects: Effects, limit: int | None = None) -> None:
        """A scan of up to `limit` letters, or at all of them if it is None."""
        self._letters = letters
        self._effects = effects
        self._limit = sys.maxsize if limit is None else limit
        self._lock = Lock()  # never held during a call of a port
        self._held: dict[str, ReceivedLetter] = {}
        self._released = Names()
        self._reserved = 0  # letters given to workers or being received, counted against the limit
        self._again = 0  # known letters received since the last new one
        self._stopped = False
        self.seen = 0
        self.expected = 0

    @property
    def missed(self) -> int:
        """Roughly how many letters were not seen: over the limit, hidden by others, or miscounted
        by SQS.
        """
        return max(0, self.expected - self.seen)

    @property
    def total(self) -> int:
        """Roughly how many letters this scan will see."""
        return min(self.expected, self._limit)

    def stop(self) -> None:
        """Let every worker end after its current batch."""
        self._stopped = True

    def each(self, treat: Callable[[list[ReceivedLetter]], object], jobs: int = JOBS) -> None:
        """Call `treat` with batches of at most 100 letters, from `jobs` concurrent workers.

        Ends when no new letter comes, at the limit, or after `stop`. An exception of `treat` stops
        all workers and is raised here. Raises StoreError if letters cannot be received.
        """
        backlog = self._letters.count()
        self.expected = backlog.visible + backlog.in_flight + backlog.delayed

        def work() -> None:
            try:
                for batch in self._batches():
                    treat(batch)
            except BaseException:
                self.stop()
                raise

        self._effects.together([work] * jobs, jobs)

    def forget(self, letters: Sequence[ReceivedLetter]) -> None:
        """Stop holding these letters, since they are deleted."""
        with self._lock:
            for letter in letters:
                self._held.pop(letter.id, None)

    def close(self) -> None:
        """Make all held letters visible."""
        with self._lock:
            held, self._held = list(self._held.values()), {}
        self._letters.give_back(held)

    def _batches(self) -> Iterator[list[ReceivedLetter]]:
        """One worker's batches, until it receives nothing (twice, if letters are missing), or
        nothing new for long.
        """
        in_vain = 0
        while in_vain < self._looks_in_vain() and not self._over():
            most = self._reserve()
            if not most:
                return
            batch: list[ReceivedLetter] = []
            try:
                received = self._fill(batch, most)
            finally:
                with self._lock:
                    self._reserved -= most - len(batch)
                    self.seen += len(batch)
            in_vain = 0 if received else in_vain + 1
            if batch:
                yield batch

    def _looks_in_vain(self) -> int:
        with self._lock:
            return LOOKS_IN_VAIN if self.missed else LOOKS_IN_VAIN_OF_ALL

    def _reserve(self) -> int:
        """Reserve up to a batch of letters within the limit; return how many."""
        with self._lock:
            most = max(0, min(BATCH_LETTERS, self._limit - self._reserved))
            self._reserved += most
            return most

    def _over(self) -> bool:
        if self._stopped:
            return True
        with self._lock:
            known = len(self._held) + len(self._released)
            return self._again > SWEEPS_IN_VAIN * known + QUEUE_BATCH_MAX

    def _fill(self, batch: list[ReceivedLetter], most: int) -> int:
        """Add up to `most` new letters to the batch. Returns how many letters were received.

        The first receive shows how large letters are and whether there are many; further receives
        are concurrent.
        """
        received = self._receive(batch, min(most, QUEUE_BATCH_MAX))
        if received < QUEUE_BATCH_MAX:
            return received
        size = sum(len(letter.body) for letter in batch)
        times = min((most - received) // QUEUE_BATCH_MAX, BATCH_BYTES // max(size, 1))
        jobs = [partial(self._receive, batch, QUEUE_BATCH_MAX)] * times
        return received + sum(self._effects.together(jobs, max(times, 1)))

    def _receive(self, batch: list[ReceivedLetter], most: int) -> int:
        """Receive up to `most` letters, hold them, and add the new ones to the batch."""
        page = self._letters.peek(most, HIDDEN_SECONDS)
        with self._lock:
            fresh = {
                letter.id: letter
                for letter in page
                if letter.id not in self._held and letter.id not in self._released
            }
            for letter in page:
                # Only a letter's last receipt makes it visible again. Its body is not needed.
                self._held.pop(letter.id, None)
                self._held[letter.id] = replace(letter, body="", detail="")
            batch += fresh.values()
            self._again = 0 if fresh else self._again + len(page)
            surplus = list(islice(self._held.values(), max(0, len(self._held) - HELD_MAX)))
            for letter in surplus:
                del self._held[letter.id]
                self._released.add(letter.id)
        if surplus:
            self._letters.give_back(surplus)
        return len(page)
