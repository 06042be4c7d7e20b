"""The handler that `cold_start` starts cold: it loads a function part by part, by the clock.

Runs beside the asset, which has nothing else of ours but the functions and the core.
"""

from __future__ import annotations

import importlib
import json
import os
import time


def _clocks() -> tuple[float, float]:
    """CPU seconds of this process, and a clock that its parent reads too."""
    return time.process_time(), time.monotonic()


_at = {"runtime client": _clocks()}  # with the interpreter: both are there by now
for _part, _modules in json.loads(os.environ["COLD_START_PARTS"]).items():
    for _module in _modules:
        importlib.import_module(_module)
    _at[_part] = _clocks()
if _package := os.environ["COLD_START_PACKAGE"]:
    importlib.import_module(f"functions.{_package}.handler").use_case()
else:
    importlib.import_module("boto3").client("dynamodb")
_at["clients"] = _clocks()


def handler(_event: object, _context: object) -> dict[str, tuple[float, float]]:
    """The clocks after each part."""
    return _at
