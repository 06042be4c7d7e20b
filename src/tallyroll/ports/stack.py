"""What a deployment made around a pipeline's tables and queues, as an operator sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallyroll.ports.table_listing import TableLoad

ANY = "*"
"""In the place of an ARN: the action knows no resources."""


@dataclass(frozen=True, slots=True)
class FunctionCard:
    """A function: the store's word for its state (`Active`), the reason for it, the ARN of its
    role, and its reserved concurrency, or None if it has none of its own.
    """

    name: str
    state: str
    reason: str
    role: str
    reserved: int | None = None


@dataclass(frozen=True, slots=True)
class EventSource:
    """What takes messages from a queue to the writer: its id, the queue's ARN, the store's word for
    its state (`Enabled`) and the reason.

    `reports_failures` says that a batch may fail in part; a `filtered` source deletes messages that
    do not match its filter.
    """

    id: str
    queue: str
    state: str
    reason: str
    reports_failures: bool
    filtered: bool


@dataclass(frozen=True, slots=True)
class ScheduleCard:
    """A schedule: whether it is enabled, its expression, and the ARNs of its target and role."""

    name: str
    enabled: bool
    expression: str
    target: str
    role: str


@dataclass(frozen=True, slots=True)
class QueueRules:
    """A queue's ARN, its access policy as JSON or "", how long it hides and keeps messages, and
    after how many receives messages go to its dead-letter queue, or None if it has none.
    """

    arn: str
    policy: str
    visibility_seconds: int
    retention_seconds: int
    max_receives: int | None


@dataclass(frozen=True, slots=True)
class AlarmCard:
    """An alarm: whether its actions are enabled, the ARNs of the topics that it notifies when it
    begins, the store's word for its state (`OK`, `ALARM`, `INSUFFICIENT_DATA`), and what it says:
    its sentence and its entry in the runbook.
    """

    name: str
    enabled: bool
    topics: Sequence[str]
    state: str = ""
    says: str = ""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who is told what a topic is told, by which protocol; an unconfirmed one is told nothing."""

    protocol: str
    endpoint: str
    confirmed: bool


@dataclass(frozen=True, slots=True)
class HotPart:
    """A partition key of a window's table that was throttled: its name there, the key of events and
    the shard in it ("" and 0 in one of tallies or gates), and how often, approximately.
    """

    name: str
    key: str
    shard: int
    throttles: int


@dataclass(frozen=True, slots=True)
class TableHeat:
    """What the store noted of throttled keys of a table: its word for whether it notes any
    (`ENABLED`; "" if it has no such notes), why that failed, and some ten keys, most throttles
    first. Notes come minutes late.
    """

    state: str
    reason: str = ""
    parts: Sequence[HotPart] = ()


class Stack(Protocol):
    """A pipeline's deployment. All reads raise StoreError."""

    def function(self, package: str) -> FunctionCard | None:
        """The function of that package, such as `writer`; None if there is none."""

    def sources(self) -> Sequence[EventSource]:
        """All event sources of the writer."""

    def schedule(self, package: str) -> ScheduleCard | None:
        """The schedule of that function; None if there is none."""

    def alarms(self, names: Sequence[str]) -> Sequence[AlarmCard]:
        """Those of the alarms that exist, composite ones too."""

    def all_alarms(self) -> Sequence[AlarmCard]:
        """All alarms of the pipeline, composite ones too."""

    def subscriptions(self, topic: str) -> Sequence[Subscription]:
        """The subscriptions of the topic of this ARN. Raises Missing."""

    def queue_rules(self, url: str) -> QueueRules:
        """A queue's rules. Raises Missing."""

    def table_policy(self, arn: str) -> str:
        """A table's resource policy as JSON; "" if it has none, or the store knows none."""

    def bucket_policy(self, bucket: str) -> str:
        """A bucket's policy as JSON; "" if it has none. Raises Missing without a bucket."""

    def throttled(self, table: str, since: int) -> Sequence[tuple[int, int]]:
        """How many reads and writes of a table were throttled, as (start ms, number) by minute."""

    def table_load(self, table: str, since: int) -> TableLoad:
        """What was asked of a table since then (ms)."""

    def table_heat(self, table: str, since: int) -> TableHeat:
        """Which keys of a window's table were throttled since then (ms)."""

    def in_flight(self, since: int) -> int:
        """The most messages in flight of the event queue since then, by its metric; 0: none."""


class Rights(Protocol):
    """What an identity's policies allow, by simulation. Raises StoreError."""

    def denied(self, identity: str, wanted: Mapping[str, Sequence[str]]) -> Sequence[str]:
        """The calls of those `wanted` (actions by the resource's ARN, or `ANY`) that the identity
        of this ARN may not make, as `action on resource`. A decision that needs facts which a
        simulation lacks, such as tags, is taken as allowed. Raises Missing if the store simulates
        nothing.
        """
