"""Bugs of requests that do not ask for consistency, and of sealing too soon after a commit.

Some reads may be old without harm, and no bug is planted in them:

- `calendar`: writers cache it anyway, and what is made by it is conditional on it.
- `periods`: the roller writes only where epoch and version are as it read them. The aggregator
  would leave out a past window only if the read were older than the time from its creation to its
  first count, which is two runs of the roller.
- `stragglers`, `receptions`, `heartbeat`: notes hold a window for two visibility timeouts, and a
  heartbeat counts for as long, which is more than a read is old.
- `hot`, `bucket`: they decide how many shards a key gets, never what counts.
- `unrolled`: what is missing is rolled up by a later run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.lifecycle import state_machine
from tallyroll.model.states import Moment, Status, Window
from tests.simulation import stale

Patch = pytest.MonkeyPatch


def _eventual(patch: Patch, *verbs: str) -> None:
    patch.setattr(stale, "EVENTUAL", stale.EVENTUAL | {*verbs})


def record_read_eventually(patch: Patch) -> None:
    """What was counted seems to be absent from its window, which is sealed."""
    _eventual(patch, "record")


def tallies_read_eventually(patch: Patch) -> None:
    _eventual(patch, "tallies")


def stripes_read_eventually(patch: Patch) -> None:
    """Sealing lists what stood before the gates were shut."""
    _eventual(patch, "stripes")


def window_read_eventually(patch: Patch) -> None:
    """A dropped window, whose record is not found any more, seems to be sealed only."""
    _eventual(patch, "window")


def windows_read_eventually(patch: Patch) -> None:
    _eventual(patch, "windows", "windows_with_specs")


def specs_read_eventually(patch: Patch) -> None:
    """A window without a spec has taken nothing in yet: one that has events is left out. The specs
    do not come with the windows, as in a range of over a year.
    """
    _eventual(patch, "specs")

    def apart(self: Any, since: int, until: int) -> Any:
        return self.windows(since, until), {}

    patch.setattr(MemoryCatalog, "windows_with_specs", apart)


def live_pointer_read_eventually(patch: Patch) -> None:
    _eventual(patch, "live")


def claims_read_eventually(patch: Patch) -> None:
    """A message that was redriven finds no claim, or one that has moved since."""
    _eventual(patch, "claims")


def totals_of_a_key_read_eventually(patch: Patch) -> None:
    """A count lacks a window that was sealed just before it."""
    _eventual(patch, "of_key")


def listing_read_eventually(patch: Patch) -> None:
    """A day is rolled up from a window's listing that does not hold all of its keys yet."""
    _eventual(patch, "listing")


def sealed_without_settling(patch: Patch) -> None:
    """Right after its gates are shut, a listing may lack what a transaction added before."""
    step_of_life = state_machine._step_of_life

    def hasty(window: Window, facts: Any, now: int, settings: Any) -> Any:
        return step_of_life(window, facts, now, replace(settings, settle_ms=0))

    patch.setattr(state_machine, "_step_of_life", hasty)


def settled_since_closing(patch: Patch) -> None:
    """The wait begins when the first gate is about to be shut, and not when the last one is."""
    step_of_life = state_machine._step_of_life

    def early(window: Window, facts: Any, now: int, settings: Any) -> Any:
        if Moment.SHUT in window.times:
            began = window.times[Status.CLOSING]
            window = replace(window, times={**window.times, Moment.SHUT: began})
        return step_of_life(window, facts, now, settings)

    patch.setattr(state_machine, "_step_of_life", early)
