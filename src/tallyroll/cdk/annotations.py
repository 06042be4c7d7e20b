"""Tags of constructs, and reasons for findings of rule packs (cdk-nag) that are accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk

if TYPE_CHECKING:
    from constructs import IConstruct


def acknowledge(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Acknowledge findings on a construct and all that it contains; `reasons` are by rule id.

    A rule id is `AwsSolutions-...` or `Serverless-...`, followed by the finding in brackets if the
    pack names one. An older CDK has no place for acknowledgements.
    """
    if not hasattr(cdk, "Validations"):
        return
    cdk.Validations.of(construct).acknowledge(
        *(
            cdk.Acknowledgment(id=f"{rule.partition('-')[0]}::{rule}", reason=reason)
            for rule, reason in reasons.items()
        )
    )


def wildcard(scope: IConstruct, arn: str) -> str:
    """The id of the rule about a wildcard in this ARN of a policy."""
    return f"AwsSolutions-IAM5[Resource::{_shown(cdk.Stack.of(scope).resolve(arn))}]"


def _shown(value: Any) -> str:
    """A value of a template as the packs write it."""
    if isinstance(value, str):
        return value
    [(function, arguments)] = value.items()
    if function == "Fn::Join":
        return "".join(map(_shown, arguments[1]))
    return f"<{arguments}>" if function == "Ref" else f"<{'.'.join(arguments)}>"


def tag(construct: IConstruct, tags: Mapping[str, str]) -> None:
    """Tag a construct and all that it contains."""
    for key, value in tags.items():
        cdk.Tags.of(construct).add(key, value)
