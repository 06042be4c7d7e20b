"""Bugs that show where something fails for ever: the rest stands still with it."""

from __future__ import annotations

from typing import Any

import pytest

import tallyroll.lifecycle.cleanup
import tallyroll.lifecycle.dropper
from tallyroll.errors import Refused, StoreError
from tallyroll.ingest.writer import Writer
from tallyroll.lifecycle.runner import carry_out

Patch = pytest.MonkeyPatch


def a_window_keeps_others_from_their_turn(patch: Patch) -> None:
    """Cleanup and dropper end with the first window that they cannot get on with."""

    def first_only(window: Any, *rest: Any) -> Any:
        rolled = rest[-1]
        lived = carry_out(window, *rest)
        if rolled.problems:
            raise Refused(rolled.problems[0])
        return lived

    patch.setattr(tallyroll.lifecycle.cleanup, "carry_out", first_only)
    patch.setattr(tallyroll.lifecycle.dropper, "carry_out", first_only)


def a_letter_keeps_its_batch(patch: Patch) -> None:
    """What the dead-letter queue does not take keeps the whole batch from being acknowledged."""
    reject = Writer._reject

    def all_or_none(self: Any, cases: Any) -> Any:
        refused: list[StoreError] = []
        send = self.queue.reject

        class Queue:
            def reject(self, rejections: Any) -> Any:
                try:
                    return send(rejections)
                except StoreError as error:
                    refused.append(error)
                    raise

            def __getattr__(self, verb: str) -> Any:
                return getattr(queue, verb)

        queue, self.queue = self.queue, Queue()
        try:
            cases = reject(self, cases)
        finally:
            self.queue = queue
        if refused:
            raise refused[0]
        return cases

    patch.setattr(Writer, "_reject", all_or_none)
