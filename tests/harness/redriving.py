"""A pipeline with dead letters, and an operator who may be killed at any call of a port."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from tallyroll.adapters.memory import MemoryDeadLetters
from tallyroll.model.messages import Rejection
from tallyroll.model.states import Status
from tallyroll.model.windows import WindowId, window_start
from tallyroll.operations.dead_letter_scan import HIDDEN_SECONDS, DeadLetterScan
from tallyroll.operations.letter_events import Decision
from tallyroll.operations.redrive import Redriver
from tallyroll.reasons import Reason
from tests.harness.pipeline import MINUTE, SECOND, TIME_LEFT, WINDOW, Pipeline, hour, opened

LETTERS_MAX = 1_000
LATE = window_start(hour(6)) + 5 * MINUTE  # its window took events until eight


class Killed(BaseException):
    """The operator's process ends here."""


ONE_BY_ONE = ("resend", "delete")


class Wire:
    """A port whose calls may be the operator's last: before they are carried out, or after; those
    that do several things also in the middle.
    """

    def __init__(self, port: Any, pulse: Callable[[], None]) -> None:
        self._port = port
        self._pulse = pulse

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._port, verb)

        def call(*arguments: Any, **named: Any) -> Any:
            self._pulse()
            result = found(*arguments, **named)
            self._pulse()
            return result

        def one_by_one(several: Any) -> list[Any]:
            return [answer for one in several for answer in call([one])]

        return one_by_one if verb in ONE_BY_ONE else call


class Operator:
    """Redrives a pipeline's dead letters; `pulses` counts the moments at which it could die."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.letters = MemoryDeadLetters(pipeline.queue, pipeline.effects)
        self.pulses = 0
        self._dies_at: int | None = None

    def _pulse(self) -> None:
        if self.pulses == self._dies_at:
            raise Killed
        self.pulses += 1

    def redriver(self, *, to: WindowId | None = None, unverified: bool = False) -> Redriver:
        pipeline = self.pipeline
        store, catalog, letters = (
            cast("Any", Wire(port, self._pulse))
            for port in (pipeline.store, pipeline.catalog, self.letters)
        )
        return Redriver(
            pipeline.settings,
            store,
            catalog,
            letters,
            pipeline.effects,
            to=to,
            unverified=unverified,
        )

    def redrive(self, *, to: WindowId | None = None, unverified: bool = False) -> list[Decision]:
        """Redrive all dead letters once; the decision on each."""
        return self._pass(self.redriver(to=to, unverified=unverified).redrive)

    def decide(self, *, to: WindowId | None = None, unverified: bool = False) -> list[Decision]:
        """The decision on each, without a redrive."""
        return self._pass(self.redriver(to=to, unverified=unverified).decide)

    def one(self, *, to: WindowId | None = None, unverified: bool = False) -> Decision:
        """The state of the only dead letter after the redrive."""
        (decision,) = self.redrive(to=to, unverified=unverified)
        return decision

    def _pass(self, treat: Callable[[Any], list[Decision]]) -> list[Decision]:
        scan = DeadLetterScan(self.letters, self.pipeline.effects, LETTERS_MAX)
        decisions: list[Decision] = []
        scan.each(lambda batch: decisions.extend(treat(batch)))
        scan.close()
        return decisions

    def killed_at(self, pulse: int) -> bool:
        """Redrive, but die at that pulse, if it comes to that; the letters reappear in time."""
        self.pulses, self._dies_at = 0, pulse
        try:
            self.redrive()
        except Killed:
            self.pipeline.effects.pass_by(HIDDEN_SECONDS * SECOND)
            return True
        finally:
            self._dies_at = None
        return False


def with_late(*, sealed: bool = False, **fields: Any) -> tuple[Pipeline, Operator]:
    """A pipeline with one dead letter: an event of window 06, sent too late; the window `sealed`,
    so that it may count in another.
    """
    pipeline = opened()
    send(pipeline, **{"id": "e1", "ts": LATE} | fields)
    drain(pipeline)
    assert pipeline.reasons() == ["too-late"]
    if sealed:
        seal(pipeline, hour(6))
    return pipeline, Operator(pipeline)


def reject(pipeline: Pipeline, body: str, reason: Reason) -> str:
    """Put a message into the dead-letter queue; its id."""
    message = pipeline.message(body)
    pipeline.queue.reject([Rejection(message, reason, "detail", WINDOW)])
    return message.id


def send(pipeline: Pipeline, **fields: Any) -> str:
    """Send an event of key `k`; the message's id."""
    return pipeline.queue.send(json.dumps({"key": "k"} | fields))


def drain(pipeline: Pipeline) -> None:
    """Let a writer take what is visible, until all of it is decided or handed back."""
    while messages := pipeline.queue.receive():
        report = pipeline.writer().write(messages, TIME_LEFT)
        for message in messages:
            if message.id not in report.failures:
                pipeline.queue.delete(message.receipt)


def seal(pipeline: Pipeline, window: WindowId) -> None:
    """Seal a window at once, whatever is on its way to it."""
    pipeline.store.shut_gates(pipeline.spec(window))
    pipeline.move(Status.CLOSING, window)
    pipeline.move(Status.SEALED, window)


def records(pipeline: Pipeline) -> list[tuple[WindowId, str]]:
    """The windows and ids of all records."""
    return [
        (spec.window, item["sk"]["S"].removeprefix("e#"))
        for spec in _specs(pipeline)
        for item in pipeline.store.items(spec.table).values()
        if item["sk"]["S"].startswith("e#")
    ]


def counted(pipeline: Pipeline) -> int:
    """The events of key `k` that are counted, over all windows."""
    return sum(pipeline.store.tallies(spec, ["k"])["k"].n for spec in _specs(pipeline))


def _specs(pipeline: Pipeline) -> list[Any]:
    states = pipeline.catalog.windows(0, pipeline.effects.now() * 2)
    found = [pipeline.catalog.specs([state.id]).get(state.id) for state in states]
    return [spec for spec in found if spec and pipeline.store.describe_table(spec.table)]
