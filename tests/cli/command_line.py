"""The command line: a pipeline on memory ports behind it, its streams held."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallyroll import pipeline as wiring
from tallyroll.adapters.memory import MemoryDeadLetters
from tallyroll.cli import main
from tallyroll.errors import Missing, StoreError
from tallyroll.pipeline import inspection
from tallyroll.ports.gauges import Gauge, Points, Quota, Trigger
from tallyroll.ports.queue import SendFailure
from tallyroll.settings import Settings
from tests.harness.doctoring import LetterQueue, MemoryDeployment, listing_of
from tests.harness.pipeline import Pipeline

if TYPE_CHECKING:
    import pytest

QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/1/tallyroll-events"
DEAD_LETTERS_URL = "https://sqs.us-east-1.amazonaws.com/1/tallyroll-dead-letters"


@dataclass
class Answer:
    """What a run of the command gave."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> list[dict[str, Any]]:
        """The JSON Lines on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]

    def row(self, *cells: str) -> bool:
        """Whether a row of a table on stdout has these cells, alone."""
        return list(cells) in [line.split() for line in self.out.splitlines()]


@dataclass
class FakeProducer:
    """Puts bodies into a memory queue; `refuses` says why one is not taken, or nothing."""

    pipeline: Pipeline
    refuses: Callable[[str], str | None] = lambda body: None
    bodies: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)

    def send(self, bodies: Iterable[str]) -> list[SendFailure]:
        failures = []
        for index, body in enumerate(bodies):
            self.tried.append(body)
            if detail := self.refuses(body):
                failures.append(SendFailure(index, body, detail))
            else:
                self.bodies.append(body)
                self.pipeline.queue.send(body)
        return failures


@dataclass
class FakeGauges:
    """Gauges that show what a test has put there; the metrics by the minute. A reading that is an
    error is raised.
    """

    values: dict[Gauge, Sequence[float] | StoreError] = field(default_factory=dict)
    quotas: dict[Quota, float | StoreError] = field(default_factory=dict)
    triggers: Trigger | StoreError | None = None
    since: set[int] = field(default_factory=set)

    def points(self, gauge: Gauge, since: int) -> Points:
        self.since.add(since)
        values = self.values.get(gauge, ())
        if isinstance(values, StoreError):
            raise values
        return Points(60_000, tuple(enumerate(values)))

    def quota(self, quota: Quota) -> float:
        value = self.quotas.get(quota, Missing("GetServiceQuota: there is none", "None"))
        if isinstance(value, StoreError):
            raise value
        return value

    def trigger(self) -> Trigger | None:
        if isinstance(self.triggers, StoreError):
            raise self.triggers
        return self.triggers


_Pipeline = wiring.Pipeline


class CommandLine:
    """Runs the command in this process against `pipeline`."""

    def __init__(
        self, pipeline: Pipeline, patch: pytest.MonkeyPatch, streams: pytest.CaptureFixture[str]
    ) -> None:
        self.pipeline = pipeline
        self.producer = FakeProducer(pipeline)
        self.dead_letters = MemoryDeadLetters(pipeline.queue, pipeline.effects)
        self.restore: object = None
        self.tables = listing_of(pipeline)
        self.deployment = MemoryDeployment()
        self.dead_letters_queue = LetterQueue(pipeline.queue, pipeline.effects)
        self.gauges = FakeGauges()
        self.stack: object = None
        self.settings: Settings | None = None
        self._patch = patch
        self._streams = streams
        patch.setenv("TALLYROLL_QUEUE_URL", QUEUE_URL)
        patch.setenv("TALLYROLL_DEAD_LETTERS_URL", DEAD_LETTERS_URL)
        for module in (wiring, inspection):  # each makes pipelines by its own name of the class
            patch.setattr(module, "Pipeline", self._built)

    def run(self, *argv: str, stdin: bytes = b"") -> Answer:
        return run(self._patch, self._streams, *argv, stdin=stdin)

    def drain(self) -> None:
        """Let a writer count all that was sent."""
        while messages := self.pipeline.queue.receive():
            report = self.pipeline.writer().write(messages, 60_000)
            assert not report.failures
            for message in messages:
                self.pipeline.queue.delete(message.receipt)

    def cut_off(self) -> None:
        """Let no read of the catalog be answered."""

        def refuse(*arguments: object) -> None:
            raise StoreError("GetItem: AccessDeniedException", "AccessDeniedException")

        for name in ("calendar", "windows", "live"):
            self._patch.setattr(self.pipeline.catalog, name, refuse)

    def _built(self, settings: Settings, *_: object, **__: object) -> wiring.Pipeline:
        """The real composition, with its doubles in the place of its adapters."""
        self.settings = settings
        ports = {
            "store": self.pipeline.store,
            "catalog": self.pipeline.catalog,
            "totals": self.pipeline.totals,
            "sender": self.producer,
            "bucket": self.pipeline.bucket,
            "dead_letters": self.dead_letters,
            "restore": self.restore,
            "queue": self.pipeline.queue,
            "exports": self.pipeline.exports,
            "tables": self.tables,
            "deployment": self.deployment,
            "dead_letters_queue": self.dead_letters_queue,
            "queue_metrics": NoMetrics,
            "gauges": self.gauges,
            "stack": self.stack,
            "rights": None,
        }
        return _Pipeline(settings, self.pipeline.effects, ports=ports)


class NoMetrics:
    """No writer has handed anything back."""

    @staticmethod
    def handed_back(since: int) -> tuple[tuple[int, int], ...]:
        return ()

    @staticmethod
    def counted(since: int) -> tuple[tuple[int, int], ...]:
        return ()


def run(
    patch: pytest.MonkeyPatch, streams: pytest.CaptureFixture[str], *argv: str, stdin: bytes = b""
) -> Answer:
    """Run the command with these bytes on stdin."""
    streams.readouterr()
    with patch.context() as held:
        held.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = main.main(argv)
    out, err = streams.readouterr()
    return Answer(status, out, err)


def lines(*events: dict[str, Any] | str) -> bytes:
    """JSON Lines; a text stands as it is."""
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return "".join(f"{text}\n" for text in texts).encode()
