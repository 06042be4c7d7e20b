"""Whether CloudFormation's role may make, read, change and delete what the template has.

The CDK's bootstrap makes this role, `cdk-QUALIFIER-cfn-exec-role-ACCOUNT-REGION`, with the policies
of `--cloudformation-execution-policies`, by default `AdministratorAccess`. Source: AWS CDK
Developer Guide, "Customize AWS CDK bootstrapping".
"""

from __future__ import annotations

from collections.abc import Iterator

from tallyroll.errors import Missing
from tallyroll.operations.doctor.checkup import Level, Sign, finding, fine, warning
from tallyroll.operations.preflight.case import Preflight
from tallyroll.operations.preflight.planned_deployment import QUALIFIER
from tallyroll.operations.preflight.stack_calls import calls_for

ROLE = "cfn-exec-role"


def execution(of: Preflight) -> Iterator[Sign]:
    """CloudFormation's role may carry out the deployment, by a simulation of its policies."""
    role, rights = of.bootstrapped(ROLE), of.case.rights
    if rights is None:
        yield Sign(Level.UNCHECKED, f"nothing simulates the policies of {role}", "")
        return
    calls = calls_for(of.planned, of.identity)
    wanted: dict[str, list[str]] = {}
    for actions_by_arn in calls.values():
        for arn, actions in actions_by_arn.items():
            asked = wanted.setdefault(arn, [])
            asked += [action for action in actions if action not in asked]
    try:
        denied = {*rights.denied(role, wanted)}
    except Missing as error:
        yield Sign(
            Level.UNCHECKED,
            f"what {role} may do is not known: {error}",
            f"If another bootstrap deploys, name its qualifier: -c {QUALIFIER}=...",
        )
        return
    sign = warning if of.deployed else finding
    for resource_type, actions_by_arn in calls.items():
        missing = [
            call
            for arn, actions in actions_by_arn.items()
            for call in (f"{action} on {arn}" for action in actions)
            if call in denied
        ]
        if missing:
            yield sign(f"{resource_type}: {role} may not: {'; '.join(missing)}", _remedy(of))
    yield fine(f"{role} may do what all {len(calls)} types in the template need")


def _remedy(of: Preflight) -> str:
    return (
        f"`{of.bootstrapping} --cloudformation-execution-policies ARN,...` gives the role its"
        " policies anew: name all of them, also those that it has. If they allow this, a"
        " permissions boundary or a policy of the organization denies it."
    )
