"""Loads: how many events a second, and of which keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import exp

import numpy as np

from tallyroll.errors import UsageError
from tallyroll.planning.partition_model.table import Floats

ZIPF_THETA = 0.99
SPIKE_RISE_SECONDS, SPIKE_FALL_SECONDS = 30.0, 600.0
RECORDED_KEYS_MAX = 2_000
REST = "(other keys)"


@dataclass(frozen=True)
class LoadShape:
    """Events a second at each second, and the shares of the keys, which add up to 1."""

    name: str
    rate: Callable[[float], float]
    keys: tuple[str, ...]
    mix: Callable[[float], Floats]


def one_key(key: str = "hot") -> tuple[tuple[str, ...], Floats]:
    """One key that gets everything."""
    return (key,), np.ones(1)


def zipf(keys: int, theta: float = ZIPF_THETA) -> tuple[tuple[str, ...], Floats]:
    """Keys by Zipf's law as YCSB has it: the k-th gets a share of 1 / k^theta.

    Source: Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", 2010; theta is 0.99.
    """
    shares = 1.0 / np.arange(1, keys + 1) ** theta
    return tuple(f"key-{number}" for number in range(1, keys + 1)), shares / shares.sum()


def hotspot(keys: int, of_keys: float, of_load: float) -> tuple[tuple[str, ...], Floats]:
    """Of the keys, this share gets that share of the load, each group evenly."""
    if not (0 < of_keys < 1 and 0 < of_load < 1):
        raise UsageError(f"hotspot {of_keys:g}/{of_load:g}: give two shares between 0 and 1")
    hot = max(1, round(keys * of_keys))
    if hot >= keys:
        raise UsageError(f"hotspot {of_keys:g}/{of_load:g}: {keys} keys are too few")
    shares = np.full(keys, (1 - of_load) / (keys - hot))
    shares[:hot] = of_load / hot
    return tuple(f"key-{number}" for number in range(1, keys + 1)), shares


def flat(rate: float) -> Callable[[float], float]:
    """The same rate all the time."""
    return lambda _: rate


def step(rate: float, peak: float, at: float) -> Callable[[float], float]:
    """One rate up to a second, and another one from then on."""
    return lambda second: rate if second < at else peak


def spike(rate: float, peak: float, at: float) -> Callable[[float], float]:
    """A viral spike: within half a minute from the rate to the peak, and back within some times ten
    minutes.
    """

    def rated(second: float) -> float:
        since = second - at
        if since < -SPIKE_RISE_SECONDS:
            return rate
        if since < 0:
            return rate + (peak - rate) * (1 + since / SPIKE_RISE_SECONDS)
        return rate + (peak - rate) * exp(-since / SPIKE_FALL_SECONDS)

    return rated


def fixed(
    name: str, rate: Callable[[float], float], keys: tuple[tuple[str, ...], Floats]
) -> LoadShape:
    """A load whose keys have the same shares all the time."""
    names, shares = keys
    return LoadShape(name, rate, names, lambda _: shares)


def recorded(events: Iterable[tuple[str, int]], name: str = "recorded") -> tuple[LoadShape, float]:
    """The load of recorded events, (key, ms) pairs, second by second, and how many seconds it has.

    Beyond 2,000 keys, the smallest ones are taken as one.
    """
    by_second: Counter[int] = Counter()
    by_key: Counter[str] = Counter()
    by_minute: dict[int, Counter[str]] = {}
    first: int | None = None
    for key, ts in events:
        second = ts // 1000
        first = second if first is None else min(first, second)
        by_second[second] += 1
        by_key[key] += 1
        by_minute.setdefault(second // 60, Counter())[key] += 1
    if first is None:
        raise UsageError("no events: there is no load to simulate")
    begin: int = first
    kept = [key for key, _ in by_key.most_common(RECORDED_KEYS_MAX)]
    keys = (*kept, REST) if len(by_key) > len(kept) else tuple(kept)
    place = {key: number for number, key in enumerate(keys)}
    whole = _shares(by_key, place, len(keys))
    mixes = {minute: _shares(count, place, len(keys)) for minute, count in by_minute.items()}

    def mix(second: float) -> Floats:
        return mixes.get((begin + int(second)) // 60, whole)

    shape = LoadShape(name, lambda second: float(by_second[begin + int(second)]), keys, mix)
    return shape, float(max(by_second) - begin + 1)


def _shares(counts: Counter[str], place: dict[str, int], size: int) -> Floats:
    shares = np.zeros(size)
    for key, events in counts.items():
        shares[place.get(key, size - 1)] += events / counts.total()
    return shares
