"""Bugs of the write rate."""

from __future__ import annotations

from typing import Any

import pytest

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.ingest.pacing import WriteAllowance
from tallyroll.ports.rate import Turn

Patch = pytest.MonkeyPatch


def room_given_twice(patch: Patch) -> None:
    """As if the line's end were read, and written later without a condition."""
    take_turn = MemoryCatalog.take_turn

    def careless(self: Any, turn: Turn) -> int:
        read = dict(self._lines)
        self._system.world.step()
        self._lines = read
        return take_turn(self, turn)

    patch.setattr(MemoryCatalog, "take_turn", careless)


def attempts_not_paid(patch: Patch) -> None:
    """Attempts after the first are sent although their units were not leased."""
    patch.setattr(WriteAllowance, "pay", lambda self, units: True)
