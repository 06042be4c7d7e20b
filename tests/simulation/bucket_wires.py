"""What lies between a function and its bucket."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from random import Random

from tests.simulation.wires import EXPORT_DIR, LAGGARD_MS_MAX, Wire


class BucketWire(Wire):
    """The bucket; a stream may break off, a listing may fail, an object may come out mangled."""

    name: str
    writes = frozenset()  # `laggard` is what makes these late

    def put_once(self, key: str, body: bytes) -> bytes:
        """Write an object unless one stands: perhaps much later, perhaps another one, or none."""
        mangled = self._mangled(key, body)
        if mangled is None:
            return body
        stands: bytes = self._call(
            f"put_once {_name(key)}", lambda: self._port.put_once(key, mangled)
        )
        return body if stands == mangled else stands

    def put_part(self, key: str, upload: str, number: int, body: bytes) -> str:
        """Write a part of a data file, perhaps another one."""
        mangled = self._mangled(key, body) or b""
        receipt: str = self._call(
            f"put_part {_name(key)}", lambda: self._port.put_part(key, upload, number, mangled)
        )
        return receipt

    def complete_upload(self, key: str, upload: str, receipts: Sequence[str]) -> None:
        """Make an object of its parts, or none."""
        if self._mangled(key, b".") is None:
            self._port.abort_upload(key, upload)
            return
        self._call(
            f"complete_upload {_name(key)}",
            lambda: self._port.complete_upload(key, upload, receipts),
        )

    def _mangled(self, key: str, body: bytes) -> bytes | None:
        world = self._world
        if EXPORT_DIR not in key:
            return body
        if world.roll(world.weather.laggard):
            world.current.stalled = True
            world.pause(60_000 + world.random.random() ** 2 * LAGGARD_MS_MAX)
            world.current.stalled = False
        return _mangled(key, body, world.random) if world.roll(world.weather.mangled) else body

    def list(self, prefix: str, after: str = "") -> Iterable[str]:
        """The keys under a prefix, after one."""
        keys: Iterable[str] = self._call("list", lambda: self._port.list(prefix, after))
        return keys


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _mangled(key: str, body: bytes, chance: Random) -> bytes | None:
    """What stands in the bucket instead: nothing, half of it, another byte, or a wrong count."""
    kind, at = chance.random(), int(chance.random() * len(body))
    if kind < 0.2:
        return None
    if kind < 0.4 or key.endswith(".gz"):
        return body[:at] + (b"" if kind < 0.7 else bytes([body[at] ^ 1]) + body[at + 1 :])
    if key.endswith("manifest-files.json"):
        lines = body.splitlines(keepends=True)
        return b"".join(lines[:-1] if kind < 0.7 else [*lines, *lines[-1:]])
    summary = json.loads(body)
    summary["itemCount"] += int(chance.random() * 4) - 2
    return json.dumps(summary).encode()
