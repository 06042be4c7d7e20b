"""What every line of a function's log tells: the request that wrote it, and whether it was a cold
start.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from tests.functions.invocation import Context, Invocations, load

FUNCTIONS = ("writer", "aggregator", "roller", "cleanup", "dropper", "compactor")
REQUESTS = ("3f2b1c9e-0000-4000-8000-000000000001", "3f2b1c9e-0000-4000-8000-000000000002")


class Failing:
    """A use case that fails however it is used."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name}: nothing works")


@contextmanager
def logged(module: ModuleType) -> Iterator[list[dict[str, Any]]]:
    """The lines that a function's logger writes meanwhile."""
    handler, lines = module.logger.registered_handler, io.StringIO()
    before, found = handler.setStream(lines), list[dict[str, Any]]()
    try:
        yield found
    finally:
        handler.setStream(before)
        found += map(json.loads, lines.getvalue().splitlines())


@pytest.mark.filterwarnings("ignore:No application metrics")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_line_names_its_request_and_whether_the_start_was_cold(
    function: str, functions: Invocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = "aws_lambda_powertools.logging.logger"
    monkeypatch.setattr(import_module(logs), "is_cold_start", True)
    module = import_module(f"functions.{function}.handler")

    def use_case() -> Failing:
        module.logger.error("looking for the use case")
        return Failing()

    monkeypatch.setattr(module, "use_case", use_case)
    event = load("aggregator-count.json") if function == "aggregator" else {}
    with logged(module) as lines:
        for request in REQUESTS:
            try:
                module.handler(event, Context(function_name=function, aws_request_id=request))
            except RuntimeError:
                assert function != "aggregator"  # which answers 500
    told = [line for line in lines if line["message"] == "looking for the use case"]
    assert [line["function_request_id"] for line in told] == list(REQUESTS)
    assert [line["cold_start"] for line in told] == [True, False]
    assert {line["function_name"] for line in told} == {function}
    assert {line["service"] for line in told} == {function}
