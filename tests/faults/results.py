"""What lives came to, worked out once in a test run whichever of its processes asks first."""

from __future__ import annotations

import fcntl
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.kinds import Kind

Strikes = Counter[tuple[str, Kind]]


@dataclass(frozen=True, slots=True)
class Result:
    """What struck where in some lives, what was wrong in the end, and the sites called in turn."""

    problems: tuple[str, ...] = ()
    strikes: Strikes = field(default_factory=Counter)
    sites: tuple[str, ...] = ()
    lives: int = 1

    def dumped(self) -> str:
        """As JSON."""
        return json.dumps(
            {
                "problems": self.problems,
                "strikes": [[*where, count] for where, count in self.strikes.items()],
                "sites": self.sites,
                "lives": self.lives,
            }
        )

    @classmethod
    def loaded(cls, text: str) -> Result:
        """From JSON."""
        facts = json.loads(text)
        strikes = Counter({(site, Kind(kind)): count for site, kind, count in facts["strikes"]})
        return cls(tuple(facts["problems"]), strikes, tuple(facts["sites"]), facts["lives"])


class Results:
    """Results by name in a folder that all processes of one test run share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def of(self, name: str, make: Callable[[], Result]) -> Result:
        """The result of that name; made here if it is not there, waited for if it is being made."""
        kept = self._folder / f"{name}.json"
        with (self._folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                made = make()
                kept.write_text(made.dumped(), encoding="utf-8")
            return Result.loaded(kept.read_text(encoding="utf-8"))
