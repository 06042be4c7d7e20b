"""A client of boto3 whose replies are in a script, with AWS's own errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError, EndpointConnectionError

DENIED, THROTTLED, MISSING = (
    "AccessDeniedException",
    "ThrottlingException",
    "ResourceNotFoundException",
)
LOST = "EndpointConnectionError"


def failure(code: str, operation: str, status: int = 400) -> Exception:
    """The error that boto3 raises for a reply with this code; without a reply for LOST."""
    if code == LOST:
        return EndpointConnectionError(endpoint_url=f"https://{operation}")
    reply: Any = {
        "Error": {"Code": code, "Message": "no"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(reply, operation)


class Scripted:
    """Answers each operation with its reply, an error, or one after another of a list of them; the
    last one again and again. `calls` has the operations and their parameters.
    """

    def __init__(self, script: Mapping[str, Any]) -> None:
        self._script = {
            xform_name(name): [*reply] if isinstance(reply, list) else [reply]
            for name, reply in script.items()
        }
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(**parameters: Any) -> Any:
            self.calls.append((method, parameters))
            left = self._script.get(method, [{}])
            reply = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(reply, Exception):
                raise reply
            return reply

        return call
