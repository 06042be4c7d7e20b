"""A DynamoDB client whose replies a test chooses: what no emulator ever answers."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSResponse, HeadersDict
from botocore.exceptions import ReadTimeoutError
from botocore.parsers import create_parser

from tallyroll.adapters.aws.client import Caller, make_client
from tests.contract.engines import SteadyEffects

if TYPE_CHECKING:
    from botocore.model import OperationModel

Reply = tuple[int, dict[str, Any]]
"""An HTTP status and the JSON that comes with it."""


class Faults:
    """A DynamoDB client of moto before which replies can be put: each call takes the next, if any.

    A reply is an exception to raise, a (status, JSON) pair to give, None to let the call pass, or
    LOST to let it pass and lose its answer.
    """

    LOST = "lost"

    def __init__(self) -> None:
        self.effects = SteadyEffects()
        self.seen: list[tuple[str, str | None]] = []
        self.client = make_client("dynamodb")
        self.caller = Caller(
            self.client,
            self.effects,
            lambda operation, _, code: self.seen.append((operation, code)),
        )
        self._next: deque[Any] = deque()
        self._armed = False
        # What is given before a call is not sent; a before-send hook would not keep moto out.
        self.client.meta.events.register("before-call.dynamodb", self._before_call)
        self.client.meta.events.register("after-call.dynamodb", self._after_call)

    def put(self, *replies: Any) -> None:
        """Put replies before the next calls."""
        self._next.extend(replies)

    def _before_call(
        self, model: OperationModel, **_: Any
    ) -> tuple[AWSResponse, dict[str, Any]] | None:
        reply = self._next.popleft() if self._next else None
        self._armed = reply is self.LOST
        if isinstance(reply, Exception):
            raise reply
        if not isinstance(reply, tuple):
            return None
        status, body = reply
        raw = {"status_code": status, "headers": {}, "body": json.dumps(body).encode()}
        # Typed as Any: the stubs are narrower than botocore.
        headers: Any = HeadersDict()
        parser: Any = create_parser("json")
        parsed: dict[str, Any] = parser.parse(raw, model.output_shape)
        if status >= 300:  # botocore parses an error a second time, for the fields of its own
            shape: Any = model.service_model.shape_for_error_code(parsed["Error"]["Code"])
            parsed |= parser.parse(raw, shape) if shape else {}
        return AWSResponse("", status, headers, None), parsed

    def _after_call(self, **_: Any) -> None:
        if self._armed:
            self._armed = False
            raise timeout()


def timeout() -> ReadTimeoutError:
    """What botocore raises when no answer comes in time."""
    return ReadTimeoutError(endpoint_url="https://dynamodb")


def error_reply(code: str, status: int = 400, **more: Any) -> Reply:
    """An error as DynamoDB words it, with fields of its own."""
    return status, {"__type": f"com.amazonaws.dynamodb#{code}", "message": "why", **more}


def cancelled_reply(*codes: str) -> Reply:
    """A cancelled transaction with these reasons, one per action."""
    reasons = [{"Code": code, "Message": f"of {code}"} for code in codes]
    return error_reply("TransactionCanceledException", CancellationReasons=reasons)
