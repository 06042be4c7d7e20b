"""What moto lacks and the doctor asks for: IAM's simulation of an identity's policies, and
composite alarms, of which moto lacks the operation only.

Source: IAM API Reference, SimulatePrincipalPolicy. Statements with a condition are left out. AWS
refuses some actions together, and no document says which: here CreateTable and any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any


def install() -> None:
    """Let moto's IAM simulate, and its CloudWatch take composite alarms, in this process."""
    # Importing has effects.
    from moto.cloudwatch.responses import CloudWatchResponse  # noqa: PLC0415
    from moto.iam.responses import IamResponse  # noqa: PLC0415

    responses: Any = IamResponse
    responses.simulate_principal_policy = _simulate
    alarms: Any = CloudWatchResponse
    alarms.put_composite_alarm = CloudWatchResponse.put_metric_alarm


def _simulate(self: Any) -> Any:
    from moto.core.responses import ActionResult  # noqa: PLC0415

    actions = self._get_param("ActionNames")
    if len(actions) > 1 and "dynamodb:CreateTable" in actions:
        raise _refusal(actions)
    role = self.backend.get_role_by_arn(self._get_param("PolicySourceArn"))
    # Those of a stack are objects, those of the API texts.
    documents = [json.loads(one) if isinstance(one, str) else one for one in role.policies.values()]
    results = [
        {
            "EvalActionName": action,
            "EvalResourceName": resource,
            "EvalDecision": decision(documents, action, resource),
            "MatchedStatements": [],
            "MissingContextValues": [],
        }
        for action in actions
        for resource in self._get_param("ResourceArns") or ("*",)
    ]
    return ActionResult({"EvaluationResults": results, "IsTruncated": False})


def _refusal(actions: Sequence[str]) -> Exception:
    from moto.iam.exceptions import IAMException  # noqa: PLC0415

    refused = IAMException(
        f"Invalid Input Actions: {actions} require different authorization information."
    )
    refused.code = "InvalidInput"
    return refused


def decision(documents: Sequence[Mapping[str, Any]], action: str, resource: str) -> str:
    """What policies decide on a call; moto's own evaluation fails at a `?` in a resource."""
    found = {
        statement["Effect"]
        for document in documents
        for statement in _listed(document["Statement"])
        if "Condition" not in statement
        and _names(statement["Action"], action)
        and _names(statement["Resource"], resource)
    }
    if "Deny" in found:
        return "explicitDeny"
    return "allowed" if "Allow" in found else "implicitDeny"


def _names(patterns: Any, name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in _listed(patterns))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class _Deaf:
    """No event source mappings, whatever is put there."""

    def __get__(self, _queue: Any, _owner: Any) -> dict[str, Any]:
        return {}

    def __set__(self, _queue: Any, _mappings: dict[str, Any]) -> None:
        pass


def silence_mappings(queues: Any) -> None:
    """Let queues of this class invoke no function: moto would run it in Docker."""
    queues.lambda_event_source_mappings = _Deaf()
