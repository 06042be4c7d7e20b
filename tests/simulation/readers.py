"""Readers, who ask the real aggregator while events come in, and hold its answers to the truth."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from tallyroll.errors import Absent, Archived, StoreError
from tallyroll.reads.http import HttpAnswer, answer_counter, answer_error
from tallyroll.telemetry import add_answer, add_read
from tests.simulation.gauges import Publisher
from tests.simulation.holdings import Identity
from tests.simulation.plans import PAST_WINDOWS, WINDOW_MS
from tests.simulation.producers import KEYS
from tests.simulation.sandboxes import Context
from tests.simulation.truth import Read, window_name
from tests.simulation.world import Streams

if TYPE_CHECKING:
    from aws_lambda_powertools import Metrics

    from tests.simulation.pipeline import System

EVERY_MS_MAX = 90_000
AGAIN_MS_MAX = 2_000  # soon enough to be answered from the cache
BOUND_MS = 2 * WINDOW_MS  # a bound of windows of every length that is deployed
LAST = "99999999T999999Z"
FAILED = HTTPStatus.INTERNAL_SERVER_ERROR
FAILED_LOOK_UP = "Failed"


class Reader:
    """Reads a count now and then, once or a few times in a row."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._chance = Streams(system.world).random
        self._publisher = Publisher(system, "aggregator")

    def live(self) -> None:
        """Read as long as producers send."""
        world = self._system.world
        while self._system.producing:
            world.pause(self._chance() * EVERY_MS_MAX)
            key = KEYS[int(self._chance() * len(KEYS))]
            since, until = some_range(self._system, self._chance)
            for _ in range(1 + int(self._chance() * 3)):
                self.read(key, since, until, consistent=self._chance() < 0.5)
                world.pause(self._chance() ** 2 * AGAIN_MS_MAX)
            if identity := self._system.oracle.some_identity(self._chance()):
                self.look_up(identity)

    def read(
        self, key: str, since: int | None, until: int | None, *, consistent: bool
    ) -> dict[str, Any] | None:
        """Read once, check the answer and give it; None if there was none."""
        system = self._system
        asked = {"key": key, "consistent": str(consistent).lower()}
        asked |= {
            name: str(at) for name, at in (("since", since), ("until", until)) if at is not None
        }
        began = system.world.now
        invocation = system.platform.invoke(
            "aggregator",
            # Not by the handler: powertools keeps one request for the whole process.
            lambda context: self._answered(asked, context),
        )
        if invocation.answer is None or invocation.answer.status >= FAILED:
            return None
        box, body = invocation.sandbox, invocation.answer.body
        read = Read(
            key=key,
            since=window_name(since or 0),
            until=LAST if until is None else window_name(until),
            consistent=consistent,
            began=began,
            ended=system.world.now,
            clock_ms=box.clock_ms,
            cache_ms=box.settings.cache_live_ms,
            sandbox=box.number,
        )
        told = f"{body['events']}{'' if body['complete'] else ' and more'}"
        system.world.note(f"read {key} {read.since}..{read.until}: {told}")
        system.oracle.on_read(read, body)
        system.historian.on_read(read, body)
        found: dict[str, Any] = body
        return found

    def _answered(self, asked: dict[str, str], context: Context) -> HttpAnswer:
        """What the aggregator's handler does with a request, its metrics too."""
        use_case = self._system.platform.use_case()
        try:
            answer = answer_counter(use_case, asked, context.get_remaining_time_in_millis())
        except StoreError as error:
            answer = answer_error(error)
        metrics = cast("Metrics", self._publisher)
        add_answer(metrics, complete=answer.is_complete)
        add_read(metrics, 0, failed=answer.status >= FAILED)
        return answer

    def look_up(self, identity: Identity) -> None:
        """Look one record up by its identity, and check what is said of it."""
        system = self._system
        window, key, record_id = identity
        before = identity in system.oracle.stored

        def looked_up(_context: Context) -> str:
            try:
                system.platform.use_case().event(key, record_id, window, None)
            except (Absent, Archived) as error:
                return type(error).__name__
            except StoreError:
                return FAILED_LOOK_UP
            return "Found"

        answer = system.platform.invoke("aggregator", looked_up).answer
        if answer not in (None, FAILED_LOOK_UP):
            system.world.note(f"look up {record_id} of {key} in {window[9:15]}: {answer}")
            system.oracle.on_looked_up(identity, answer, system.catalog, before=before)


def some_range(system: System, chance: Callable[[], float]) -> tuple[int | None, int | None]:
    """All time, or some windows of it; ms. Where months end is known by the calendar."""
    world = system.world
    current = world.now // BOUND_MS * BOUND_MS
    back = (current - world.start + PAST_WINDOWS * WINDOW_MS) // BOUND_MS
    since = current - int(chance() * back) * BOUND_MS
    until = since + (1 + int(chance() * 4)) * BOUND_MS
    if system.plan.months:
        spans = system.oracle.spans
        since, least = spans.at(since)
        until = max(least, spans.at(until)[0])
    some = (since if chance() < 0.4 else None, until if chance() < 0.3 else None)
    known = not system.plan.months or system.catalog.calendar()
    return some if known else (None, None)
