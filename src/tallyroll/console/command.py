"""`tallyroll console`: serves the page. It gives its exit status."""

from __future__ import annotations

import secrets
from errno import EADDRINUSE
from ipaddress import ip_address
from typing import Annotated

from cyclopts import Parameter

from tallyroll.cli.arguments import Run, up_to
from tallyroll.console.answers import Answers
from tallyroll.console.server import ConsoleServer
from tallyroll.errors import UsageError

PORT = 8790
LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 24


def console(
    *,
    port: Annotated[int | None, up_to(65_535)] = None,
    address: Annotated[str, Parameter(metavar="IP")] = LOOPBACK,
    run: Run,
) -> int:
    """Show a pipeline live, in a browser.

    Serves one page until Ctrl-C, and prints its address: the largest keys, events a
    second, any key, event or dead letter, the life of each window, and the health of
    the pipeline. It only reads; the page tells what that costs.

    On another address than this machine's own, the printed address has a token: who
    has it, reads all counts and events. Nothing is encrypted; an SSH tunnel to a
    console on this machine's own address is safer.

    For example:
      tallyroll --name votes console

    :param port: listen on this port; 8790 if left out, or any free one if it is taken
    :param address: listen on this IP address (127.0.0.1)
    """
    try:
        loopback = ip_address(address).is_loopback
    except ValueError:
        raise UsageError(f"--address {address!r}: give an IP address, such as 0.0.0.0") from None
    answers = Answers.of(run)
    token = "" if loopback else secrets.token_urlsafe(TOKEN_BYTES)
    with _listening(address, port, answers, token) as server:
        run.screen.line({"url": server.url}, f"console of {run.settings.name}: {server.url}")
        run.screen.flush()
        server.serve_forever()
    return 0


def _listening(address: str, port: int | None, answers: Answers, token: str) -> ConsoleServer:
    for number in (PORT, 0) if port is None else (port,):
        try:
            return ConsoleServer(address, number, answers.routes, token)
        except OSError as error:
            if port is not None or error.errno != EADDRINUSE:
                raise UsageError(f"{address} port {number}: {error.strerror}") from None
    raise AssertionError
