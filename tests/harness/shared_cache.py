"""A shared cache in this process, which does to callers what a real one may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tallyroll.errors import Unknown
from tallyroll.ports.counting.shared_cache import ENTRY_BYTES_MAX
from tests.harness.pipeline import StillEffects


class HeldCache:
    """Entries with the times at which they go. While `holding`, what is put is `held`, and comes
    when it is released: late. `fails` and `takes_ms` are those of the next calls.
    """

    def __init__(self, effects: StillEffects) -> None:
        self.effects = effects
        self.entries: dict[str, tuple[bytes, int]] = {}
        self.calls: list[str] = []
        self.holding = self.fails = False
        self.held: list[Callable[[], None]] = []
        self.takes_ms = 0
        self.wait_ms = 200

    def get(self, names: Sequence[str]) -> list[bytes | None]:
        self._call("get")
        now = self.effects.now()
        found = [self.entries.get(name, (b"", 0)) for name in names]
        return [entry[:ENTRY_BYTES_MAX] if now < until else None for entry, until in found]

    def put(self, entries: Mapping[str, bytes], kept_ms: int) -> None:
        self._call("put")
        assert kept_ms >= 1
        assert all(len(entry) <= ENTRY_BYTES_MAX for entry in entries.values())

        def come() -> None:
            until = self.effects.now() + kept_ms
            self.entries |= {name: (entry, until) for name, entry in entries.items()}

        if self.holding:
            self.held.append(come)
        else:
            come()

    def release(self) -> None:
        """Let what is held come."""
        while self.held:
            self.held.pop()()

    def _call(self, verb: str) -> None:
        self.calls.append(verb)
        self.effects.pass_by(self.takes_ms)
        if self.fails:
            raise Unknown("the shared cache: ConnectionError")
