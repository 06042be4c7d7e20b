"""What clients of a simulation did and saw, judged as a history, as on a deployment.

The oracle sees every commit. The history holds only what clients know, so it also judges reads that
the oracle has no truth for: the largest keys, and counts told window by window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from tallyroll.model.periods import DAY, MONTH, period_of
from tallyroll.model.windows import window_id, window_start
from tallyroll.operations.probe import history as histories
from tallyroll.operations.probe.history import Fact, History, Share
from tallyroll.operations.probe.judge import judge
from tallyroll.reads.http import answer_counter
from tallyroll.reads.lookups import TOP_MAX
from tallyroll.reads.top import Top
from tests.simulation.holdings import Identity, Name
from tests.simulation.producers import KEYS
from tests.simulation.sandboxes import Context, Invocation
from tests.simulation.sent import Asked
from tests.simulation.truth import Read, added, told_sums

if TYPE_CHECKING:
    from tallyroll.model.records import Record
    from tallyroll.model.retractions import Tombstone
    from tallyroll.model.specs import Spec
    from tests.simulation.pipeline import System
    from tests.simulation.retraction_book import Retracted

LAST = "99999999T999999Z"
EVERY_MS_MAX = 80_000
WINDOWS_BACK = 3


class Historian:
    """Keeps the history of a simulation, and is a client of its own that reads now and then."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.history = History()
        """Of accepted events, whether they are retracted or not."""
        self.retractions = History()
        """Of those that are retracted."""
        self._retracts = system.plan.retractions.retracts
        self._taken_back: list[tuple[int, Name, Retracted]] = []
        self._acknowledged: list[tuple[str, int, list[Identity]]] = []
        self._shown_at: dict[histories.Identity, float] = {}

    def on_acknowledged(self, message_id: str) -> None:
        """Take note that a message was deleted from the queue, and of what counts for it."""
        oracle = self._system.oracle
        sent = oracle.sent[message_id]
        if isinstance(sent, Asked) and message_id not in oracle.dead:
            for name, done in oracle.retractions.effect_of(sent).items():
                self._taken_back.append((self._system.world.now, name, done))
        counting = [] if sent.bad else oracle.book.counts_as(sent)
        self._acknowledged.append((message_id, self._system.world.now, counting))

    def on_commit(self, spec: Spec, records: Sequence[Record], shown_at: float) -> None:
        """Take note of when (ms) all queries see the whole of a transaction.

        Until then it is not answered. But another writer may know of its records, and acknowledge
        their copies.
        """
        start = window_start(spec.window)
        self._shown_at.update({(start, each.key, each.id): shown_at for each in records})

    def on_retract(self, spec: Spec, tombstones: Sequence[Tombstone], shown_at: float) -> None:
        """The same of a transaction of tombstones."""
        start = window_start(spec.window)
        self._shown_at.update({(start, *_record(each.name)): shown_at for each in tombstones})

    def shown_at(self, start: int, key: str, record_id: str) -> float:
        """When (ms) all queries see the whole of a record's transaction; 0 if they did at once."""
        return self._shown_at.get((start, key, record_id), 0)

    def on_read(self, read: Read, body: Mapping[str, Any], asked: str = "") -> None:
        """Take note of an answer of the aggregator's."""
        for history, of in self._histories():
            history.reads.append(_probed(read, body, asked, of))

    def _histories(self) -> list[tuple[History, int]]:
        """The histories, and where an answer has their sums."""
        both = [(self.history, 0), (self.retractions, 2)]
        return both if self._retracts else both[:1]

    def live(self) -> None:
        """Read as long as producers send: a key window by window, the largest keys of a window."""
        world = self._system.world
        while self._system.producing:
            world.pause(world.random.random() * EVERY_MS_MAX)
            self._read_by_window(KEYS[int(world.random.random() * len(KEYS))])
            back = int(world.random.random() * WINDOWS_BACK)
            calendar = self._system.catalog.calendar()
            if calendar:
                span = calendar.grid.at(world.now)
                for _ in range(back):
                    span = calendar.grid.at(span.start - 1)
                for _ in range(2):
                    self._read_largest(span.id)

    def judge(self) -> None:
        """Fail if a rule does not hold."""
        system, history = self._system, self.history
        identities = {
            message_id: [
                (window_start(window), key, record_id)
                for window, key, record_id in system.oracle.identities_of(sent)
            ]
            for message_id, sent in system.oracle.sent.items()
            if not sent.bad
        }
        for message_id, found in identities.items():
            sent = system.oracle.sent[message_id]
            history.sent += [Fact(each, sent.n, sent.amount, sent.sent) for each in found]
        for message_id, at, counting in self._acknowledged:
            if message_id in identities and message_id not in system.oracle.dead:
                sent = system.oracle.sent[message_id]
                for window, key, record_id in counting:
                    identity = (window_start(window), key, record_id)
                    seen_at = max(at, ceil(self._shown_at.get(identity, 0)))
                    history.counted.append(Fact(identity, sent.n, sent.amount, seen_at))
        for (window, *rest), done in system.oracle.retractions.retracted.items():
            identity = (window_start(window), *_record(rest))
            fact = Fact(identity, done.n, done.amount, done.first_asked)
            self.retractions.sent.append(fact)
        for at, (window, *rest), done in self._taken_back:
            identity = (window_start(window), *_record(rest))
            seen_at = max(at, ceil(self._shown_at.get(identity, 0)))
            self.retractions.counted.append(Fact(identity, done.n, done.amount, seen_at))
        for judged, _ in self._histories():
            for finding in judge(judged).findings:
                which = "retracted, " if judged is self.retractions else ""
                system.world.fail(f"history: {which}{finding.rule}: {finding.text}")

    def _read_by_window(self, key: str) -> None:
        began = self._system.world.now
        asked = {"key": key, "consistent": "true", "windows": "true"}
        invocation = self._system.platform.invoke(
            "aggregator",
            lambda context: answer_counter(
                self._system.platform.use_case(), asked, context.get_remaining_time_in_millis()
            ),
        )
        if invocation.answer is None:
            return
        box, now = invocation.sandbox, self._system.world.now
        cache_ms = box.settings.cache_live_ms
        since = window_id(0)
        read = Read(key, since, LAST, True, began, now, box.clock_ms, cache_ms, box.number)
        self.on_read(read, invocation.answer.body, "by window")

    def _read_largest(self, window: str) -> None:
        began = self._system.world.now

        def largest(context: Context) -> Top | str:
            lookups = self._system.platform.use_case()
            try:
                found: Top = lookups.top(window, TOP_MAX, context.get_remaining_time_in_millis())
            except self._system.unlisted as error:
                return type(error).__name__
            return found

        invocation = self._system.platform.invoke("aggregator", largest)
        if isinstance(invocation.answer, Top):
            told = invocation.answer
            self._system.world.note(f"largest of {window[9:15]}: {told.events}, {told.complete}")
            for key in dict.fromkeys(KEYS):
                for history, of in self._histories():
                    history.reads.append(self._seen(key, told, invocation, began, of))

    def _seen(
        self, key: str, top: Top, invocation: Invocation, began: int, of: int
    ) -> histories.ProbeRead:
        """A key's place among the largest, which are all: what is not there is said to be empty."""
        n, amount = 0, 0
        for tally in top.largest:
            if tally.key == key:
                sums = added((tally.n, tally.amount, 0, 0), (*tally.retracted, *tally.retracted))
                n, amount = sums[of : of + 2]
        start = window_start(top.window)
        return histories.ProbeRead(
            f"sandbox {invocation.sandbox.number}",
            key,
            began,
            self._system.world.now,
            n,
            amount,
            since=start,
            until=start + 1,
            shares=(Share.of_window(start, n, amount),) if top.complete else (),
            complete=top.complete,
            parted=top.complete,
            as_of=top.as_of - invocation.sandbox.clock_ms,
            asked="largest",
        )


