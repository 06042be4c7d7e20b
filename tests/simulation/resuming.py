"""A long run that is stopped and goes on: what its seeds came to, in a file, for one revision."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.simulation.lanes import Summary
from tests.simulation.modes import DYNAMODB
from tests.simulation.weather import weather_text

ROOT = Path(__file__).parents[2]
SOURCES = ("src/tallyroll", "functions", "infra", "tests/simulation")  # what a seed's run rests on
SAVE_EVERY_SECONDS = 10.0


class NotResumed(Exception):
    """The file is of another revision, weather or store, or no file of a run at all."""


class Resumable:
    """The file of a run; without a path nothing is kept.

    Seeds that failed are run again: their traces are not in the file.
    """

    def __init__(self, path: Path | None, tweaks: Mapping[str, Any], store: str = DYNAMODB) -> None:
        self._path = path
        self._head = {"revision": revision(), "weather": weather_text(tweaks), "store": store}
        self._done: dict[int, None] = {}
        self._next = 0.0
        self.summary = Summary()
        if path and path.exists():
            self._load(path)

    def left(self, seeds: Iterable[int]) -> list[int]:
        """The seeds that are still to be run."""
        return [seed for seed in seeds if seed not in self._done]

    def done(self, seed: int) -> None:
        """Take note of a seed that was run and is in the summary; write the file now and then."""
        self._done[seed] = None
        if time.monotonic() >= self._next:
            self.save()

    def save(self) -> None:
        """Write the file."""
        if not self._path:
            return
        self._next = time.monotonic() + SAVE_EVERY_SECONDS
        failed = [result.seed for result in self.summary.failed]
        kept = sorted(seed for seed in self._done if seed not in failed)
        body = json.dumps({**self._head, "seeds": kept, **self.summary.numbers()})
        beside = self._path.with_suffix(f"{self._path.suffix}.new")
        beside.write_text(body)
        beside.replace(self._path)

    def _load(self, path: Path) -> None:
        try:
            found = json.loads(path.read_text())
            head = {name: found[name] for name in self._head}
            numbers = {name: found[name] for name in self.summary.numbers()}
            self._done = dict.fromkeys(found["seeds"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise NotResumed(f"{path} is no file of a run: {error!r}") from None
        if head != self._head:
            raise NotResumed(f"{path} was begun with {head}, this is {self._head}: remove it")
        self.summary = Summary.of(numbers, seeds=len(self._done))


def revision() -> str:
    """A digest of the sources on which a seed's run rests, and of Python's version."""
    digest = hashlib.sha256(str(sys.version_info[:2]).encode())
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
