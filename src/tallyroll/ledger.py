"""The redrive ledger: in which window each redriven event is to count, so that it counts once.

A redrive claims an event's identity for a target window before it sends, and whoever comes later
finds the claim and keeps to it. The writer counts a redriven event only in the window that its
claim names. A claim may move only once its target was sealed without the event's record: then no
copy of it can count there any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallyroll.ids import Identity
from tallyroll.windows import WindowId


@dataclass(frozen=True, slots=True)
class Claim:
    """The window in which an event is to count, and when that was claimed (ms)."""

    target: WindowId
    at: int


class Ledger(Protocol):
    """The claims, by the identity that each event had at first. Reads are strongly consistent."""

    def claims(self, identities: Sequence[Identity]) -> Mapping[Identity, Claim]:
        """The claims of these distinct identities that stand."""
        ...

    def claim(self, identity: Identity, wanted: Claim) -> Claim:
        """Put a claim if the identity has none; give the one that stands."""
        ...

    def move(self, identity: Identity, read: Claim, wanted: Claim) -> Claim:
        """Put a claim in the place of `read`, if that still stands; give the one that stands."""
        ...


class MemoryLedger:
    """Claims in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._claims: dict[Identity, Claim] = {}

    def claims(self, identities: Sequence[Identity]) -> Mapping[Identity, Claim]:
        """The claims of these identities that stand."""
        return {one: self._claims[one] for one in identities if one in self._claims}

    def claim(self, identity: Identity, wanted: Claim) -> Claim:
        """Put a claim if the identity has none; give the one that stands."""
        return self._claims.setdefault(identity, wanted)

    def move(self, identity: Identity, read: Claim, wanted: Claim) -> Claim:
        """Put a claim in the place of `read`, if that still stands; give the one that stands."""
        if self._claims[identity] == read:
            self._claims[identity] = wanted
        return self._claims[identity]
