"""What the functions print, read as CloudWatch would read it: EMF metrics summed, warnings kept."""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

PROBLEMS_KEPT = 50
_LOUD = ("WARNING", "ERROR", "CRITICAL")


@dataclass
class Ledger:
    """Sums of all EMF metrics by name, and the latest log lines of level WARNING or above."""

    sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    problems: deque[str] = field(default_factory=lambda: deque(maxlen=PROBLEMS_KEPT))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def log(self, line: str) -> None:
        """Take in one line of a function's output."""
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        with self._lock:
            if not isinstance(entry, dict):
                self.problems.append(line)
            elif "_aws" in entry:
                self._add(entry)
            elif entry.get("level") in _LOUD:
                text = f"{entry.get('service')}: {entry.get('message')}"
                reasons = entry.get("reasons") or entry.get("exception_name") or ""
                self.problems.append(f"{text} {reasons}".rstrip())

    def _add(self, entry: dict[str, Any]) -> None:
        for name, values in entry.items():
            if isinstance(values, list):  # EMF: a metric's values in this line
                self.sums[name] += sum(values)

    def sum(self, name: str) -> float:
        """The sum of a metric over all that was printed; 0 if it never was."""
        with self._lock:
            return self.sums[name]
