"""Tallyroll: counts what everyone writes at once, exactly once.

Producers post events to a queue; writers spread the records of a hot key over shards and put them
into rolling window tables; a reader gathers the tallies into one exact number; cold tables are
exported, proven complete and dropped.

    Pipeline        one pipeline's use cases, built from its settings
    Producer        packs a service's events and sends them to the event queue
    Reader          reads counts, events and the largest keys
    Settings        every setting of a pipeline
    Event           one event; its amount is in millionths
    VersionedTable  updates items of your own tables, and loses no update
    errors          every error and every reason for a rejection

Each is imported when it is first used: a function that starts cold loads what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyroll import errors
    from tallyroll.locking import VersionedTable
    from tallyroll.model.events import Event
    from tallyroll.pipeline import Pipeline
    from tallyroll.pipeline.producer import Producer
    from tallyroll.pipeline.reading import Reader
    from tallyroll.settings import Settings

__all__ = ["Event", "Pipeline", "Producer", "Reader", "Settings", "VersionedTable", "errors"]
__version__ = "0.1.0"

_HOMES = {
    "Event": "model.events",
    "Pipeline": "pipeline",
    "Producer": "pipeline.producer",
    "Reader": "pipeline.reading",
    "Settings": "settings",
    "VersionedTable": "locking",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("tallyroll.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
