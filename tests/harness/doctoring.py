"""A pipeline on memory ports, with windows in every state of their lives, before the doctor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tallyroll.adapters.memory import MemoryListing, MemoryQueue
from tallyroll.errors import StoreError
from tallyroll.model.states import Status
from tallyroll.operations.doctor.checkup import Check, Checkup, Level, Sign
from tallyroll.operations.doctor.examine import examine
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Backlog
from tallyroll.ports.stack import (
    AlarmCard,
    EventSource,
    FunctionCard,
    QueueRules,
    ScheduleCard,
    Subscription,
    TableHeat,
)
from tallyroll.ports.table_listing import TableLoad
from tallyroll.resources import declare
from tests.harness.pipeline import HOUR, MINUTE, NOW, SMALL, TIME_LEFT, Pipeline, StillEffects

CLEAN = replace(SMALL, retention_ms=2 * HOUR)


class LetterQueue:
    """A memory queue's dead letters as a queue with a backlog; their ages are known at once."""

    def __init__(self, queue: MemoryQueue, effects: Effects) -> None:
        self._queue = queue
        self._effects = effects

    def backlog(self, since: int) -> Backlog:
        letters = self._queue.dead_letters
        now = self._effects.now()
        ages = ((now, now - min(letter.at for letter in letters)),) if letters else ()
        return Backlog(len(letters), 0, 0, ages)


@dataclass
class MemoryDeployment:
    """Functions that have this environment; None: there are none."""

    there: Mapping[str, str] | None = None
    asked: list[str] = field(default_factory=list)

    def environment(self, pipeline: str) -> Mapping[str, str] | None:
        self.asked.append(pipeline)
        return self.there


@dataclass
class FakeStack:
    """A deployment with what a test has put there: functions and schedules by package, sources,
    rules of queues by their URL's end, policies by table's ARN or bucket, alarms, subscriptions by
    topic. What is an error is raised.
    """

    functions: Mapping[str, FunctionCard] = field(default_factory=dict)
    schedules: Mapping[str, ScheduleCard] = field(default_factory=dict)
    feeding: Sequence[EventSource] = ()
    rules: Mapping[str, QueueRules] = field(default_factory=dict)
    policies: Mapping[str, str | StoreError] = field(default_factory=dict)
    throttles: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    loads: Mapping[str, TableLoad] = field(default_factory=dict)
    heats: Mapping[str, TableHeat] = field(default_factory=dict)
    hidden: int = 0
    alarming: Sequence[AlarmCard] = ()
    hearing: Mapping[str, Sequence[Subscription] | StoreError] = field(default_factory=dict)

    def alarms(self, names: Sequence[str]) -> Sequence[AlarmCard]:
        return [alarm for alarm in self.alarming if alarm.name in names]

    def all_alarms(self) -> Sequence[AlarmCard]:
        return self.alarming

    def subscriptions(self, topic: str) -> Sequence[Subscription]:
        found = self.hearing.get(topic, ())
        if isinstance(found, StoreError):
            raise found
        return found

    def function(self, package: str) -> FunctionCard | None:
        return self.functions.get(package)

    def sources(self) -> Sequence[EventSource]:
        return self.feeding

    def schedule(self, package: str) -> ScheduleCard | None:
        return self.schedules.get(package)

    def queue_rules(self, url: str) -> QueueRules:
        name = url.rpartition("/")[2]
        plain = QueueRules(f"arn:aws:sqs:us-east-1:1:{name}", "", 900, 864_000, 1_000)
        return self.rules.get(name, plain)

    def table_policy(self, arn: str) -> str:
        return self._policy(arn)

    def bucket_policy(self, bucket: str) -> str:
        return self._policy(bucket)

    def _policy(self, of: str) -> str:
        found = self.policies.get(of, "")
        if isinstance(found, StoreError):
            raise found
        return found

    def throttled(self, table: str, since: int) -> Sequence[tuple[int, int]]:
        return self.throttles.get(table, ())

    def table_load(self, table: str, since: int) -> TableLoad:
        return self.loads.get(table, TableLoad())

    def table_heat(self, table: str, since: int) -> TableHeat:
        return self.heats.get(table, TableHeat("ENABLED"))

    def in_flight(self, since: int) -> int:
        return self.hidden


def listing_of(pipeline: Pipeline) -> MemoryListing:
    """The pipeline's tables, the permanent ones beside those of its store."""
    declared = declare(pipeline.settings)
    store = getattr(pipeline, "dynamodb", pipeline.store)
    return MemoryListing(store, declared.permanent)


def grown(hours: int = 8, pipeline: Pipeline | None = None) -> Pipeline:
    """A pipeline that has counted three events an hour for so many hours until half past eight, its
    functions working every ten minutes.

    Its first windows are dropped, then there are sealed ones, and some are open.
    """
    made = pipeline or Pipeline(CLEAN, StillEffects(NOW - hours * HOUR))
    roller = made.roller()
    for _ in range(hours * 6):
        roller.run(TIME_LEFT)
        if made.effects.now() % HOUR == 30 * MINUTE:
            for number in range(3):
                made.write({"key": f"k{number}", "id": f"e{made.effects.now()}", "value": 1.5})
        made.cleanup().run(TIME_LEFT)
        made.dropper().run(TIME_LEFT)
        made.effects.pass_by(10 * MINUTE)
    roller.run(TIME_LEFT)
    return made


def states(pipeline: Pipeline) -> dict[str, Status]:
    """The states of all windows."""
    return {window.id: window.status for window in pipeline.catalog.windows(0, NOW + 9 * HOUR)}


def first(pipeline: Pipeline, status: Status) -> str:
    """The first window in that state."""
    return next(window for window, stands in states(pipeline).items() if stands is status)


def case_of(pipeline: Pipeline, **changes: Any) -> Checkup:
    """The pipeline as the doctor sees it."""
    facts: dict[str, Any] = {
        "settings": pipeline.settings,
        "catalog": pipeline.catalog,
        "store": pipeline.store,
        "totals": pipeline.totals,
        "tables": listing_of(pipeline),
        "queue": pipeline.queue,
        "dead_letters": LetterQueue(pipeline.queue, pipeline.effects),
        "bucket": pipeline.bucket,
        "effects": pipeline.effects,
    }
    return Checkup(**{**facts, **changes})


def examined(pipeline: Pipeline, **changes: Any) -> dict[str, Check]:
    """The checks by name."""
    return {check.name: check for check in examine(case_of(pipeline, **changes))}


def bad(pipeline: Pipeline, **changes: Any) -> dict[str, list[str]]:
    """What is not fine, by check: the texts."""
    return {
        name: [sign.text for sign in check.bad]
        for name, check in examined(pipeline, **changes).items()
        if check.level is not Level.OK
    }


def only(pipeline: Pipeline, check: str, level: Level = Level.FINDING, **changes: Any) -> Sign:
    """The one sign of what is not fine, which this check has."""
    checks = examined(pipeline, **changes)
    signs = [(name, sign) for name, each in checks.items() for sign in each.bad]
    assert len(signs) == 1, signs
    name, sign = signs[0]
    assert (name, sign.level) == (check, level), sign
    assert sign.remedy
    return sign
