"""What may be left when something fails for ever, and what must have been done all the same.

roller       open windows count on, messages for windows that are not made wait; nothing closes
cleanup      everything happens but exports and drops
aggregator   nothing else knows of it
writer       one sandbox fails whatever it is given; the others count it
deletion     one table is never deleted; all other windows come to their end
export       one table is never exported; all other windows come to their end
letters      what can never count stays in the queue, and may hold its own window open
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tallyroll import limits
from tallyroll.cdk.alarm_rules import rules_for
from tallyroll.cdk.alarm_values import AlarmRule
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import table_name
from tallyroll.reasons import Reason
from tests.simulation.alarms import MORE_PERIODS, raised
from tests.simulation.lasting_faults import LastingFault
from tests.simulation.plans import FAULTS_MS, SETTINGS, START_MS, WINDOW_MS
from tests.simulation.sent import Asked
from tests.simulation.truth import window_name

if TYPE_CHECKING:
    from tallyroll.adapters.memory.queue import Held
    from tests.simulation.pipeline import System

PARTS = ("roller", "cleanup", "aggregator", "writer", "deletion", "export", "letters")
WINDOWS = 7  # one of the first so many windows has the table that stays
UNTIL_MS = 400_000  # after the start, when the last of them fails
TOLD_MAX = 10
TOLD_BY = {"roller": "next-window-missing", "cleanup": "cleanup-errors"}
RETENTION_SECONDS = 864_000  # the event queue's


def forever(chance: Random) -> tuple[LastingFault, ...]:
    """What fails for ever from some moment on under a seed: nothing in half of them."""
    roll = chance.random
    if roll() < 0.5:
        return ()
    chosen = [part for part in PARTS if roll() < 0.25] or [PARTS[int(roll() * len(PARTS))]]
    table = table_name(SETTINGS.name, window_name(START_MS + int(roll() * WINDOWS) * WINDOW_MS))
    found: list[LastingFault] = []
    for part in chosen:
        since = START_MS + roll() * UNTIL_MS
        match part:
            case "writer":
                found.append(LastingFault(part, "dies", ("writer",), since=since, one_sandbox=True))
            case "deletion":
                found.append(_of_table(part, "store", "drop_table", since, table))
            case "export":
                found.append(_of_table(part, "store", "scan", since, table))
                found.append(_of_table(part, "exports", "start", since, table))
            case "letters":
                found.append(LastingFault(part, "denied", (), "queue", ("reject",), since))
            case _:
                found.append(LastingFault(part, "dies", (part,), since=since))
    return tuple(found)


def _of_table(part: str, port: str, verb: str, since: float, table: str) -> LastingFault:
    return LastingFault(part, "denied", (), port, (verb,), since, table=table)


class Liveness:
    """Judges what is left of a simulation in the end."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._parts = {one.name: one for one in system.lasting_faults.all}
        self._held_open: set[str] = set()

    def fails(self, part: str) -> bool:
        """Whether a part fails for ever."""
        return part in self._parts

    def waiting(self) -> list[str]:
        """The ids of the messages that are in the queue, and may be for ever."""
        return [held.id for held in self._system.queue.held() if self._may_stay(held)]

    def left(self, last: int) -> tuple[list[str], list[str]]:
        """What should still happen: some messages in the queue, and the windows that were over at
        `last` (ms), each with its state.
        """
        stuck = [held.id for held in self._system.queue.held() if not self._may_stay(held)]
        over = self._system.catalog.windows(0, last - WINDOW_MS)
        open_ = [f"{one.id} {one.status}" for one in over if not self._has_ended(one)]
        if self._system.open:
            held = [one for one in over if self.fails("letters") and one.status is Status.OPEN]
            self._held_open = {one.id for one in held if self._has_ended(one)}
        return stuck[:TOLD_MAX], open_

    def told_by(self) -> int:
        """When (ms) alarms must have told of a roller or a cleanup that is dead, at the latest."""
        return max((by for _, by in self._wanted()), default=0)

    def check_alarms(self) -> None:
        """Fail unless alarms told of a roller or a cleanup that is dead."""
        world = self._system.world
        for id_, by in self._wanted():
            rule = {id_: rules_for(self._system.settings, RETENTION_SECONDS)[id_]}
            if not raised(rule, self._system.gauges, world.start, min(by, world.now)):
                world.fail(f"liveness: {id_} does not tell what is dead")

    def _wanted(self) -> list[tuple[str, int]]:
        """The alarms that must be raised, and by when (ms)."""
        rules, found = rules_for(self._system.settings, RETENTION_SECONDS), []
        for part, id_ in TOLD_BY.items():
            if part in self._parts:
                rule = rules[id_]
                periods = rule.times + MORE_PERIODS * rule.silence_is_bad + 1
                found.append((id_, self._shows_from(part, rule) + periods * rule.period * 1000))
        return found

    def _shows_from(self, part: str, rule: AlarmRule) -> int:
        """From when (ms) on a metric shows that a part is dead.

        An invocation that began before may still end, and publish. One that nobody makes, as long
        as the part is held back, does not fail.
        """
        system, since = self._system, int(self._parts[part].since)
        if rule.silence_is_bad:
            return max(since, *(system.gauges.last(each) for each in rule.metrics.values()))
        return max(since, min(system.away_until[part], START_MS + FAULTS_MS))

    def _has_ended(self, window: Window) -> bool:
        """Whether a window that is over has come as far as it can."""
        if self.fails("roller") and not window.status.sealed:
            return True
        if self.fails("letters") and window.status is Status.OPEN:
            return self._is_held_open(window)
        was_held = not self._system.open and window.id in self._held_open
        if window.status is Status.CLOSING and was_held:
            return True  # the roller's last run found that it may close, and no other seals it
        if self.fails("cleanup"):
            return window.status.sealed
        one_table = self.fails("deletion") or self.fails("export")
        if not self._system.oracle.gentle and not one_table:
            return window.status.sealed
        return window.status is Status.DROPPED or self._is_stuck(window)

    def _is_held_open(self, window: Window) -> bool:
        """Whether a message that can never be rejected is of this window."""
        queue, oracle = self._system.queue, self._system.oracle
        sent = [oracle.sent[held.id] for held in queue.held()]
        return any(not one.bad and oracle.identity_of(one)[0] == window.id for one in sent)

    def _is_stuck(self, window: Window) -> bool:
        """Whether a window's table cannot be exported or deleted, and it has come so far."""
        return any(
            self.fails(part) and self._parts[part].table == window.table and window.status is status
            for part, status in (("export", Status.EXPORTING), ("deletion", Status.DROPPING))
        )

    def _may_stay(self, held: Held) -> bool:
        """Whether a message may wait in the queue for ever."""
        system = self._system
        sent = system.oracle.sent[held.id]
        if self.fails("letters") and (sent.bad or self._can_never_count(held)):
            return True
        if isinstance(sent, Asked):
            return self._may_wait(sent)
        if not self.fails("roller") or sent.bad:
            return False
        window = system.catalog.window(system.oracle.identity_of(sent)[0])
        return window is None or window.status in (Status.CREATING, Status.CLOSING)

    def _may_wait(self, asked: Asked) -> bool:
        """Whether a retraction may wait in the queue for ever: for its window, or for the seal."""
        if not self.fails("roller"):
            return False
        catalog, home = self._system.catalog, self._system.oracle.retractions.home_of(asked)
        claim = catalog.claims([it := (home, asked.key, asked.id)]).get(it)
        windows = (catalog.window(each) for each in (home, claim.target if claim else home))
        waiting = (Status.CREATING, Status.CLOSING)
        return any(window is None or window.status in waiting for window in windows)

    def _can_never_count(self, held: Held) -> bool:
        """Whether a message has deserved to be rejected by now, by the oracle's own reckoning."""
        system = self._system
        sent = system.oracle.sent[held.id]
        window = system.catalog.window(system.oracle.identity_of(sent)[0])
        sealed = window is not None and window.status.sealed
        reasons = [each for each in Reason if each is not Reason.WINDOW_SEALED or sealed]
        if held.receives < limits.RECEIVES_GIVEN_UP:
            reasons.remove(Reason.CRASHES_WRITER)
        return any(system.oracle.deserved(sent, reason, system.catalog) for reason in reasons)
