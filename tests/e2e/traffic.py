"""Events for a deployed pipeline whose functions run in two versions at once, and their truth."""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Barrier

from tallyroll.model.windows import Grid
from tests.e2e.deployment import Json
from tests.e2e.pipeline import DeployedPipeline

WAIT_S = 400.0  # for what takes seconds on a quiet machine
SINGLES, PACKETS, PACKED = 12, 2, 25
_BATCH = 40
_PAUSE_S = 0.1


def fire(pipeline: DeployedPipeline) -> None:
    """Invoke each function that has a schedule. Fails if one reports a problem."""
    for arn in pipeline.schedules.by_target:
        assert pipeline.schedules.fire(arn)["problems"] == []


def now_ms() -> int:
    """The time, ms since the epoch."""
    return time.time_ns() // 1_000_000


class Traffic:
    """What was sent to a pipeline, and what it has to count.

    Attributes:
        truth: Events and their sum, by key.
        windows: The ids of the windows in which they happened.
        sent: How many messages were sent, and `delivered` how often one was given to a writer.
    """

    def __init__(self, window_seconds: int) -> None:
        self.truth: dict[str, tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
        self.windows: set[str] = set()
        self.sent = self.delivered = 0
        self._grid = Grid.of(window_seconds)

    @property
    def events(self) -> int:
        """How many events have to be counted."""
        return sum(events for events, _ in self.truth.values())

    def exchange(self, writers: Sequence[DeployedPipeline], roller: DeployedPipeline) -> str:
        """Send events of now, and let them be counted by these pipelines' writers; the window's id.

        Each message is given to every writer, to all of them at the same moment, and then to all
        of them once more. Those messages that await their window come again after runs of `roller`.
        Nothing else invokes the roller meanwhile, so that no window closes between two deliveries.
        """
        at = now_ms()
        awaited = set(writers[0].send(*self._bodies(at)))
        self.sent += len(awaited)
        deadline = time.monotonic() + WAIT_S
        while awaited:
            assert time.monotonic() < deadline, f"{len(awaited)} messages are not counted"
            awaited -= self._counted(writers)
            if awaited:
                fire(roller)
                time.sleep(_PAUSE_S)
        window = self._grid.at(at).id
        self.windows.add(window)
        return window

    def window_of_now(self) -> str:
        """The id of the window that is current."""
        return self._grid.at(now_ms()).id

    def _bodies(self, at: int) -> list[str]:
        """Messages of one moment, one of them twice: single events with ids, with payloads and
        without ids, and packets.
        """
        bodies = []
        for number in range(SINGLES):
            event: Json = {"id": str(uuid.uuid4()), "key": "hot", "ts": at, "value": 0.25}
            if number % 3 == 1:
                event |= {"key": f"cold-{number}", "payload": {"number": number}}
            if number % 6 == 2:
                del event["id"]
            bodies.append(json.dumps(event))
            self._note(event["key"], 1, Decimal("0.25"))
        again = bodies[0]  # the same event, in a message of its own
        for _ in range(PACKETS):
            packet = {"v": 1, "id": str(uuid.uuid4()), "key": "hot", "t0": at}
            bodies.append(json.dumps({**packet, "events": [[0]] * PACKED}))
            self._note("hot", PACKED, Decimal(PACKED))
        return [*bodies, again]

    def _note(self, key: str, events: int, amount: Decimal) -> None:
        before, sum_before = self.truth[key]
        self.truth[key] = (before + events, sum_before + amount)

    def _counted(self, writers: Sequence[DeployedPipeline]) -> set[str]:
        """Deliver what the queue holds; the ids of the messages that are done with."""
        source = writers[0].events
        done: set[str] = set()
        while messages := source.receive(_BATCH):
            records = source.records(messages)
            left = self._delivered(writers, records)
            for record in records:
                record["attributes"]["ApproximateReceiveCount"] = "2"
            left &= self._delivered(writers, records[::-1])
            source.finish(messages, left)
            done |= {found["MessageId"] for found in messages} - left
        return done

    def _delivered(self, writers: Sequence[DeployedPipeline], records: list[Json]) -> set[str]:
        """Give records to all writers at once; the ids that none of them is done with."""
        barrier = Barrier(len(writers))

        def deliver(writer: DeployedPipeline) -> set[str]:
            barrier.wait()
            return writer.events.deliver(records)

        with ThreadPoolExecutor(len(writers)) as pool:
            left = [*pool.map(deliver, writers)]
        self.delivered += len(writers) * len(records)
        return set.intersection(*left)
