"""What the store gives a client that only sends: the writer's own requests again, on a pipeline
beside it.
"""

from __future__ import annotations

import http.client
import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import local
from urllib.parse import urlsplit
from uuid import uuid4

from benchmarks.peers.wire import OK

THREADS = 16
TRIES = 20
_TOKEN = re.compile(rb'"ClientRequestToken": "[^"]{36}"')


def replayed(
    requests: Sequence[tuple[dict[str, str], bytes]], name: str, other: str, events: int
) -> float:
    """Events per second if these transactions of the pipeline `name` are sent to `other`, whose
    name has as many letters, by bare HTTP connections.

    DynamoDB Local does not check their signatures. Raises RuntimeError if one fails.
    """
    if len(name) != len(other):
        raise ValueError(f"{name!r} and {other!r} must have as many letters")
    where = urlsplit(os.environ["AWS_ENDPOINT_URL_DYNAMODB"])
    own, opened = local(), []

    def send(request: tuple[dict[str, str], bytes]) -> None:
        headers, body = request
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPConnection(where.hostname or "", where.port)
            opened.append(own.connection)
        text = b""
        for _ in range(TRIES):  # another transaction may be under way on a gate or a tally
            own.connection.request("POST", "/", _with_new_token(body), headers)
            reply = own.connection.getresponse()
            text = reply.read()
            if reply.status == OK:
                return
        raise RuntimeError(f"a transaction failed {TRIES} times: {text[:1_000]!r}")

    ready = [(headers, body.replace(name.encode(), other.encode())) for headers, body in requests]
    began = time.perf_counter()
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(send, ready))
        return events / (time.perf_counter() - began)
    finally:
        for connection in opened:
            connection.close()


def _with_new_token(body: bytes) -> bytes:
    """The request with a token of its own: DynamoDB remembers tokens for ten minutes."""
    return _TOKEN.sub(f'"ClientRequestToken": "{uuid4()}"'.encode(), body)
