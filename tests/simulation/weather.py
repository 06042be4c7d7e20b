"""How often and how badly things go wrong in a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any, Self

# Slow where it matters: one of these calls takes up to seconds under each seed.
SLOW_VERBS = (
    *("shut_gate", "stripes", "commit") * 3,
    *("record", "specs", "window", "open_gate", "put", "advance", "make_table", "live"),
    *("describe_table", "tag_table", "drop_table", "reject", "stream", "scan"),
)
LATE_ROLLER_TIMES = 360  # up to an hour, in which the window of a table may come to its end
STALE_MS_MAX = 20_000  # DynamoDB names no bound; mostly it is under a second


class Risk(float):
    """A chance per call that knows what it is the chance of, so that a world can name, count and
    leave out what struck.
    """

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, chance: float, kind: str) -> Self:
        """The chance, 0..1, of one kind of fault."""
        risk = super().__new__(cls, chance)
        risk.kind = kind
        return risk

    def __mul__(self, times: float) -> Risk:
        return Risk(float(self) * times, self.kind)

    __rmul__ = __mul__


@dataclass(frozen=True, slots=True)
class Weather:
    """How often things go wrong: chances per call (each becomes a Risk), durations in ms.

    `mangled`: what an export reads or writes comes out wrong; `laggard`: it sleeps for minutes over
    that; `clock_ms`: how far off the clocks of functions and operators are at most. `belated`: a
    commit is carried out long after it was given up; `tardy`: another write is; `parted`: queries
    see a transaction in part until it is answered; `stale_ms`: how old an eventual read is at most.
    `hasty`: the queue's ages tell of nothing old, though there is, so that windows close at once.
    `crowded`: of conflicts, and hot partitions, those that are of a tally's stripe.
    """

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
    mangled: float = 0.0
    laggard: float = 0.0
    clock_ms: int = 200
    parted: float = 0.0
    tardy: float = 0.0
    stale_ms: int = 0
    hasty: float = 0.0
    crowded: float = 0.0

    def __post_init__(self) -> None:
        for name in RISKS:
            object.__setattr__(self, name, Risk(getattr(self, name), name))


RISKS = tuple(field.name for field in fields(Weather) if field.type == "float")
CALM = Weather()
LETTER = Risk(1.0, "letter")  # certain, yet it can be left out


def forecast(chance: Random) -> Weather:
    """How bad it gets under one seed: each kind of fault absent, rare or frequent."""

    def some(most: float) -> float:
        return most * max(0.0, chance.random() * 1.5 - 0.5) ** 2

    weather = Weather(
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
        mangled=some(0.4),
        laggard=some(0.15),
        clock_ms=int(200 * 100 ** max(0.0, chance.random() * 2 - 1)),
        parted=some(0.5),
        tardy=some(0.05),
        stale_ms=int(STALE_MS_MAX * chance.random()),
        hasty=max(0.0, chance.random() * 3 - 2),
    )
    if weather.slow_verb == "make_table":
        return replace(weather, slow_ms=LATE_ROLLER_TIMES * weather.slow_ms)
    return weather


def parse_weather(text: str) -> dict[str, Any]:
    """The tweaks in "crash=0 stall=0.04 slow_verb=stripes", by field.

    Raises ValueError, which names the bad field.
    """
    known = {field.name: field.type for field in fields(Weather)}
    tweaks: dict[str, Any] = {}
    for part in text.replace(",", " ").split():
        name, _, given = part.partition("=")
        if name not in known:
            raise ValueError(f"weather has no field {name!r}; it has {', '.join(known)}")
        try:
            tweaks[name] = {"int": int, "float": float, "str": str}[str(known[name])](given)
        except ValueError:
            raise ValueError(f"weather field {name}: {given!r} is no {known[name]}") from None
        if name in RISKS and not 0 <= tweaks[name] <= 1:
            raise ValueError(f"weather field {name}: {given} is no chance, 0 to 1")
        if known[name] == "int" and tweaks[name] < 0:
            raise ValueError(f"weather field {name}: {given} ms is negative")
        if name == "slow_verb" and given and given not in SLOW_VERBS:
            verbs = ", ".join(dict.fromkeys(SLOW_VERBS))
            raise ValueError(f"weather field slow_verb: {given!r} is none of {verbs}")
    return tweaks


def weather_text(tweaks: Mapping[str, Any]) -> str:
    """The text that `parse_weather` reads as these tweaks."""
    return " ".join(f"{name}={given}" for name, given in tweaks.items())
