"""The real handlers, loaded and invoked apart from everything of the same name in the test's
process.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib.abc import InspectLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any
from unittest.mock import patch
from zipfile import BadZipFile, ZipFile

import aws_lambda_powertools

from tallyroll.testing.errors import TestingError

_PACKAGE = Path(__file__).parents[1]
_CLONE = _PACKAGE.parents[1]
_ASSET = _PACKAGE / "cdk" / "asset" / "functions.zip"
Handler = Callable[[dict[str, Any], Any], Any]
_TIME_LEFT_MS = {"writer": 60_000, "roller": 60_000, "cleanup": 900_000, "dropper": 300_000}


@dataclass(frozen=True)
class Context:
    """The Lambda context of an invocation that has all its time, since virtual time stands still
    while a handler works.
    """

    function_name: str
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:tallyroll-test"
    aws_request_id: str = "00000000-0000-4000-8000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        """The time left for the invocation, ms."""
        return _TIME_LEFT_MS[self.function_name]


def invoke(function: str, use_case: object, event: dict[str, Any]) -> Any:
    """The answer of a function (`writer`, `roller`, `cleanup`, `dropper`) that works with this
    `use_case`. The metrics that it prints are left out.
    """
    module: Any = _loaded(function)
    with patch.object(module, "use_case", lambda: use_case), redirect_stdout(io.StringIO()):
        return module.handler(event, Context(function))


@cache
def _loaded(function: str) -> ModuleType:
    """A function's handler, as a module that nothing else in this process knows."""
    loader = _Text(*_source(function))
    spec = spec_from_loader(f"_tallyroll_testing_{function}", loader)
    assert spec
    module = module_from_spec(spec)
    with _plain_logging():
        loader.exec_module(module)
    # Powertools keeps the metrics of all objects in one place per process: the test's own would be
    # printed and cleared with these.
    provider = module.metrics.provider
    provider.metric_set, provider.dimension_set = {}, {}
    provider.metadata_set, provider.default_dimensions = {}, {}
    return module


@contextmanager
def _plain_logging() -> Iterator[None]:
    """Let handlers log as modules do, below `tallyroll`: pytest then shows it with a failed test.

    A Logger of Powertools would share its name with one of the test's own, and keep the stdout of
    the test in which it was made.
    """

    with patch.object(aws_lambda_powertools, "Logger", _PlainLogger):
        yield


class _PlainLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger of this process, with what handlers use of one of Powertools."""

    def __init__(self, service: str) -> None:
        super().__init__(logging.getLogger(f"tallyroll.{service}"))

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Leave a message and its `extra` as they are."""
        return msg, kwargs

    def inject_lambda_context(self, handler: Handler) -> Handler:
        """The handler itself: the test's own log needs no request id."""
        return handler


class _Text(InspectLoader):
    """Loads a module from its text."""

    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self._path = path

    def get_source(self, fullname: str) -> str:  # noqa: ARG002  (importlib's)
        """The text."""
        return self._text

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  (importlib's)
        """The code, which tracebacks show with its file."""
        return self.source_to_code(self._text, self._path)


def _source(function: str) -> tuple[str, str]:
    """The text of a function's handler, and where it is: in a clone in its folder, in an installed
    package in the prebuilt asset. Raises TestingError if neither is there.
    """
    name = f"functions/{function}/handler.py"
    if (file := _CLONE / name).is_file():
        return file.read_text(encoding="utf-8"), str(file)
    try:
        with ZipFile(_ASSET) as asset:
            return asset.read(name).decode(), f"{_ASSET}/{name}"
    except (OSError, KeyError, BadZipFile):
        raise TestingError(
            f"the handlers are not there: neither {_CLONE} is a clone of the repository, nor was"
            f" this package installed with the functions' asset ({_ASSET}). Install a wheel that"
            " `make dist` built, or a clone (`pip install -e .`)"
        ) from None
