"""The stage of an endpoint's checks, on a store in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tallyroll.adapters.memory import MemoryCatalog, MemoryStore
from tallyroll.operations.conform.stage import SETTINGS, Scale, Stage, spec_on
from tallyroll.ports.store import Outcome, Verdict
from tests.harness.pipeline import StillEffects

Commit = Callable[..., Outcome]
THROTTLED = Outcome(Verdict.THROTTLED, detail="too much")
UNANSWERED = Outcome(Verdict.UNKNOWN, detail="no reply")


def made(creating_ms: int = 0) -> Stage:
    effects, catalog = StillEffects(), MemoryCatalog()
    store = MemoryStore(effects, catalog, creating_ms=creating_ms)
    small = Scale(events=48, at_once=2, rounds=3, within_ms=600_000)
    spec = spec_on("conform", SETTINGS, effects.now())
    return Stage(store, store, catalog, effects, spec, lambda: 1, scale=small)


def always(answer: object) -> Callable[..., Any]:
    return lambda *_, **__: answer
