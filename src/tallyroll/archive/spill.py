"""Spills of a proof: data kept in the bucket instead of in memory, one body per partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b

from tallyroll.archive.notes import NotePlace, Spill
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.ports.effects import Effects

PUTS_AT_ONCE = 16


class Spills:
    """Writes the spills of one run, and reads those of all runs, under one prefix."""

    def __init__(self, place: NotePlace, progress: str, effects: Effects) -> None:
        self._place = place
        self._progress = progress
        self._effects = effects
        self._token = f"{effects.chance.getrandbits(48):012x}"
        self._spilled = 0

    def put(self, kind: str, bodies: Sequence[bytes], suffix: str) -> Spill:
        """Write one spill, one body per partition unless empty. Returns its entry for a note."""
        name, self._spilled = f"{kind}-{self._token}{self._spilled:04x}", self._spilled + 1
        spill = Spill(name, suffix, [_digest_of(body) if body else "" for body in bodies])
        jobs = [
            partial(self._place.put, self._key(spill, partition), body)
            for partition, body in enumerate(bodies)
            if body
        ]
        self._effects.together(jobs, PUTS_AT_ONCE)
        return spill

    def bodies(self, spills: Iterable[Spill], partition: int) -> Iterator[bytes]:
        """A partition's bodies of these spills. Raises ProofMismatch if one is missing or has
        changed.
        """
        for spill in spills:
            if not spill.digests[partition]:
                continue
            key = self._key(spill, partition)
            try:
                body = self._place.get(key)
            except Missing:
                raise ProofMismatch([f"{key}: missing"]) from None
            if _digest_of(body) != spill.digests[partition]:
                raise ProofMismatch([f"{key}: changed since it was written"])
            yield body

    def _key(self, spill: Spill, partition: int) -> str:
        return f"{self._progress}{spill.name}-{partition:04d}.{spill.suffix}"


def _digest_of(body: bytes) -> str:
    """A short digest: a note holds one for each partition of a spill."""
    return blake2b(body, digest_size=16).hexdigest()
