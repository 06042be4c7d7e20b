"""Carrying out a window's due steps, for roller, cleanup and dropper."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field

from tallyroll.errors import ProofMismatch, StateConflict, StoreError
from tallyroll.lifecycle.state_machine import Step, WindowFacts, next_step
from tallyroll.model.states import Window
from tallyroll.ports.effects import Effects
from tallyroll.settings import Settings

DEADLINE_RESERVE_MS = 5_000  # for the step that runs at the deadline
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Rolled:
    """What a run did: its steps, the windows by state after it, and its problems, for people.

    `next_missing` is whether no current window is open. `stuck_ms` is the time since the most-stuck
    window last made progress. `silent_ms` is how long the queue has held messages without a writer
    finishing one. `hot_keys` is how many keys have their own N in the current window, `shards` the
    largest N, if the roller could read them.
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
    facts_of: Callable[[Window], WindowFacts],
    perform: Callable[[Step, Window], Window],
    effects: Effects,
    settings: Settings,
    deadline: int,
    rolled: Rolled,
) -> Window:
    """Do a window's due steps that are in `mine`, until `deadline` (ms); return its last state.

    `perform` returns the window's new state. A step that is due again right after itself is left to
    the next run.
    """
    last: Step | None = None
    with turn(lambda: f"window {window.id} ({window.status})", rolled):
        while effects.now() < deadline:
            step = next_step(window, facts_of(window), effects.now(), settings)
            if step is None or step not in mine or step is last:
                break
            window, last = perform(step, window), step
            rolled.steps[step] += 1
    return window


@contextmanager
def turn(whose: Callable[[], str], rolled: Rolled) -> Iterator[None]:
    """Report an error in one window's or period's turn, which it ends; the next run continues."""
    try:
        yield
    except StateConflict as conflict:
        _log.info("%s: changed meanwhile: %s", whose(), conflict)
    except (StoreError, ProofMismatch) as error:
        rolled.mismatches += isinstance(error, ProofMismatch)
        rolled.problems.append(f"{whose()}: {error}")
    except Exception as error:  # noqa: BLE001  (one turn must not block the others)
        _log.exception("%s: unexpected", whose())
        rolled.problems.append(f"{whose()}: unexpected: {error!r}")
