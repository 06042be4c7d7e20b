"""The three tiers of the tests. `tests/README.md` says what each holds.

`TALLYROLL_TIER` names the one that runs; without it, it is `test`.
"""

from __future__ import annotations

import os
from enum import StrEnum

from hypothesis import settings


class Tier(StrEnum):
    """A tier of the tests."""

    QUICK = "quick"  # `make quick`: nothing that needs an engine or takes seconds
    TEST = "test"  # `make test`: what a change needs
    PROOF = "proof"  # `make proof`: what `make test` leaves out, and what is traced, under coverage


TIER = Tier(os.environ.get("TALLYROLL_TIER", Tier.TEST))
QUICK_PARTS = {"unit", "properties", "messages", "test_architecture.py"}
"""The folders and files of `make quick`."""
LEFT_OUT: dict[Tier, tuple[str, ...]] = {
    Tier.QUICK: ("proof", "slow", "engine", "cassandra", "e2e"),
    Tier.TEST: ("proof", "cassandra"),
    Tier.PROOF: (),
}
"""The markers of tests that a tier leaves out."""
SEEN_BY_TEST = {
    *("benchmarks", "concurrency", "console", "demo", "docs", "drills", "e2e", "faults", "infra"),
    *("local", "model", "producing", "release", "simulation", "strict", "test_architecture.py"),
    "trial",
}
"""The parts of which `make proof` runs what is marked alone. The rest is not traced: it would be
the same as in `make test`.
"""
TRIED_MORE = {"properties"}
"""The parts that `make proof` runs as a whole everywhere: it tries more examples."""
_SHARE = {Tier.QUICK: 0.1, Tier.TEST: 0.4, Tier.PROOF: 1.0}
_EXAMPLES = 100  # Hypothesis' own number


def examples(most: int = _EXAMPLES) -> int:
    """How many examples of a law this tier tries, of the `most` that `make proof` tries."""
    return max(5, round(most * _SHARE[TIER]))


def load_profile() -> None:
    """Let laws try this tier's number of examples, and take their time on a busy machine."""
    settings.register_profile(TIER, max_examples=examples(), deadline=None)
    settings.load_profile(TIER)
