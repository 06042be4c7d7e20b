"""What the store gives a client that only sends, and what a client takes that does by hand what
botocore does: the writer's own transactions again, on a pipeline beside it.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import local
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from benchmarks.peers.wire import OK, Kept

THREADS = 16
TRIES = 20
Request = tuple[dict[str, str], bytes]
"""Headers and body."""

Make = Callable[[], Request]
_TOKEN = "ClientRequestToken"  # noqa: S105  (the name of a member)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What it took to send the transactions of a load: events per second of wall time, and client
    CPU for one event in microseconds.
    """

    per_second: float
    cpu_us: float


def prebuilt(requests: Kept, name: str, other: str, events: int) -> Replayed:
    """Send these transactions of the pipeline `name` to `other`, whose name has as many letters, by
    bare HTTP connections. DynamoDB Local does not check their signatures.
    """
    texts = [(headers, _moved(body, name, other).decode()) for headers, body in requests]
    return _replayed([_prebuilt(headers, body) for headers, body in texts], events)


def by_hand(requests: Kept, name: str, other: str, events: int) -> Replayed:
    """The same, but each transaction is written as JSON, hashed and signed when it is sent."""
    given = [json.loads(_moved(body, name, other)) for _, body in requests]
    return _replayed([_by_hand(params) for params in given], events)


def _moved(body: bytes, name: str, other: str) -> bytes:
    if len(name) != len(other):
        raise ValueError(f"{name!r} and {other!r} must have as many letters")
    return body.replace(name.encode(), other.encode())


def _prebuilt(headers: dict[str, str], body: str) -> Make:
    token = json.loads(body)[_TOKEN]
    return lambda: (headers, body.replace(token, str(uuid4()), 1).encode())


def _by_hand(params: dict[str, Any]) -> Make:
    def make() -> Request:
        # DynamoDB remembers tokens for ten minutes.
        body = json.dumps({**params, _TOKEN: str(uuid4())}).encode()
        return signed(body, datetime.now(UTC)), body

    return make


def signed(body: bytes, now: datetime) -> dict[str, str]:
    """The headers of a transaction, with its signature.

    Source: IAM User Guide, "Create a signed AWS API request".
    """
    where, region = urlsplit(os.environ["AWS_ENDPOINT_URL_DYNAMODB"]), os.environ["AWS_REGION"]
    at, day = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
    headers = {
        "content-type": "application/x-amz-json-1.0",
        "host": where.netloc,
        "x-amz-date": at,
        "x-amz-target": "DynamoDB_20120810.TransactWriteItems",
    }
    names = ";".join(headers)
    listed = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"POST\n/\n\n{listed}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{day}/{region}/dynamodb/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{os.environ['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in (day, region, "dynamodb", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{digest}"
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"{os.environ['AWS_ACCESS_KEY_ID']}/{scope}"
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def _replayed(requests: Sequence[Make], events: int) -> Replayed:
    """Raises RuntimeError if a transaction fails."""
    where = urlsplit(os.environ["AWS_ENDPOINT_URL_DYNAMODB"])
    own, opened = local(), []

    def send(make: Make) -> None:
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPConnection(where.hostname or "", where.port)
            opened.append(own.connection)
        text = b""
        for _ in range(TRIES):  # another transaction may be under way on a gate or a tally
            headers, body = make()
            own.connection.request("POST", "/", body, headers)
            reply = own.connection.getresponse()
            text = reply.read()
            if reply.status == OK:
                return
        raise RuntimeError(f"a transaction failed {TRIES} times: {text[:1_000]!r}")

    wall, cpu = time.perf_counter(), time.process_time()
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(send, requests))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return Replayed(events / wall, cpu / events * 1e6)
    finally:
        for connection in opened:
            connection.close()
