"""Handlers for the sandbox's tests; sandboxes find them by PYTHONPATH. What they print is a log."""

# ruff: noqa: T201

from __future__ import annotations

import os
import sys
import time
from typing import Any


def echo(event: Any, context: Any) -> Any:
    print("printed")
    print("complained", file=sys.stderr)
    return {
        "event": event,
        "pid": os.getpid(),
        "request_id": context.aws_request_id,
        "remaining_ms": context.get_remaining_time_in_millis(),
        "name": context.function_name,
        "arn": context.invoked_function_arn,
        "memory": context.memory_limit_in_mb,
        "log_group": context.log_group_name,
        "stdin": sys.stdin.read(),
        "setting": os.environ.get("TALLYROLL_NAME"),
    }


def fail(event: Any, context: Any) -> Any:
    if event != "well":
        raise LookupError(f"no {event}")
    return os.getpid()


def sleep(event: Any, context: Any) -> Any:
    print(f"sleeping {event}", flush=True)
    time.sleep(event)
    return os.getpid()


def spin(event: Any, context: Any) -> Any:
    print(f"spinning {os.getpid()}", flush=True)
    while True:
        pass


def die(event: Any, context: Any) -> Any:
    os._exit(3)


def unserialisable(event: Any, context: Any) -> Any:
    return object()
