"""One execution environment as Lambda has them: a process that imports a handler and calls it.

    python -m local.runtime.sandbox functions.writer.handler.handler --replies 7

imports the handler once (the cold start), then takes invocations as JSON lines from stdin,
`{"id": ..., "deadline_ms": ..., "event": ...}`, and answers each on the file descriptor 7 with
`{"response": ...}` or `{"error": {"type", "message", "trace"}}`; before the first, `{"ready":
true}` or the error of the import. Stdout and stderr belong to the handler: they are its log. The
process ends when stdin does, even in the middle of a handler.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

END_OF_LOG = "\0end-of-log"
"""The line added to the log after each invocation, so that the parent knows it has all of it."""

Handler = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Context:
    """The context object that Lambda passes to a Python handler.

    Source: AWS Lambda Developer Guide, "Using the Lambda context object to retrieve Python function
    information".
    """

    aws_request_id: str
    deadline_ms: int
    function_name: str
    memory_limit_in_mb: str
    invoked_function_arn: str
    log_group_name: str
    log_stream_name: str
    function_version: str = "$LATEST"
    identity: None = None
    client_context: None = None

    def get_remaining_time_in_millis(self) -> int:
        """How long the invocation may still take, ms."""
        return max(0, self.deadline_ms - time.time_ns() // 1_000_000)


def load(path: str) -> Handler:
    """The handler at a dotted path, `package.module.name`. Raises what its import raises."""
    module, _, name = path.rpartition(".")
    handler: Handler = getattr(importlib.import_module(module), name)
    return handler


def answer(handler: Handler, invocation: dict[str, Any]) -> str:
    """Call the handler; its response, or its exception, as a JSON line."""
    try:
        response = handler(invocation["event"], _context(invocation))
        return json.dumps({"response": response})
    except Exception as error:  # noqa: BLE001  (whatever a handler raises is its answer)
        return _failure(error)


def _context(invocation: dict[str, Any]) -> Context:
    name = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "function")
    region = os.environ.get("AWS_REGION", "us-east-1")
    return Context(
        aws_request_id=invocation["id"],
        deadline_ms=invocation["deadline_ms"],
        function_name=name,
        memory_limit_in_mb=os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
        invoked_function_arn=f"arn:aws:lambda:{region}:123456789012:function:{name}",
        log_group_name=f"/aws/lambda/{name}",
        log_stream_name=f"{os.getpid()}",
    )


def _failure(error: BaseException) -> str:
    report = {
        "type": type(error).__name__,
        "message": str(error),
        "trace": "".join(traceback.format_exception(error)),
    }
    return json.dumps({"error": report})


def serve(path: str, replies: int) -> None:
    """Load the handler and answer invocations until stdin ends."""
    invocations: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    source = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    threading.Thread(target=_read, args=(source, invocations), daemon=True).start()
    with os.fdopen(replies, "w", encoding="utf-8", buffering=1) as out:
        try:
            handler = load(path)
        except Exception as error:  # noqa: BLE001  (any failure of a cold start is told to the parent)
            out.write(_failure(error) + "\n")
            return
        out.write(json.dumps({"ready": True}) + "\n")
        while True:
            reply = answer(handler, json.loads(invocations.get()))
            sys.stderr.flush()
            print("\n" + END_OF_LOG, flush=True)
            out.write(reply + "\n")


def _read(source: Any, invocations: queue.SimpleQueue[bytes]) -> None:
    """Pass invocations on; at the end of stdin the parent is gone, so end at once."""
    for line in source:
        invocations.put(line)
    os._exit(0)


def main() -> None:
    """Serve one handler."""
    parser = argparse.ArgumentParser(
        prog="python -m local.runtime.sandbox", description=main.__doc__
    )
    parser.add_argument("handler", help="dotted path, such as functions.writer.handler.handler")
    parser.add_argument(
        "--replies", type=int, required=True, help="the file descriptor for replies"
    )
    options = parser.parse_args()
    # Ctrl-C in a terminal reaches the whole process group; the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(options.handler, options.replies)


if __name__ == "__main__":
    main()
