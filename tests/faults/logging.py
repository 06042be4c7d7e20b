"""A life with a logged key, under faults."""

from __future__ import annotations

from tests.faults.exactness import Ledger
from tests.faults.lives import NOW_WINDOW, event, is_, live_on, queue_empty, turns
from tests.faults.world import BEGIN, World

LOGS = {"logged": 1_000}
BATCHES = 6


def logged_life(world: World, ledger: Ledger) -> None:
    """One window, with plain events of a logged key. Before a batch is put, the leaves that its
    slot has by then are read.
    """
    turns(world, is_(world, "open", NOW_WINDOW), world.roll)
    for number in range(BATCHES):
        world.send(*(event("logged", None, BEGIN, value=number) for _ in range(3)))
        ledger.expect(NOW_WINDOW, "logged", str(number), 3)
        turns(world, lambda: queue_empty(world), world.poll)
        world.renew("writer")  # which remembers no message
        world.redeliver()
        turns(world, lambda: queue_empty(world), world.poll)
    live_on(world)
