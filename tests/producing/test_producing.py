"""What a producer accepts is counted once or reported, whatever the queue says and whenever the
process dies.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.producing.planted import PLANTED
from tests.producing.run import Result, run

SEEDS = 1_000
LANES = 4
# Without these, the seeds prove little.
MET = (
    "closed with a loss",
    "final",
    "fine",
    "flush: NotSent",
    "flush: TimeoutError",
    "frozen",
    "killed",
    "lost-after",
    "lost-before",
    "partly",
    "recovered",
    "refused",
    "send: BufferFull",
    "send: OSError",
    "throttled",
    "unnamed",
)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("lane", range(LANES))
def test_accepted_is_counted_once_or_reported(lane: int) -> None:
    met: Counter[str] = Counter()
    broken = {}
    events = 0
    for seed in range(lane, SEEDS, LANES):
        result = run(seed)
        met += result.met
        events += result.events
        if result.wrong:
            broken[seed] = result.wrong[:3]
    assert not broken
    assert [name for name in MET if not met[name]] == []
    assert events > 25 * SEEDS / LANES


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    assert run(planted.seed).wrong == []
    planted.plant(monkeypatch)
    assert run(planted.seed).wrong


def test_a_seed_replays_exactly() -> None:
    assert _told(run(7)) == _told(run(7))


def _told(result: Result) -> tuple[int, Counter[str]]:
    return result.events, result.met
