"""With logs the invariants hold, mistakes with them are found, and rare states are met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tallyroll.ingest import appending
from tests.simulation.holdings import Name
from tests.simulation.lanes import bug_name, finding_seed
from tests.simulation.logs.oracle import LogBook
from tests.simulation.logs.planted import PLANTED
from tests.simulation.logs.system import simulate_logs
from tests.simulation.planted import Planted

MET = ("leaves", "entries", "lost", "slots", "ended", "full")


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 12), marks=pytest.mark.proof)])
def test_invariants_hold_and_the_rare_states_are_met(
    seeds: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    met: Counter[str] = Counter()
    append = appending.Appender.append

    def counted(*given: object) -> appending.Appended:
        done = append(*given)  # type: ignore[arg-type]
        met.update({name: getattr(done.counts, name) for name in MET})
        return done

    take = LogBook._take

    def taken(book: LogBook, how: str, name: Name, *rest: Any) -> None:
        met.update({f"{how} of an entry": name[2].startswith("~log.")})
        take(book, how, name, *rest)

    monkeypatch.setattr(appending.Appender, "append", counted)
    monkeypatch.setattr(LogBook, "_take", taken)
    found = {seed: simulate_logs(seed).violation for seed in seeds}
    assert {seed: violation for seed, violation in found.items() if violation} == {}
    assert [name for name in (*MET, "tombstone of an entry") if not met[name]] == []
    assert met["entries"] > met["leaves"]


@pytest.mark.proof
@pytest.mark.parametrize("planted", PLANTED, ids=bug_name)
def test_a_planted_mistake_is_found(planted: Planted) -> None:
    seed = finding_seed(simulate_logs, planted)
    assert seed is not None, "it survived: make simulate STORE=logs BUGS=all"
    assert not simulate_logs(seed, **planted.weather).violation, "it is not the planted mistake"
