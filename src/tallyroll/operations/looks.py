"""A look at the dead letters: each is received once, by several workers side by side.

SQS lists nothing. So letters are received until none is new, stay hidden while they are worked on,
and are given back at the end. If this process is killed they reappear by themselves.

However many letters there are, a look takes bounded memory: the letters that its workers hold, the
receipts of at most 50,000 letters that stay in the queue, and 12 to 24 bytes for each of the
others that stay.
"""

from __future__ import annotations

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

# Longer than the work on a batch takes. After a kill, letters stay hidden for no longer than this.
HIDDEN_SECONDS = 300
# SQS lets about 120,000 messages be in flight, then it gives out none (Amazon SQS Developer Guide,
# "Standard queue message quotas"). Half of that leaves room for the letters that are worked on, for
# another look, and for what a look that was killed left hidden.
HELD_MAX = 50_000
BATCH_LETTERS = 100  # keys of one BatchGetItem
BATCH_BYTES = 4 * 1024 * 1024  # roughly; it bounds the memory of a worker
JOBS = 8  # `make bench` shows what more would bring
LOOKS_IN_VAIN = 2  # receives in a row that bring nothing: then a worker awaits no more
SWEEPS_IN_VAIN = 3  # how often all known letters may be seen again before a look ends
_SLOTS_MIN = 1_024
_HASH_BYTES = 8


class Names:
    """A set of texts, by their 64-bit hashes: 12 to 24 bytes each, some 130 MB for ten million.

    Two texts with one hash are taken for the same. For ten million texts the chance that there are
    such two is below one in 100,000.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(_HASH_BYTES * _SLOTS_MIN))
        self._used = 0

    def __len__(self) -> int:
        """How many texts were added."""
        return self._used

    def __contains__(self, name: str) -> bool:
        """Whether the text was added."""
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
        """The slot of a hash, or the empty one where it belongs; by linear probing."""
        slot = found % len(slots)
        while slots[slot] not in (0, found):
            slot = (slot + 1) % len(slots)
        return slot


def _hash_of(name: str) -> int:
    """The text's hash, 1 to 2**64 - 1: 0 marks an empty slot."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") or 1


class Look:
    """One look at the dead letters: each is given to one worker once, and hidden from others.

    A letter that was given and not deleted stays held. If more than `HELD_MAX` letters are held,
    the oldest ones are given back, so that SQS goes on giving out others; they are known when they
    come again. Nothing is ever deleted here. Its methods may be called by several threads.
    """

    def __init__(self, letters: DeadLetters, effects: Effects, limit: int | None = None) -> None:
        """A look at no more than `limit` letters, at all of them if it is None."""
        self._letters = letters
        self._effects = effects
        self._limit = limit
        self._lock = Lock()  # held for no call of a port
        self._held: dict[str, ReceivedLetter] = {}
        self._released = Names()
        self._reserved = 0  # letters that were given out or asked for, against the limit
        self._again = 0  # known letters received since the last new one
        self._stopped = False
        self.seen = 0
        self.expected = 0

    @property
    def missed(self) -> int:
        """How many letters the queue roughly had that were not seen: over the limit, hidden by
        others, or counted wrongly.
        """
        return max(0, self.expected - self.seen)

    @property
    def total(self) -> int:
        """How many letters are to be seen, roughly."""
        return self.expected if self._limit is None else min(self.expected, self._limit)

    def stop(self) -> None:
        """Let every worker end after the batch that it works on."""
        self._stopped = True

    def each(self, treat: Callable[[list[ReceivedLetter]], object], jobs: int = JOBS) -> None:
        """Call `treat` with batches of at most 100 letters, by `jobs` workers side by side.

        Ends when no new letter comes, at the limit, or after `stop`. What `treat` raises stops all
        workers and is raised here. Raises StoreError if letters cannot be received.
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
        """Do not give back these letters: they are deleted."""
        with self._lock:
            for letter in letters:
                self._held.pop(letter.id, None)

    def close(self) -> None:
        """Give back what is held."""
        with self._lock:
            held, self._held = list(self._held.values()), {}
        self._letters.give_back(held)

    def _batches(self) -> Iterator[list[ReceivedLetter]]:
        """One worker's batches, until it receives nothing twice, or nothing new for long."""
        in_vain = 0
        while in_vain < LOOKS_IN_VAIN and not self._over():
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

    def _reserve(self) -> int:
        """How many letters a worker may take at the most, by the limit."""
        with self._lock:
            left = BATCH_LETTERS if self._limit is None else self._limit - self._reserved
            most = max(0, min(BATCH_LETTERS, left))
            self._reserved += most
            return most

    def _over(self) -> bool:
        if self._stopped:
            return True
        with self._lock:
            known = len(self._held) + len(self._released)
            return self._again > SWEEPS_IN_VAIN * known + QUEUE_BATCH_MAX

    def _fill(self, batch: list[ReceivedLetter], most: int) -> int:
        """Add at most `most` new letters to the batch; give how many were received.

        The first receive shows how large letters are, and whether there are many. Others follow
        side by side.
        """
        received = self._receive(batch, min(most, QUEUE_BATCH_MAX))
        if received < QUEUE_BATCH_MAX:
            return received
        size = sum(len(letter.body) for letter in batch)
        times = min((most - received) // QUEUE_BATCH_MAX, BATCH_BYTES // max(size, 1))
        jobs = [partial(self._receive, batch, QUEUE_BATCH_MAX)] * times
        return received + sum(self._effects.together(jobs, max(times, 1)))

    def _receive(self, batch: list[ReceivedLetter], most: int) -> int:
        """Receive some letters, hold them, and add those that are new to the batch."""
        page = self._letters.peek(most, HIDDEN_SECONDS)
        with self._lock:
            fresh = {letter.id: letter for letter in page if not self._knows(letter)}
            for letter in page:
                # Only the last receipt of a letter gives it back, and the body is not needed.
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

    def _knows(self, letter: ReceivedLetter) -> bool:
        return letter.id in self._held or letter.id in self._released
