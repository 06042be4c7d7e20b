"""The one door to AWS: every call passes a `Caller`, with a literal operation name and one attempt.

botocore's own retries are off, so that ours are the only ones and can be seen. Fault injection,
metrics and the IAM test rely on the operation's name being a literal at every call site.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from threading import Lock
from typing import Any

import boto3
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)
from botocore.parsers import ResponseParserError

from tallyroll.errors import Missing, Refused, StoreError, Throttled, Unknown
from tallyroll.ports.effects import Effects, backoff_ms

Observe = Callable[[str, float, str | None], None]
"""Told of every attempt: operation, duration in ms, and the error's code or None."""

CONNECT_TIMEOUT_S = 1
READ_TIMEOUT_S = 5
CONNECTIONS_MAX = 256  # as many threads as settings let one process run at once
READ_TRIES = 4

HTTP_NOT_FOUND = 404
HTTP_TOO_MANY_REQUESTS = 429
HTTP_SERVER_ERROR = 500

# Refused for load or for too many operations at once. Sources: the error lists of the DynamoDB,
# SQS, S3 and CloudWatch API references, and the AWS SDK reference guide, "Retry behavior".
_THROTTLED = frozenset(
    {
        "BandwidthLimitExceeded",
        "KmsThrottled",
        "LimitExceededException",
        "OverLimit",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "TooManyRequestsException",
    }
)
_UNKNOWN = frozenset({"InternalError", "InternalFailure", "InternalServerError", "RequestTimeout"})
_LOST = (  # no reply, or one that did not arrive whole
    BotoConnectionError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    ResponseParserError,
)
_MISSING = frozenset(
    {
        "AWS.SimpleQueueService.NonExistentQueue",
        "ExportNotFoundException",
        "NoSuchBucket",
        "NoSuchKey",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
        "TableNotFoundException",
    }
)


_making = Lock()


def make_client(service: str) -> Any:
    """A boto3 client of `service`, from the one session of this process.

    Region, endpoint and credentials come from the usual AWS environment (AWS_ENDPOINT_URL,
    AWS_ENDPOINT_URL_DYNAMODB ...).
    """
    config = Config(
        # Exactly one attempt, whatever AWS_MAX_ATTEMPTS says (`max_attempts` would count retries).
        retries={"total_max_attempts": 1, "mode": "standard"},
        parameter_validation=False,
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=CONNECTIONS_MAX,
        tcp_keepalive=True,
    )
    with _making:  # sessions are not safe for threads, the clients are
        return _session().client(service, config=config)


@cache
def _session() -> Any:
    # AWS's own command prefers AWS_REGION; boto3 reads only AWS_DEFAULT_REGION.
    return boto3.session.Session(region_name=os.environ.get("AWS_REGION") or None)


class LateClient:
    """A client made at its first call: what a function never calls costs its start nothing."""

    def __init__(self, service: str) -> None:
        self._service = service

    @cached_property
    def _client(self) -> Any:
        return make_client(self._service)

    def __getattr__(self, method: str) -> Any:
        return getattr(self._client, method)


class Caller:
    """Calls the operations of one AWS service and gives their errors in the core's words."""

    def __init__(self, client: Any, effects: Effects, observe: Observe | None = None) -> None:
        self._client = client
        self._effects = effects
        self._observe = observe

    def call(self, operation: str, /, **params: Any) -> dict[str, Any]:
        """One attempt of an operation, named as AWS names it ("TransactWriteItems").

        Raises Throttled, Unknown, Missing or Refused; `response_of` gives what the service said.
        """
        started = self._effects.now()
        code: str | None = None
        try:
            with translated(operation):
                reply: dict[str, Any] = getattr(self._client, xform_name(operation))(**params)
                return reply
        except StoreError as error:
            code = error.code
            raise
        finally:
            if self._observe:
                self._observe(operation, float(self._effects.now() - started), code)

    def read(self, operation: str, /, **params: Any) -> dict[str, Any]:
        """The same for a call that may be repeated: up to 4 tries while Throttled or Unknown."""
        for attempt in range(READ_TRIES - 1):
            try:
                return self.call(operation, **params)
            except (Throttled, Unknown):
                self._effects.sleep(backoff_ms(attempt, self._effects.chance))
        return self.call(operation, **params)


@contextmanager
def translated(operation: str) -> Iterator[None]:
    """Raise botocore's errors as the core's; also after a call, such as while reading a body."""
    try:
        yield
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        raise _translate(operation, error) from error


def response_of(error: StoreError) -> Mapping[str, Any]:
    """The service's error response as botocore parsed it; empty if there was none."""
    cause = error.__cause__
    return cause.response if isinstance(cause, ClientError) else {}


def _translate(operation: str, error: Exception) -> StoreError:
    if not isinstance(error, ClientError):
        code = type(error).__name__
        kind = Unknown if isinstance(error, _LOST) else Refused
        return kind(f"{operation}: {code}: {error}", code)
    response: Mapping[str, Any] = error.response
    said = response.get("Error", {})
    code = said.get("Code", "")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    # DynamoDB's model spells it both ways, by the exception.
    throttling = response.get("ThrottlingReasons") or response.get("throttlingReasons") or ()
    reasons = [reason.get("reason", "") for reason in throttling]
    message = f"{operation}: {code}: {said.get('Message', '')}"
    if reasons:
        message += f" ({', '.join(reasons)})"
    return _kind(code, status)(message, code)


def _kind(code: str, status: int) -> type[StoreError]:
    if code in _THROTTLED or code.startswith("Throttl") or status == HTTP_TOO_MANY_REQUESTS:
        return Throttled
    if code in _UNKNOWN or status >= HTTP_SERVER_ERROR:
        return Unknown
    if code in _MISSING or status == HTTP_NOT_FOUND:
        return Missing
    return Refused
