"""Bugs by which messages are lost or rejected that writers which failed have hidden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tallyroll.ingest.writer import Writer
from tallyroll.lifecycle import draining
from tallyroll.ports.queue import Invocations

Patch = pytest.MonkeyPatch


def writers_taken_to_live(patch: Patch) -> None:
    """The ages alone prove a queue drained, whatever has become of its writers."""
    patch.setattr(draining, "_writers_prove", lambda *_: True)
    patch.setattr(Invocations, "troubled", property(lambda _: False))


def failures_forgotten(patch: Patch) -> None:
    """Writers that live now are believed, whatever they hid before."""
    patch.setattr(Invocations, "troubled", property(lambda _: False))


def done_before_it_is_done(patch: Patch) -> None:
    """A group is acknowledged before it is written."""
    write_group = Writer._write_group

    def hasty(self: Any, group: Sequence[Any], *rest: Any) -> None:
        self.queue.acknowledge([case.message.receipt for case in group[:1]])
        write_group(self, group, *rest)

    patch.setattr(Writer, "_write_group", hasty)
