"""The one way to AWS: every call goes through a `Caller`, with a literal operation name.

botocore's own retries are off, so ours are the only ones, and metrics show each attempt. Fault
injection, metrics and the IAM test rely on the operation's name being a literal at every call site.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import boto3
import botocore
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError

from tallyroll.adapters.aws import lean_model
from tallyroll.errors import Missing, Refused, StoreError, Throttled, Unknown
from tallyroll.ports.backoff import REQUEST, Backoff
from tallyroll.ports.effects import Effects

T = TypeVar("T")

Observe = Callable[[str, float, str | None], None]
"""Called after every attempt: operation, duration in ms, and the error's code or None."""

CONNECT_TIMEOUT_S = 1
READ_TIMEOUT_S = 5
CONNECTIONS_MAX = 256  # settings allow one process at most this many threads

HTTP_NOT_FOUND = 404
HTTP_TOO_MANY_REQUESTS = 429
HTTP_SERVER_ERROR = 500

# Refused because of load or of too many concurrent operations. Sources: the error lists of the
# DynamoDB, SQS, S3 and CloudWatch API references; AWS SDK reference guide, "Retry behavior".
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
_LOST = (  # no reply, or an incomplete one
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
        "NotFoundException",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
        "TableNotFoundException",
    }
)


_making = Lock()  # sessions are not thread-safe, clients are


def make_client(service: str, **where: str) -> Any:
    """A boto3 client of `service`, from the process's one session.

    Region, endpoint and credentials come from the usual AWS environment (AWS_ENDPOINT_URL,
    AWS_ENDPOINT_URL_DYNAMODB ...), unless `where` has them (`endpoint_url`, `region_name` ...).
    """
    with _making:
        return _make_client(service, **where)


def _make_client(service: str, **where: str) -> Any:
    config = Config(
        # Exactly one attempt, whatever AWS_MAX_ATTEMPTS says (`max_attempts` would count retries).
        retries={"total_max_attempts": 1, "mode": "standard"},
        parameter_validation=False,
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=CONNECTIONS_MAX,
        tcp_keepalive=True,
        # botocore would build its long default anew, letter by letter, for every request.
        user_agent=f"Boto3/{boto3.__version__} Botocore/{botocore.__version__} tallyroll",
    )
    client = _session().client(service, config=config, **where)
    if service == "dynamodb":
        lean_model.prepare(client)
    return client


def identity_found() -> bool:
    """Whether the AWS environment has credentials."""
    return _session().get_credentials() is not None


def region_found() -> bool:
    """Whether the AWS environment has a region."""
    return bool(_session().region_name)


def region() -> str:
    """The region of the AWS environment; "" if it has none."""
    return _session().region_name or ""


@cache
def _session() -> Any:
    # The AWS CLI prefers AWS_REGION; boto3 reads only AWS_DEFAULT_REGION.
    return boto3.session.Session(
        botocore_session=lean_model.lean_session(), region_name=os.environ.get("AWS_REGION") or None
    )


def _begin_anew() -> None:
    """In a child after a fork: a thread that it does not have may hold a lock of the session."""
    global _making  # noqa: PLW0603
    _making = Lock()
    _session.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


class LateClient:
    """A client made at its first call, so that unused services cost no start time."""

    def __init__(self, service: str, region: str | None = None) -> None:
        self._service = service
        self._where = {"region_name": region} if region else {}
        self._client: Any = None

    def __getattr__(self, method: str) -> Any:
        return getattr(self._client or self._made(), method)

    def _made(self) -> Any:
        with _making:
            if self._client is None:
                self._client = _make_client(self._service, **self._where)
            return self._client


class Caller:
    """Calls the operations of one AWS service and raises its errors as the core's."""

    def __init__(self, client: Any, effects: Effects, observe: Observe | None = None) -> None:
        self._client = client
        self._effects = effects
        self._observe = observe

    def call(self, operation: str, /, **params: Any) -> dict[str, Any]:
        """One attempt of an operation, named as AWS names it ("TransactWriteItems").

        Raises Throttled, Unknown, Missing or Refused; `response_of` gives the error response.
        """
        started = self._effects.now()
        code: str | None = None
        try:
            with translated(operation, params.get("TableName", "")):
                reply: dict[str, Any] = getattr(self._client, xform_name(operation))(**params)
                return reply
        except StoreError as error:
            code = error.code
            raise
        finally:
            if self._observe:
                self._observe(operation, float(self._effects.now() - started), code)

    def read(self, operation: str, /, **params: Any) -> dict[str, Any]:
        """`call`, tried up to 4 times while Throttled or Unknown: for what may be repeated."""
        return retried(self._effects, REQUEST, lambda: self.call(operation, **params))


def retried(
    effects: Effects,
    backoff: Backoff,
    attempt: Callable[[], T],
    passing: Callable[[Refused], bool] = lambda _: False,
) -> T:
    """The result of `attempt`, tried again while it is Throttled, Unknown or a `passing` refusal.

    Raises the last error of all tries; a passing refusal becomes Throttled.
    """
    last: StoreError | None = None
    for _ in backoff.attempts(effects):
        try:
            return attempt()
        except (Throttled, Unknown) as error:
            last = error
        except Refused as error:
            if not passing(error):
                raise
            last = Throttled(str(error), error.code)
    raise last or Throttled("never tried")


@contextmanager
def translated(operation: str, table: str = "") -> Iterator[None]:
    """Raise botocore's errors as the core's; wraps calls and the reading of bodies. What is missing
    is named with its table.
    """
    try:
        yield
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        raise _translate(operation, table, error) from error


def response_of(error: StoreError) -> Mapping[str, Any]:
    """The service's parsed error response; empty if there was none."""
    cause = error.__cause__
    return cause.response if isinstance(cause, ClientError) else {}


def _translate(operation: str, table: str, error: Exception) -> StoreError:
    if not isinstance(error, ClientError):
        code = type(error).__name__
        kind = Unknown if isinstance(error, _LOST) else Refused
        return kind(f"{operation}: {code}: {error}", code)
    response: Mapping[str, Any] = error.response
    details = response.get("Error", {})
    code = details.get("Code", "")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    # The spelling depends on the exception.
    throttling = response.get("ThrottlingReasons") or response.get("throttlingReasons") or ()
    reasons = [reason.get("reason", "") for reason in throttling]
    error_of = _kind(code, status)
    of = f" of table {table}" if table and error_of is Missing else ""
    message = f"{operation}{of}: {code}: {details.get('Message', '')}"
    if reasons:
        message += f" ({', '.join(reasons)})"
    return error_of(message, code)


def is_throttle(code: str) -> bool:
    """Whether an error's code says that the service refused for load."""
    # KMS names its codes "KMS.ThrottlingException" in the replies of SQS.
    name = code.rpartition(".")[2]
    return name in _THROTTLED or name.startswith("Throttl")


def _kind(code: str, status: int) -> type[StoreError]:
    if is_throttle(code) or status == HTTP_TOO_MANY_REQUESTS:
        return Throttled
    if code in _UNKNOWN or status >= HTTP_SERVER_ERROR:
        return Unknown
    if code in _MISSING or status == HTTP_NOT_FOUND:
        return Missing
    return Refused
