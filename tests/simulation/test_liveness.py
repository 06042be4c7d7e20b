"""What fails for ever leaves the rest at work, and the judgement of that can fail."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tallyroll.cdk.alarm_values import MetricNamespace
from tests.simulation import sandboxes
from tests.simulation.liveness import PARTS, forever
from tests.simulation.pipeline import System, simulate

SEEDS = range(400)
# Seeds under which these parts fail, and were struck.
OF_EACH = {
    "roller": 16,
    "cleanup": 46,
    "aggregator": 64,
    "writer": 37,
    "deletion": 34,
    "export": 60,
    "letters": 8,
}


def parts_of(seed: int) -> list[str]:
    """What fails for ever under a seed."""
    return list(dict.fromkeys(fault.name for fault in forever(Random(f"{seed} forever"))))


def test_something_fails_for_ever_in_half_of_the_seeds() -> None:
    found = [parts_of(seed) for seed in SEEDS]
    assert 0.4 < sum(map(bool, found)) / len(SEEDS) < 0.6
    times = Counter(part for parts in found for part in parts)
    assert min(times[part] for part in PARTS) > len(SEEDS) / 20
    assert max(map(len, found)) > 2


@pytest.mark.parametrize("part", PARTS)
def test_the_rest_goes_on_where_a_part_fails_for_ever(part: str) -> None:
    seed = OF_EACH[part]
    assert part in parts_of(seed)
    result = simulate(seed)
    assert not result.violation
    assert result.marks[f"ill-{part}"]
    assert result.commits


@pytest.mark.parametrize("part", ["roller", "cleanup"])
def test_a_dead_part_of_which_no_alarm_tells_is_found(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if nothing were published by Lambda, and the roller went on publishing."""

    def publish(system: System, function: str, **_: bool) -> None:
        if function == "roller":
            now = system.world.now
            system.gauges.put(MetricNamespace.PIPELINE, function, "NextWindowMissing", now, 0.0)

    monkeypatch.setattr(sandboxes, "gauge_invocation", publish)
    violation = simulate(OF_EACH[part]).violation
    assert violation
    assert violation.startswith("liveness: ")
