"""What moto lacks and the doctor asks for: IAM's simulation of an identity's policies.

Source: IAM API Reference, SimulatePrincipalPolicy. Conditions are not evaluated.
"""

from __future__ import annotations

from typing import Any


def install() -> None:
    """Let moto's IAM simulate, in this process."""
    from moto.iam.responses import IamResponse  # noqa: PLC0415  (importing has effects)

    responses: Any = IamResponse
    responses.simulate_principal_policy = _simulate


def _simulate(self: Any) -> Any:
    from moto.core.responses import ActionResult  # noqa: PLC0415
    from moto.iam.access_control import IAMPolicy, PermissionResult  # noqa: PLC0415

    role = self.backend.get_role_by_arn(self._get_param("PolicySourceArn"))
    policies = [IAMPolicy(policy) for policy in role.policies.values()]
    results = []
    for action in self._get_param("ActionNames"):
        for resource in self._get_param("ResourceArns"):
            found = {policy.is_action_permitted(action, resource) for policy in policies}
            decision = "implicitDeny"
            if PermissionResult.DENIED in found:
                decision = "explicitDeny"
            elif PermissionResult.PERMITTED in found:
                decision = "allowed"
            results.append(
                {
                    "EvalActionName": action,
                    "EvalResourceName": resource,
                    "EvalDecision": decision,
                    "MatchedStatements": [],
                    "MissingContextValues": [],
                }
            )
    return ActionResult({"EvaluationResults": results, "IsTruncated": False})


class _Deaf:
    """No event source mappings, whatever is put there."""

    def __get__(self, _queue: Any, _owner: Any) -> dict[str, Any]:
        return {}

    def __set__(self, _queue: Any, _mappings: dict[str, Any]) -> None:
        pass


def silence_mappings(queues: Any) -> None:
    """Let queues of this class invoke no function: moto would run it in Docker."""
    queues.lambda_event_source_mappings = _Deaf()
