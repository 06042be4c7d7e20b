"""Statements that are sent one after the other, without a thread that waits for each.

Conditional writes to one partition take turns in its replicas, and those that come at once hinder
each other. So a writer sends them in a chain, and has one chain for each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

from tallyroll.adapters.cassandra.failures import is_for_good
from tallyroll.errors import Throttled

NOT_SENT = "NotSent"
Step = Callable[[], Any]
"""Gives the answer to a statement, or raises the driver's error, or Throttled."""


class Chain:
    """Statements, each of which is sent when the one before is answered. After an error that says
    nothing of the statement itself, the others are not sent: their partition may be down or slow.
    Nor are those that are still to be sent when it `is_late`.
    """

    def __init__(
        self,
        session: Any,
        bound: Sequence[Any],
        ended: Callable[[], object],
        is_late: Callable[[], bool],
    ) -> None:
        self._session = session
        self._bound = bound
        self._ended = ended
        self._is_late = is_late
        self._steps: list[Step] = []
        self._done = Event()

    def begin(self) -> None:
        """Send the first statement; the driver's threads send the others, and call `ended`."""
        self._send()

    def wait(self) -> list[Step]:
        """The steps, one for each statement, once no more is sent."""
        self._done.wait()
        return self._steps + [_not_sent] * (len(self._bound) - len(self._steps))

    def _send(self) -> None:
        if len(self._steps) == len(self._bound) or (self._steps and self._is_late()):
            self._end()
            return
        try:
            future = self._session.execute_async(self._bound[len(self._steps)])
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is asked for
            self._steps.append(_raising(error))
            self._failed(error)
            return
        self._steps.append(future.result)
        future.add_callbacks(lambda _: self._send(), self._failed)

    def _failed(self, error: Exception) -> None:
        if is_for_good(error):
            self._send()
        else:
            self._end()

    def _end(self) -> None:
        self._ended()
        self._done.set()


def _raising(error: Exception) -> Step:
    def step() -> Any:
        raise error

    return step


def _not_sent() -> Any:
    why = "a statement before it in its partition had no answer, or a late one"
    raise Throttled(why, NOT_SENT)
