"""What people do to a running pipeline: they deploy, hold services back, open the past, and redrive
dead letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tallyroll.errors import StoreError, UsageError
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.operations.backfill import open_past
from tallyroll.operations.dead_letter_scan import DeadLetterScan
from tallyroll.operations.redrive import Redriver
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.dead_letters import DeadLetters
from tallyroll.reasons import Reason
from tallyroll.settings import EXPORTERS, Settings
from tests.simulation.compared import REDRIVE, steps_of
from tests.simulation.identity_rules import QUEUE_DAYS
from tests.simulation.plans import SERVICES, SETTINGS, SETTLE_MS_MIN, START_MS, WINDOW_MS
from tests.simulation.sent import Asked
from tests.simulation.short_months import length_in
from tests.simulation.wires import LettersWire, Wire, judged
from tests.simulation.world import Group, SimEffects, Streams, Task

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

CACHED_LONG_MS = 600_000  # older than most changes of the windows' length
REDRIVE_MS_MAX = 60_000  # then the operator begins another one beside it
LETTERS_MAX = 1_000
IN_VAIN = 0.1
WORKERS = 3  # of one redrive, side by side


class Operator:
    """Acts as long as producers send."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._world = system.world
        self._chance = Streams(system.world).random
        self._processes: list[Task] = []

    def deploy(self) -> None:
        """Other settings for every sandbox that starts from now on; some old ones live on."""
        system = self._system
        while system.producing:
            self._world.pause(40_000 + self._chance() * 300_000)
            rule = system.plan.identities.later(self._world.current.aside)
            by_whom = system.plan.retractions.later(self._world.current.aside)
            heat = system.plan.heat.later(self._world.current.aside)
            changes = {**self._changes(), **rule, **by_whom, **heat}
            settings = replace(SETTINGS, write_rate=system.plan.write_rate, **changes)
            self._world.note(f"deploys shards={settings.shards} gates={settings.gates}")
            system.deployed(settings)
            system.platform.retire(self._chance() if self._chance() < 0.5 else 1)

    def _changes(self) -> dict[str, Any]:
        chance = self._chance
        return {
            "shards": 1 + int(chance() * 7),
            "hot_shards": {"hot": 1 + int(chance() * 20)} if chance() < 0.7 else {},
            "shards_max": 1 + int(chance() * 20),
            "stripes_min": 8 + int(chance() * 5),
            "buckets": 1 + int(chance() * 4),
            "gates": 1 + int(chance() * 4),
            "suffix": "product" if chance() < 0.3 else "calculated",
            "accept_for_ms": int(chance() * 90_000),
            "skew_ms": int(chance() * 10_000),
            "require_ts": chance() < 0.15,
            "ahead_windows": 1 + int(chance() * 3),
            **self._length(chance()),
            "roller_period_ms": 5_000 + int(chance() * 10_000),
            "retention_ms": int(chance() * 60_000),
            "visibility_ms": 20_000 + int(chance() * 20_000),
            "drain_margin_ms": int(chance() * 15_000),
            "settle_ms": SETTLE_MS_MIN + int(chance() * 4_000),
            "export_lease_ms": 60_000 + int(chance() * 60_000),
            "exporter": EXPORTERS[int(chance() * len(EXPORTERS))],
            "export_segments": 1 + int(chance() * 4),
            "transactions_at_once": 1 + int(chance() * 5),
            "cache_live_ms": int(chance() * 4_000),
            "cache_calendar_ms": _cached_ms(chance()),
        }

    def _length(self, drawn: float) -> Mapping[str, Any]:
        if self._system.plan.months:
            return length_in(drawn)
        return {"window_seconds": (30, 60, 60, 60, 120)[int(drawn * 5)]}

    def hold_back(self) -> None:
        """Hold a service back now and then, so that a backlog grows."""
        while self._system.producing:
            self._world.pause(30_000 + self._chance() * 150_000)
            most = 100_000 if self._chance() < 0.7 else 40_000
            service = SERVICES[int(self._chance() ** 2 * len(SERVICES))]
            self._away(service, int(self._chance() * most))

    def black_out(self, service: str) -> None:
        """Keep a service away for five to seven windows' length."""
        self._world.pause(self._chance() * 60_000)
        self._away(service, int((5 + 2 * self._chance()) * WINDOW_MS))

    def _away(self, service: str, ms: int) -> None:
        self._world.note(f"{service} is away for {ms / 1000:.0f} s")
        self._system.away_until[service] = self._world.now + ms

    def load_history(self) -> None:
        """Open some of the past windows of which events are sent, once or, when their day may be
        rolled up already, twice.
        """
        system, numbers = self._system, self._system.plan.history
        for again in range(1 + int(self._chance() * 2)):
            self._world.pause(self._chance() * 200_000 + again * 150_000)
            oldest = max(numbers) + int(self._chance() * 2)
            windows = 1 + int(self._chance() * (oldest - min(numbers) + 1))
            since = START_MS - oldest * WINDOW_MS
            accept_for_ms = 10_000 + int(self._chance() * 110_000)
            until = since + windows * WINDOW_MS
            while system.producing and not self._opened(since, until, accept_for_ms):
                self._world.pause(1_000)

    def _opened(self, since: int, until: int, accept_for_ms: int) -> bool:
        """One call of `tallyroll windows open`, by a clock that is off; whether it went well.

        The first roller may have founded a calendar of longer windows than the operator had in
        mind. A range that ends inside of one is refused, and the operator asks for whole windows.
        """
        system = self._system
        catalog = cast("Catalog", Wire(self._world, system.catalog))
        clock_ms = round((2 * self._chance() - 1) * system.weather.clock_ms)
        try:
            calendar = catalog.calendar()
        except StoreError:
            return False
        if calendar is None:
            return False
        grid, now = calendar.grid, self._world.now + clock_ms
        since, until = grid.at(since).start, grid.at(until - 1).end
        try:
            past = open_past(catalog, calendar, "simulated", since, until, now, accept_for_ms)
        except StoreError:
            return False
        except UsageError as on_progress:
            if until <= calendar.genesis:
                raise
            self._world.note(f"told to wait for a regular window: {on_progress}")
            return False
        self._world.note(f"opened {[window.id[9:15] for window in past.created]} of the past")
        return True

    def redrive(self) -> None:
        """Redrive the dead letters now and then, by a process that may be killed or sleep."""
        world = self._world
        world.pause(self._chance() * 120_000)
        while self._system.producing:
            process = Group(f"redrive{len(self._processes) + 1}")
            clock_ms = round((2 * self._chance() - 1) * self._system.weather.clock_ms)
            task = world.spawn(process.name, partial(self._redriven, clock_ms), process)
            self._processes.append(task)
            world.join([task], REDRIVE_MS_MAX)
            world.pause(20_000 + self._chance() * 100_000)

    @property
    def is_redriving(self) -> bool:
        """Whether a process may still send."""
        return not all(task.done for task in self._processes)

    def _redriven(self, clock_ms: int) -> None:
        """One call of `tallyroll dlq redrive`, by a clock that is off."""
        system, world = self._system, self._world
        steps = steps_of(system, REDRIVE, clock_ms)
        letters = cast("DeadLetters", LettersWire(world, steps.inside(system.letters)))
        effects = SimEffects(world, clock_ms)
        redriver = Redriver(
            self._as_known(system.settings),
            steps.outside(system.wired_store(steps.inside(system.store))),
            steps.outside(Wire(world, steps.inside(system.catalog))),
            steps.outside(letters),
            effects,
        )
        steps.begin(redriver)
        look = DeadLetterScan(letters, effects, LETTERS_MAX)

        def redrive(batch: list[ReceivedLetter]) -> None:
            going = [each for each in batch if self._may_go(each)]
            system.retractors.beside_redrive([each.first_id for each in going])
            decisions = redriver.redrive(going)
            courses = Counter(str(decision.why or decision.course) for decision in decisions)
            world.note(f"redrives {dict(courses)}")

        with suppress(StoreError), judged(world):
            look.each(redrive, WORKERS)
            look.close()

    def _as_known(self, settings: Settings) -> Settings:
        """The settings with the retention of a queue whose days are as short as those of ids."""
        rule, day_ms = self._system.plan.identities, self._system.day_seconds * 1000
        return (
            replace(settings, queue_retention_ms=QUEUE_DAYS * day_ms) if rule.forgets else settings
        )

    def _may_go(self, letter: ReceivedLetter) -> bool:
        """What is of the past goes to windows that are opened for it, and those must come first. A
        retraction goes again mostly once an operator has authorized it.
        """
        sent = self._system.oracle.sent[letter.first_id]
        if isinstance(sent, Asked) and letter.reason is Reason.RETRACTION_NOT_AUTHORIZED:
            book = self._system.oracle.retractions
            return book.is_authorized(sent) or self._chance() < IN_VAIN
        return not (self._system.plan.history and sent.time < START_MS)


def _cached_ms(chance: float) -> int:
    return int(chance * 50_000) if chance < 0.7 else CACHED_LONG_MS
