"""For users' own tests: a whole pipeline in the test's process, inside moto's `mock_aws`.

pytest finds the fixture `tallyroll` by itself (`tallyroll.testing.plugin`). Other test runners use
the context manager that it is made of:

    with running(engine="memory") as tallyroll:
        ...

Nothing is imported before one of the two is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyroll.testing.errors import TestingError
    from tallyroll.testing.fixture import RejectedMessage, RetractedSum, Tallyroll, running
    from tallyroll.testing.options import DEFAULTS

__all__ = ["DEFAULTS", "RejectedMessage", "RetractedSum", "Tallyroll", "TestingError", "running"]

_HOMES = {
    "DEFAULTS": "options",
    "RejectedMessage": "fixture",
    "RetractedSum": "fixture",
    "Tallyroll": "fixture",
    "TestingError": "errors",
    "running": "fixture",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
