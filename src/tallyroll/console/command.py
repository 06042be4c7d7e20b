"""`tallyroll console`: serves the page. It gives its exit status."""

from __future__ import annotations

import secrets
from contextlib import suppress
from ipaddress import ip_address
from typing import Annotated

from cyclopts import Parameter

from tallyroll.cli.arguments import Run, up_to
from tallyroll.console.answers import Answers
from tallyroll.console.server import ConsoleServer
from tallyroll.errors import UsageError

PORT = 8790


def console(
    *,
    port: Annotated[int | None, up_to(65_535)] = None,
    address: Annotated[str, Parameter(metavar="IP")] = "127.0.0.1",
    run: Run,
) -> int:
    """Show a pipeline live, in a browser.

    Serves one page until Ctrl-C, and prints its address. The page shows the largest
    keys and their rates, finds keys, events and dead letters, shows each window's
    life, and what the doctor finds. It only reads, and tells what that takes.

    On another address than this machine's own, the page's address has a token: who
    has it, reads everything. Nothing is encrypted: prefer an SSH tunnel.

    For example:
      tallyroll --name votes console

    :param port: listen on this port; 8790 if left out, or a free one if it is taken
    :param address: listen on this IP address (127.0.0.1)
    """
    routes, ports = Answers.of(run).routes, (PORT, 0) if port is None else (port,)
    try:
        token = "" if ip_address(address).is_loopback else secrets.token_urlsafe()
        made = ConsoleServer.at(address, ports, routes, token)
    except (OSError, ValueError) as error:
        raise UsageError(f"it cannot listen on this IP address and port: {error}") from None
    with made as server, suppress(KeyboardInterrupt):
        run.screen.line({"url": server.url}, f"console of {run.settings.name}: {server.url}")
        run.screen.flush()
        server.serve_forever()
    return 0
