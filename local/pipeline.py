"""A whole pipeline on an embedded AWS: the real handlers as Lambda runs them, and their drivers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

from local.aws.embedded import Embedded
from local.runtime.metrics import WriterMetrics
from local.runtime.poller import Faults, Poller
from local.runtime.pool import Function
from local.runtime.schedule import Schedule, scheduled_event
from tallyroll.resources import function_name
from tallyroll.settings import Settings

GRACE_S = 2.0
BATCH_SIZE, BATCH_WINDOW_S = 100, 0.1  # of the poller
CLEANUP_PERIODS = 5  # cleanup and dropper run every so many periods of the roller
_VISIBILITY_TO_TIMEOUT = 6  # the least ratio of a queue's visibility timeout to its function's:
# AWS Lambda Developer Guide, "Using Lambda with Amazon SQS"
_WRITER_TIMEOUT_LEAST_S = 5.0


class LocalPipeline:
    """A pipeline's functions, the poller of its queue, and its schedules, inside the `with` block.

    Args:
        aws: An entered `Embedded`.
        writers: The most writers at once.
        batch_size: The most messages of a batch.
        window_s: How long a batch is gathered.
        cleanup_period_s: How often cleanup, dropper and compactor run; by default every five
            periods of the roller.
        faults: What goes wrong on purpose at the queue.
        on_log: Gets the function's name and a line of its log.
        on_error: Told of failed batches and runs.
        on_run: Gets the schedule's name (`roller`, `cleanup`, `dropper`) and the response of each
            run.

    Attributes:
        writer, aggregator, roller, cleanup, dropper: The functions; `functions` has `compactor`
            too, if the settings ask for Parquet.
        poller: The queue's poller; `poller.polled` tells what it has done.
        schedules: The schedules of roller, cleanup, dropper and compactor, by name.
    """

    def __init__(
        self,
        aws: Embedded,
        *,
        writers: int = 2,
        batch_size: int = BATCH_SIZE,
        window_s: float = BATCH_WINDOW_S,
        cleanup_period_s: float | None = None,
        faults: Faults | None = None,
        on_log: Callable[[str, str], None] | None = None,
        on_error: Callable[[str], None] | None = None,
        on_run: Callable[[str, Any], None] | None = None,
    ) -> None:
        log = on_log or (lambda _function, _line: None)
        self._closing = threading.Event()
        self._on_run = on_run or (lambda _schedule, _response: None)

        def failed(text: str) -> None:
            if on_error and not self._closing.is_set():
                on_error(text)

        def log_line(function: str, line: str) -> None:
            if function == "writer":
                self._writer_metrics.log(line)
            log(function, line)

        settings = aws.settings
        timeout_s = max(
            _WRITER_TIMEOUT_LEAST_S, settings.visibility_ms / 1000 / _VISIBILITY_TO_TIMEOUT
        )

        def function(name: str, **options: Any) -> Function:
            path = f"functions.{name}.handler.handler"
            return Function(
                path, aws.environment, name=name, on_log=partial(log_line, name), **options
            )

        self.writer = function("writer", concurrency=writers, timeout_s=timeout_s)
        self.aggregator = function("aggregator")
        self.roller = function("roller", timeout_s=60.0)
        self.cleanup = function("cleanup", timeout_s=900.0)
        self.dropper = function("dropper", timeout_s=300.0)
        self._more = {each: function(each, timeout_s=900.0) for each in _more(settings)}
        self.poller = Poller(
            aws.client("sqs"),
            settings.queue_url,
            self.writer,
            batch_size=batch_size,
            window_s=window_s,
            concurrency=writers,
            faults=faults,
            on_error=failed,
        )
        period_s = settings.roller_period_ms / 1000
        cleanup_s = cleanup_period_s or CLEANUP_PERIODS * period_s
        periods = dict.fromkeys(("roller", "cleanup", "dropper", *self._more), cleanup_s)
        self.schedules = {
            name: Schedule(name, self.functions[name], every, on_error=failed, on_result=told_run)
            for name, every in (periods | {"roller": period_s}).items()
            for told_run in [partial(self._on_run, name)]
        }
        self._writer_metrics = WriterMetrics(
            aws.client("cloudwatch"),
            function_name(settings.name, "writer"),
            settings.name,
            self.poller,
        )
        drain_s = settings.drain_period_ms / 1000
        self._metrics = Schedule("metrics", self._writer_metrics, drain_s, on_error=failed)
        self._drivers: list[Schedule | Poller] = [*self.schedules.values(), self.poller]

    @property
    def functions(self) -> dict[str, Function]:
        """All functions by name."""
        return {
            "writer": self.writer,
            "aggregator": self.aggregator,
            "roller": self.roller,
            "cleanup": self.cleanup,
            "dropper": self.dropper,
            **self._more,
        }

    def __enter__(self) -> Self:
        """Run the roller once, then start all. Raises FunctionError if that run fails."""
        try:
            # Before anything can be sent: the first run founds the calendar, and events that
            # happened before the window of that moment are too late.
            first = self.roller.invoke(scheduled_event("roller", datetime.now(UTC)))
            self._on_run("roller", first)
            for driver in (*self._drivers, self._metrics):
                driver.start()
        except BaseException:
            self.stop(0)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Stop polling and the schedules; kill what still runs after a grace, as a crash might.

        Nothing is lost by that: the queue and the next run repair what was left half done.
        """
        self._metrics.stop(0)  # nobody waits for a call to CloudWatch that is under way
        for driver in self._drivers:
            driver.stop(0)
        until = time.monotonic() + grace_s
        for driver in self._drivers:
            driver.stop(max(0.0, until - time.monotonic()))
        self._closing.set()
        for function in self.functions.values():
            function.close()
        for driver in self._drivers:
            driver.stop()


def _more(settings: Settings) -> list[str]:
    """The scheduled functions that only some pipelines have."""
    return ["compactor"] if settings.compacts else []


def worth_reading(line: str) -> bool:
    """Whether a line of a function's log is a warning, an error, or not structured; not metrics."""
    try:
        entry = json.loads(line)
    except ValueError:
        return True
    return not isinstance(entry, dict) or entry.get("level") in {"WARNING", "ERROR", "CRITICAL"}