def _probed(read: Read, body: Mapping[str, Any], asked: str, of: int) -> histories.ProbeRead:
    """What the history has of an answer of the aggregator's: `of` which of its sums."""
    shares = [
        Share.of_window(window_start(part["window"]), *_pair(part, of)) for part in body["windows"]
    ]
    for part in body.get("rolled_up", ()):
        name = part["period"].replace("-", "")
        period = period_of((DAY if len(name) == len("20261120") else MONTH) + name)
        shares.append(Share(period.start, period.end, *_pair(part, of)))
    return histories.ProbeRead(
        f"sandbox {read.sandbox}",
        read.key,
        read.began,
        read.ended,
        *_pair(body, of),
        since=window_start(read.since),
        until=inf if read.until == LAST else window_start(read.until),
        cache_ms=0 if read.consistent else read.cache_ms,
        shares=tuple(shares),
        missing=tuple(map(window_start, body.get("missing", ()))),
        complete=body["complete"],
        as_of=round(datetime.fromisoformat(body["as_of"]).timestamp() * 1000) - read.clock_ms,
        asked=asked,
    )


def _pair(part: Mapping[str, Any], of: int) -> tuple[int, int]:
    sums = told_sums(part)
    return sums[of], sums[of + 1]


def _record(rest: Sequence[Any]) -> tuple[str, str]:
    """The key of a retracted event, and a name of its own."""
    key, record_id, index = rest
    return key, record_id if index is None else f"{record_id}#{index}"
