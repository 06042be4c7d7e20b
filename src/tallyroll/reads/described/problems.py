"""The types of problems that the HTTP API answers with (RFC 9457), each with its cause and remedy.

A type never changes its meaning, status or title. Clients go by the type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tallyroll.errors import Absent, Archived, StoreError, UsageError
from tallyroll.model.formats.payloads import DAMAGED
from tallyroll.reads.ranges.cursors import NO_SECRET
from tallyroll.reads.ranges.dated import archives_json

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:tallyroll:problem-type:"


class ProblemType(NamedTuple):
    """A type of problems: its name, which follows `PREFIX` in `type`; the status and the title,
    which is the same for all types of a status; why it occurs, and what helps.
    """

    name: str
    status: int
    title: str
    cause: str
    remedy: str

    @property
    def uri(self) -> str:
        """The member `type` of a problem."""
        return PREFIX + self.name


BAD_REQUEST = ProblemType(
    "bad-request",
    400,
    "Bad request",
    "a parameter is missing, unknown, or wrong",
    "change the request; `detail` names the parameter and what it may be",
)
ABSENT = ProblemType(
    "absent",
    404,
    "Not found",
    "there is no such window, or no such event; a new pipeline has no windows for a minute",
    "check key, id and time",
)
UNKNOWN_PATH = ProblemType(
    "unknown-path",
    404,
    "Not found",
    "the API has no such path",
    "`detail` lists the paths",
)
METHOD_NOT_ALLOWED = ProblemType(
    "method-not-allowed",
    405,
    "Method not allowed",
    "the path is known, and the method is not GET",
    "send a method that the header `Allow` names",
)
ARCHIVED = ProblemType(
    "archived",
    410,
    "Archived",
    "the window's table is dropped",
    "read the archive under `archive`, or ask with `archived=true`; of a range, `archives` lists"
    " its dropped windows, and `since` is from when on none is",
)
INTERNAL = ProblemType(
    "internal-error",
    500,
    "Internal error",
    "the function failed",
    "see the function's log",
)
DAMAGED_PAYLOAD = ProblemType(
    "damaged-payload",
    500,
    "Internal error",
    "a part of a payload is missing or changed",
    "`detail` names the event; its archive may have the payload",
)
NOT_READY = ProblemType(
    "not-ready",
    503,
    "Store unavailable",
    "the roller has not made the secret that signs cursors",
    "repeat the request after a minute",
)
UNAVAILABLE = ProblemType(
    "store-unavailable",
    503,
    "Store unavailable",
    "a read failed or was throttled",
    "repeat the request",
)

PROBLEMS = (
    *(BAD_REQUEST, ABSENT, UNKNOWN_PATH, METHOD_NOT_ALLOWED, ARCHIVED),
    *(INTERNAL, DAMAGED_PAYLOAD, NOT_READY, UNAVAILABLE),
)


def problem_of(error: Exception) -> tuple[ProblemType, str, Mapping[str, Any]]:
    """The type of the problem that an error is, its `detail`, and its further members.

    What is not the caller's to know stays in the log.
    """
    if isinstance(error, UsageError):
        return BAD_REQUEST, str(error), {}
    if isinstance(error, Absent):
        return ABSENT, str(error), {}
    if isinstance(error, Archived):
        return ARCHIVED, str(error), _archived_json(error)
    if isinstance(error, StoreError) and error.code == DAMAGED:
        return DAMAGED_PAYLOAD, str(error), {}
    if isinstance(error, StoreError) and error.code == NO_SECRET:
        return NOT_READY, str(error), {}
    if isinstance(error, StoreError):
        return UNAVAILABLE, "a read failed: try again", {}
    return INTERNAL, "see the function's log", {}


def _archived_json(error: Archived) -> dict[str, Any]:
    more: dict[str, Any] = {"archive": error.prefix}
    if error.archives:
        more["archives"] = archives_json(error.archives)
    if error.since:
        more["since"] = error.since
    return more
