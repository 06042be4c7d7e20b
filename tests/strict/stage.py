"""A pipeline's life in this process: its real handlers, each with the role that the synthesized
template gives it, on moto and DynamoDB Local behind the gate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from tests.faults import wire
from tests.faults.lives import StuckLife
from tests.faults.scenarios import running
from tests.faults.world import BEGIN, World, window_of
from tests.infra.templates import Template
from tests.strict.gate import Gate, body_of
from tests.strict.requests import request_of
from tests.strict.roles import Role, arns_of, keys_of, roles_of
from tests.strict.values import Account

OnSend = Callable[..., AWSResponse]
SERVICE_OF = {"cloudwatch": "monitoring"}
NAME = "tallyroll"  # of the template


@dataclass
class Stage(World):
    """A world whose functions' requests pass the gate; the test's own do not."""

    gate: Gate = field(default_factory=lambda: Gate({}))
    caller: str = ""

    def invoke(self, function: str, event: dict[str, Any]) -> Any | None:
        """A function's answer; None if it failed."""
        with self.called_by(function):
            return super().invoke(function, event)

    def poll(self) -> bool:
        """Have the writer count what the queue gives out. Lambda's pollers receive and delete with
        the writer's role. Source: AWS Lambda Developer Guide, "Creating and configuring an Amazon
        SQS event source mapping".
        """
        with self.called_by("writer"):
            return super().poll()

    @contextmanager
    def called_by(self, function: str) -> Iterator[None]:
        """Within the block, requests are this function's."""
        before, self.caller = self.caller, function
        try:
            yield
        finally:
            self.caller = before

    def on_send(self, behind: OnSend, event: str, request: AWSPreparedRequest, **more: Any) -> Any:
        """Answer a request as the gate does, or as what is behind it."""
        if not self.caller:
            return behind(event, request, **more)
        signed_for = event.split(".")[1]
        service = SERVICE_OF.get(signed_for, signed_for)
        target = request.headers.get("X-Amz-Target")
        body: Any = request.body if target or "tagging" in str(request.url) else None
        tagging = request.headers.get("X-Amz-Tagging")
        lock = request.headers.get("X-Amz-Object-Lock-Mode")
        asked = request_of(service, str(request.method), request.url, target, body, tagging, lock)
        if refusal := self.gate.judge(self.caller, asked):
            return wire.reply(request, refusal.status, body_of(refusal, service))
        answer = behind(event, request, **more)
        if answer.status_code < wire.REFUSED:
            self.gate.done(asked)
        return answer


@contextmanager
def staged(
    endpoint: str,
    template: Template,
    account: Account | None = None,
    changed: Callable[[dict[str, Role]], dict[str, Role]] = dict,
    **settings: Any,
) -> Iterator[Stage]:
    """A pipeline of these settings on the DynamoDB Local at `endpoint`, with the template's roles,
    as far as they are not `changed`.
    """
    with running(endpoint) as (switchboard, patch):
        stage = Stage.made(switchboard, patch, 0, **{"contributor_insights": False, **settings})
        assert isinstance(stage, Stage)
        named = partial(re.sub, rf"\b{NAME}\b", stage.settings.name)
        arns = arns_of(template, stage.settings.bucket, named)
        state = replace(account or Account(), keys=keys_of(template, arns))
        stage.gate = Gate(changed(roles_of(template, arns, named)), state)
        switchboard.engines.exports.restorable = window_of(BEGIN)
        assert switchboard.on_send
        switchboard.on_send = partial(stage.on_send, switchboard.on_send)
        try:
            yield stage
        except StuckLife as stuck:
            stuck.add_note(f"refused: {stage.gate.refused[:3]}")
            raise
