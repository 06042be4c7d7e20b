"""The gate between functions and engines: it answers what AWS would refuse."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.strict.roles import Role
from tests.strict.rules import questions
from tests.strict.values import READINGS, Account, Question, Reading, Refusal, Request, after

Asked = tuple[str, Reading, Question]
NOT_ALLOWED = {  # the status and code of an answer without permission
    "dynamodb": (400, "AccessDeniedException"),
    "monitoring": (400, "AccessDeniedException"),
    "s3": (403, "AccessDenied"),
    "sqs": (400, "AccessDeniedException"),
}
KEY_NOT_ALLOWED = {**NOT_ALLOWED, "sqs": (400, "KmsAccessDenied")}


@dataclass
class Gate:
    """Lets a function's request pass if its role allows it under every reading.

    Attributes:
        asked: All questions so far: by which function, and under which reading.
        refused: All refusals so far, each with the function.
    """

    roles: Mapping[str, Role]
    account: Account = field(default_factory=Account)
    readings: Sequence[Reading] = READINGS
    asked: set[Asked] = field(default_factory=set)
    refused: list[tuple[str, Refusal]] = field(default_factory=list)
    _known: dict[tuple[str, Question], bool] = field(default_factory=dict)

    def judge(self, function: str, request: Request) -> Refusal | None:
        """The answer to a function's request if it may not pass."""
        for reading in self.readings:
            for asked in questions(request, self.account, reading):
                self.asked.add((function, reading, asked))
                if not self._may(function, asked):
                    refusal = _refusal(function, request, asked, reading)
                    self.refused.append((function, refusal))
                    return refusal
        return None

    def done(self, request: Request) -> None:
        """Note that a request was carried out."""
        self.account = after(self.account, request)

    def _may(self, function: str, asked: Question) -> bool:
        one = (function, asked)
        if one not in self._known:
            self._known[one] = self.roles[function].may(asked)
        return self._known[one]


def _refusal(function: str, request: Request, asked: Question, reading: Reading) -> Refusal:
    on_key = asked.action.startswith("kms:")
    status, code = (KEY_NOT_ALLOWED if on_key else NOT_ALLOWED)[request.service]
    said = "KMS key access denied error: " if on_key else ""
    message = (
        f"{said}User: arn:aws:sts::123456789012:assumed-role/{function} is not authorized to"
        f" perform: {asked.action} on resource: {asked.resource} ({reading}; {asked.context})"
    )
    return Refusal(status, code, message)


def body_of(refusal: Refusal, service: str) -> bytes:
    """A refusal as the service says it on the wire."""
    if service == "s3":
        inner = f"<Code>{refusal.code}</Code><Message>{refusal.message}</Message>"
        return f"<?xml version='1.0'?><Error>{inner}</Error>".encode()
    said = {"__type": f"com.amazonaws.{service}#{refusal.code}", "message": refusal.message}
    return json.dumps(said).encode()
