"""How often and how badly things go wrong in a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

# Slow where it matters: one of these calls takes up to seconds under each seed.
SLOW_VERBS = (
    *("shut_gate", "bucket", "commit") * 3,
    *("record", "specs", "window", "open_gate", "put", "advance", "make_table"),
    *("describe_table", "tag_table", "drop_table", "reject", "stream", "scan"),
)


@dataclass(frozen=True, slots=True)
class Weather:
    """How often things go wrong: chances per call, durations in ms."""

    latency_ms: int = 5
    crash: float = 0.0
    stall: float = 0.0
    stall_ms_max: int = 0
    refused: float = 0.0
    unanswered: float = 0.0
    belated: float = 0.0
    contended: float = 0.0
    misread: float = 0.0
    duplicate: float = 0.0
    zombie: float = 0.0
    slow_verb: str = ""
    slow_ms: int = 0


CALM = Weather()


def forecast(chance: Random) -> Weather:
    """How bad it gets under one seed: each kind of fault absent, rare or frequent."""

    def some(most: float) -> float:
        return most * max(0.0, chance.random() * 1.5 - 0.5) ** 2

    return Weather(
        latency_ms=int(2 ** (chance.random() * 9)),
        crash=some(0.01),
        stall=some(0.01),
        stall_ms_max=int(10_000 * 4 ** (chance.random() * 4)),
        refused=some(0.1),
        unanswered=some(0.1),
        belated=some(0.05),
        contended=some(0.3),
        misread=max(0.0, chance.random() * 2 - 1),
        duplicate=some(0.1),
        zombie=chance.random(),
        slow_verb=SLOW_VERBS[int(chance.random() * len(SLOW_VERBS))],
        slow_ms=int(10_000 * chance.random() ** 2),
    )
