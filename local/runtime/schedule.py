"""Plays the part of EventBridge Scheduler: invokes a function every so often."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self

from local.runtime.pool import FunctionError, Invokes


class Schedule:
    """Invokes a function at once and then every period, but never while it still runs.

    Args:
        name: The schedule's name, which stands in the event.
        function: What is invoked.
        period_s: The period in seconds.
        on_result: Gets each response. Called from the schedule's thread, as is `on_error`.
        on_error: Told of each invocation that failed; the schedule goes on.
    """

    def __init__(
        self,
        name: str,
        function: Invokes,
        period_s: float,
        *,
        on_result: Callable[[Any], None] | None = None,
        on_error: Callable[[str], None] | None = None,
    ) -> None:
        self.runs = 0
        self.skipped = 0
        self.errors = 0
        self._name = name
        self._function = function
        self._period_s = period_s
        self._on_result = on_result or (lambda _response: None)
        self._on_error = on_error or (lambda _text: None)
        self._stopping = threading.Event()
        self._turn = threading.Lock()  # held while a run is at work
        self._thread = threading.Thread(target=self._drive, name=f"schedule-{name}", daemon=True)

    def start(self) -> Self:
        """Begin, with a first run now."""
        self._thread.start()
        return self

    def stop(self, within_s: float | None = None) -> bool:
        """Let a run at work finish; whether it has ended, in the time given."""
        self._stopping.set()
        return ended([self._thread], within_s)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let a run at work finish, and begin no other inside the block."""
        with self._turn:
            yield

    def _drive(self) -> None:
        due = time.monotonic()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            with self._turn:
                self._run()
            missed = max(0, int((time.monotonic() - due) / self._period_s))
            self.skipped += missed
            due += self._period_s * (missed + 1)

    def _run(self) -> None:
        self.runs += 1
        try:
            response = self._function.invoke(scheduled_event(self._name, datetime.now(UTC)))
        except FunctionError as error:
            self.errors += 1
            self._on_error(f"{self._name}: {error}")
        else:
            self._on_result(response)


def ended(threads: Sequence[threading.Thread], within_s: float | None) -> bool:
    """Wait for threads, those never started left out; whether all have ended in the time given."""
    until = None if within_s is None else time.monotonic() + within_s
    for thread in threads:
        if thread.ident is not None:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def scheduled_event(name: str, at: datetime) -> dict[str, Any]:
    """The event that EventBridge Scheduler sends to a function for which no input is configured."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.scheduler",
        "account": "123456789012",
        "time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": "us-east-1",
        "resources": [f"arn:aws:scheduler:us-east-1:123456789012:schedule/default/{name}"],
        "detail": "{}",
    }
