"""With logs the invariants hold, mistakes with them are found, and rare states are met."""

from __future__ import annotations

from collections import Counter

import pytest

from tallyroll.ingest import appending
from tests.simulation.lanes import bug_name, finding_seed
from tests.simulation.logs.planted import PLANTED
from tests.simulation.logs.system import simulate_logs
from tests.simulation.planted import Planted
from tests.tiers import TIER, Tier

SEEDS = range(40) if TIER is Tier.PROOF else range(4)
MET = ("leaves", "entries", "lost", "slots", "ended", "full")


def test_invariants_hold_and_the_rare_states_are_met(monkeypatch: pytest.MonkeyPatch) -> None:
    met: Counter[str] = Counter()
    append = appending.Appender.append

    def counted(*given: object) -> appending.Appended:
        done = append(*given)  # type: ignore[arg-type]
        met.update({name: getattr(done.counts, name) for name in MET})
        return done

    monkeypatch.setattr(appending.Appender, "append", counted)
    found = {seed: simulate_logs(seed).violation for seed in SEEDS}
    assert {seed: violation for seed, violation in found.items() if violation} == {}
    assert [name for name in MET if not met[name]] == []
    assert met["entries"] > met["leaves"]


@pytest.mark.proof
@pytest.mark.parametrize("planted", PLANTED, ids=bug_name)
def test_a_planted_mistake_is_found(planted: Planted) -> None:
    seed = finding_seed(simulate_logs, planted)
    assert seed is not None, "it survived: make simulate STORE=logs BUGS=all"
    assert not simulate_logs(seed, **planted.weather).violation, "it is not the planted mistake"
