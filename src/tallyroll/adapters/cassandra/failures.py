"""The driver's errors as the core's."""

from __future__ import annotations

from cassandra import (
    AuthenticationFailed,
    DriverException,
    InvalidRequest,
    RequestValidationException,
    Unavailable,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.protocol import (
    BadCredentials,
    ErrorMessage,
    IsBootstrappingErrorMessage,
    OverloadedErrorMessage,
)
from cassandra.protocol import RequestValidationException as InvalidMessage

from tallyroll.errors import Refused, StoreError, Throttled, Unknown

DRIVER_ERRORS = (DriverException, ErrorMessage, NoHostAvailable, ConnectionException, OSError)
RETRIED = (Throttled, Unknown)
_CONDITION = " IF "
_LOAD = (OverloadedErrorMessage, IsBootstrappingErrorMessage)
_FOR_GOOD = (RequestValidationException, InvalidMessage, AuthenticationFailed, BadCredentials)


def is_invalid(error: Exception) -> bool:
    """Whether the server found that a statement does not fit the schema."""
    return isinstance(error, InvalidRequest)


def is_for_good(error: Exception) -> bool:
    """Whether the server refused a statement for what it is, and not for its own state."""
    return isinstance(error, _FOR_GOOD)


def translated(error: Exception, text: str, place: str) -> StoreError:
    """The core's error for one of the driver's, when a statement was sent to a place.

    A conditional write that timed out may have been accepted by some replicas, also when the reason
    was contention: the next writer to that partition then completes it. So it is Unknown, never
    Throttled. Too few replicas may be found in any of its rounds, so that is Unknown, too.
    """
    said = f"{text.partition(' ')[0]} on {place}: {error}"
    return _kind(error, conditional=_CONDITION in text)(said, type(error).__name__)


def _kind(error: Exception, *, conditional: bool) -> type[StoreError]:
    if isinstance(error, NoHostAvailable):
        return _of_hosts(error)
    if isinstance(error, _LOAD) or (isinstance(error, Unavailable) and not conditional):
        return Throttled
    return Refused if is_for_good(error) else Unknown


def _of_hosts(error: NoHostAvailable) -> type[StoreError]:
    """Refused if each host refused it for good; else some host may have done it."""
    causes = list(error.errors.values()) if isinstance(error.errors, dict) else []
    refused = causes and all(map(is_for_good, causes))
    return Refused if refused else Unknown
