"""How far a load has come: a small file, which the same command goes on from.

It has the sources, with what identifies their content, and of each the record up to which the queue
has taken everything; and the limits and the segments by which the load packs, as long as it lasts.
It is replaced as a whole, so it is never torn.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tallyroll.client.packing import FIRST_LIMITS, PacketLimits
from tallyroll.client.sources.places import Copy, Place
from tallyroll.errors import UsageError

VERSION = 1
FIRST_SEGMENT = 100_000


@dataclass(slots=True)
class SourceState:
    """How far one source was loaded: all its records up to number `to`, or all of them (`done`)."""

    size: int
    stamp: str = ""
    digest: str = ""
    to: int = 0
    done: bool = False


@dataclass(slots=True)
class LoadTotals:
    """What earlier runs of the load did, up to the checkpoint. `bad_bytes` is the size of the file
    of bad lines.
    """

    records: int = 0
    events: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    bad_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        """The totals as the file has them."""
        return {
            "records": self.records,
            "events": self.events,
            "bad": dict(self.bad),
            "skipped": dict(self.skipped),
            "bad_bytes": self.bad_bytes,
        }


class Checkpoint:
    """The checkpoint of a load with these `options`, which are anything that JSON has. That of a
    `dry` run is only read.

    Raises UsageError if the file is another load's, or none at all.
    """

    def __init__(self, path: Path, options: Mapping[str, Any], *, dry: bool = False) -> None:
        self.path = path
        self.dry = dry
        self.options = dict(options)
        self.totals = LoadTotals()
        self.resumed = False
        self.packets = PacketLimits()
        self.segment: int | None = None  # of a load that goes on
        self._sources: dict[str, SourceState] = {}
        self._read()

    def _read(self) -> None:
        path = self.path
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            version, options = found["version"], found["options"]
            if version != VERSION:
                raise UsageError(f"checkpoint {path} is of version {version}: this one knows 1")
            totals = found["totals"]
            self.totals = LoadTotals(
                **{**totals, "bad": Counter(totals["bad"]), "skipped": Counter(totals["skipped"])}
            )
            # A file without them is of a release whose limits were the first ones.
            self.packets = PacketLimits(**found.get("packets", asdict(FIRST_LIMITS)))
            self.segment = int(found.get("segment", FIRST_SEGMENT))
            self._sources = {name: SourceState(**each) for name, each in found["sources"].items()}
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"checkpoint {path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(f"{path} is no checkpoint: give another --checkpoint") from None
        for name, value in self.options.items():
            if options.get(name) != value:
                raise UsageError(
                    f"checkpoint {path} is of a load with another {name}: {options.get(name)!r},"
                    f" not {value!r}. Give the same, or remove the file to begin anew"
                )
        self.resumed = True

    def state(self, place: Place, copy: Copy | None = None) -> SourceState:
        """How far a place was loaded. Raises UsageError if it changed since."""
        state = self._sources.get(place.name)
        if state is None:
            state = self._sources[place.name] = SourceState(place.size, place.stamp)
        size = copy.size if copy else place.size
        changed = state.size != size or state.stamp != place.stamp
        if changed or (copy and state.digest and state.digest != copy.digest):
            raise UsageError(
                f"{place.name} changed since it was loaded in part. Give it as it was, or remove"
                f" {self.path} to begin anew: its events without ids then count again"
            )
        if copy:
            state.digest = copy.digest
        return state

    def save(self) -> None:
        """Replace the file. Raises UsageError if it cannot be written."""
        if self.dry:
            return
        content = {
            "version": VERSION,
            "options": self.options,
            "packets": asdict(self.packets),
            "segment": self.segment,
            "totals": self.totals.as_json(),
            "sources": {name: asdict(state) for name, state in self._sources.items()},
        }
        part = self.path.with_name(f"{self.path.name}.part")
        try:
            with part.open("w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except OSError as error:
            raise UsageError(f"checkpoint {self.path}: {error.strerror}") from None

    def remove(self) -> None:
        """Remove the file: everything is loaded."""
        if not self.dry:
            self.path.unlink(missing_ok=True)
