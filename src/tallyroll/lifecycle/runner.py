"""Carrying out a window's due steps: what roller and cleanup share."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tallyroll.errors import ProofMismatch, StateConflict, StoreError
from tallyroll.lifecycle.state_machine import Facts, Step, next_step
from tallyroll.model.states import Window
from tallyroll.ports.effects import Effects
from tallyroll.settings import Settings

DEADLINE_RESERVE_MS = 5_000  # for the step that is under way when time is nearly up
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Rolled:
    """What a run did: its steps, the windows by state after it, and what went wrong, for people.

    `stuck_ms` is the time since the most-stuck window last made progress. `silent_ms` is how long
    the queue has held messages without a writer finishing one. Of the
    current window the roller tells, as far as they can be read, the `hot_keys` that have shards of
    their own, and the most `shards` that a key has.
    """

    steps: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    mismatches: int = 0
    next_missing: bool = False
    stuck_ms: int = 0
    silent_ms: int = 0
    hot_keys: int = 0
    shards: int = 0


def carry_out(
    window: Window,
    mine: AbstractSet[Step],
    facts_of: Callable[[Window], Facts],
    perform: Callable[[Step, Window], Window],
    effects: Effects,
    settings: Settings,
    deadline: int,
    rolled: Rolled,
) -> Window:
    """Do what is due for a window, of the steps in `mine`, until nothing is or `deadline` (ms);
    give its last state.

    `perform` gives the window's new state, or None if the step has to go on in a later run. An
    error ends this window's turn only: the next run takes it up where its state says.
    """
    last: Step | None = None
    try:
        while effects.now() < deadline:
            step = next_step(window, facts_of(window), effects.now(), settings)
            if step is None or step not in mine or step is last:
                return window
            window, last = perform(step, window), step
            rolled.steps[step] += 1
    except StateConflict:
        _log.info("window %s: another run was faster", window.id)
    except (StoreError, ProofMismatch) as error:
        rolled.mismatches += isinstance(error, ProofMismatch)
        rolled.problems.append(f"window {window.id} ({window.status}): {error}")
    except Exception as error:  # noqa: BLE001  (one window must not keep all others from their turn)
        _log.exception("window %s: unexpected", window.id)
        rolled.problems.append(f"window {window.id} ({window.status}): unexpected: {error!r}")
    return window
