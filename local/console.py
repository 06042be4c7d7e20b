"""The console beside a pipeline on this machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from local.aws.embedded import Embedded
from tallyroll.cli.arguments import Run
from tallyroll.console.answers import Answers
from tallyroll.console.server import ConsoleServer

LOOPBACK, PORT_MAX = "127.0.0.1", 65_536


@contextmanager
def console_of(aws: Embedded, port: int = 0) -> Iterator[str]:
    """Serve the console on loopback while the block lasts, at this port if it is free; its address.

    Sets this process's environment to that of the embedded AWS.
    """
    os.environ.update(aws.environment)
    with Run.connecting(None, as_json=False) as run:
        routes = Answers.of(run).routes
    with ConsoleServer.at(LOOPBACK, (port % PORT_MAX, 0), routes) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()
