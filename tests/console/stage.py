"""A console over a pipeline on memory ports, which a test moves on, cuts off and brings back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from tallyroll import pipeline as wiring
from tallyroll.adapters.memory import MemoryDeadLetters
from tallyroll.console.answers import Answers
from tallyroll.console.server import ConsoleServer
from tallyroll.errors import StoreError
from tests.cli.command_line import FakeGauges, NoMetrics
from tests.harness.doctoring import FakeStack, LetterQueue, case_of, listing_of
from tests.harness.pipeline import TIME_LEFT, Pipeline

KEPT_MS = 2_000  # counts are kept for less
NO_ANSWER = "no answer"
LENGTH_MAX = 1_000  # bodies in a batch


class Stage:
    """A running console at `url`, on loopback.

    Attributes:
        pipeline: What it shows. Change it inside `held` alone: the console's threads read it.
        changed: What each answer is made into, by the path's last part, before it is sent.
        asked: How often each answer was asked for, by the path's last part.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._gone = ""
        self.changed: dict[str, Callable[[Any], Any]] = {}
        self.asked: dict[str, int] = {}
        self.stack, self.gauges = FakeStack(), FakeGauges()
        self._lock = threading.RLock()
        made = wiring.Pipeline(pipeline.settings, pipeline.effects, ports=self._ports())
        routes = Answers(made, self._checkup, lambda: 12.5, lambda: self.now).routes
        watched = {path: partial(self._answer, path, answer) for path, answer in routes.items()}
        self._server = ConsoleServer("127.0.0.1", 0, watched)
        self.url = self._server.url
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def now(self) -> int:
        """The pipeline's time in ms."""
        return self.pipeline.effects.now()

    def _ports(self) -> Mapping[str, object]:
        pipeline = self.pipeline
        return {
            "store": pipeline.store,
            "catalog": pipeline.catalog,
            "totals": pipeline.totals,
            "bucket": pipeline.bucket,
            "dead_letters": MemoryDeadLetters(pipeline.queue, pipeline.effects),
            "queue": pipeline.queue,
            "tables": listing_of(pipeline),
            "dead_letters_queue": LetterQueue(pipeline.queue, pipeline.effects),
            "queue_metrics": NoMetrics,
            "gauges": self.gauges,
            "stack": self.stack,
        }

    def _checkup(self) -> Any:
        return case_of(self.pipeline, stack=self.stack)

    def _answer(self, path: str, answer: Callable[[str], Any], query: str) -> Any:
        name = path.rpartition("/")[2]
        with self._lock:
            self.asked[name] = self.asked.get(name, 0) + 1
            if self._gone == NO_ANSWER:
                raise ConnectionAbortedError
            if self._gone:
                raise StoreError("Query: ServiceUnavailable", "ServiceUnavailable")
            said = json.loads(json.dumps(answer(query)))
            return self.changed.get(name, lambda same: same)(said)

    @contextmanager
    def held(self) -> Iterator[Pipeline]:
        """The pipeline, while no answer is made."""
        with self._lock:
            yield self.pipeline

    def count(self, votes: Mapping[str, int]) -> None:
        """Let a writer count so many events of each key."""
        with self.held() as pipeline:
            now, letters = pipeline.effects.now(), len(pipeline.queue.dead_letters)
            bodies = [
                {"key": key, "id": f"{now}-{number}"}
                for key, events in votes.items()
                for number in range(events)
            ]
            for at in range(0, len(bodies), LENGTH_MAX):
                report = pipeline.write(*bodies[at : at + LENGTH_MAX])
                assert not report.failures
            assert len(pipeline.queue.dead_letters) == letters
            pipeline.effects.pass_by(KEPT_MS)

    def pass_by(self, ms: int, *, every_ms: int = 600_000) -> None:
        """Let time pass, roller, cleanup and dropper at work."""
        with self.held() as pipeline:
            for step in [every_ms] * (ms // every_ms) + [ms % every_ms]:
                pipeline.effects.pass_by(step)
                pipeline.roller().run(TIME_LEFT)
                pipeline.cleanup().run(TIME_LEFT)
                pipeline.dropper().run(TIME_LEFT)

    def go(self, how: str) -> None:
        """Close each connection without an answer, or answer that the store does not."""
        self._gone = how

    def come_back(self) -> None:
        """Answer again."""
        self._gone = ""

    def cut_off(self, window: str) -> None:
        """Let no table of this window answer."""
        with self.held() as pipeline:
            tallies = pipeline.store.tallies

            def refuse(spec: Any, *rest: Any) -> Any:
                if spec.window == window:
                    raise StoreError("BatchGetItem: InternalServerError", "InternalServerError")
                return tallies(spec, *rest)

            pipeline.effects.pass_by(KEPT_MS)
            pipeline.store.tallies = refuse  # type: ignore[assignment,method-assign]

    def close(self) -> None:
        """End the console."""
        self._server.shutdown()
        self._server.server_close()
