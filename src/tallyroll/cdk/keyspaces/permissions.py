"""What each function may do in Amazon Keyspaces: exactly what the statements need that it sends.
Without a keyspace, nothing.

Sources: Service Authorization Reference, "Actions, resources, and condition keys for Amazon
Keyspaces"; Amazon Keyspaces Developer Guide, "Amazon Keyspaces identity-based policy examples"
(drivers read system tables) and "Encryption at rest: How to use customer managed keys".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from tallyroll.cdk.annotations import acknowledge, wildcard
from tallyroll.cdk.keyspaces.keyspace import PERMANENT, Keyspace
from tallyroll.resources import TAG_PIPELINE, TAG_PROVEN
from tallyroll.settings import Settings

if TYPE_CHECKING:
    from tallyroll.cdk.functions import PipelineFunction

_KEY_ACTIONS = (
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)


def of_reader(keyspace: Keyspace | None) -> Sequence[iam.PolicyStatement]:
    """Read window tables, and what is noted of them: for the aggregator and operators."""
    if keyspace is None:
        return []
    permanent = [keyspace.arn_of(table) for table in PERMANENT]
    return [_allow([keyspace.window_tables_arn, *permanent, keyspace.system_arn], "Select")]


def of_writer(keyspace: Keyspace | None) -> Sequence[iam.PolicyStatement]:
    """Write rows of window tables, after a look at a gate or at a seal's list."""
    if keyspace is None:
        return []
    return [*of_reader(keyspace), _allow([keyspace.window_tables_arn], "Modify")]


def of_roller(keyspace: Keyspace | None, settings: Settings) -> Sequence[iam.PolicyStatement]:
    """Make and cool window tables, open and shut gates, list and seal."""
    if keyspace is None:
        return []
    permanent = [keyspace.arn_of(table) for table in PERMANENT]
    return [
        *of_reader(keyspace),
        _allow([keyspace.window_tables_arn], "Alter", "Create"),
        _allow([keyspace.window_tables_arn, *permanent], "Modify"),
        _tag(keyspace, "TagResource", tags=(TAG_PIPELINE, *sorted(settings.tags))),
        *_new_tables_key(keyspace),
    ]


def of_cleanup(keyspace: Keyspace | None) -> Sequence[iam.PolicyStatement]:
    """Read window tables, and tag proven ones, but never delete one."""
    if keyspace is None:
        return []
    return [
        *of_reader(keyspace),
        _allow([keyspace.arn_of("tables")], "Modify"),
        # A tag is an alteration, too; one without tags in it is not allowed.
        _tag(keyspace, "Alter", "TagResource", tags=(TAG_PROVEN,)),
        # An explicit denial too, which no other policy of this role can override.
        _deny(keyspace, "Drop"),
    ]


def of_dropper(keyspace: Keyspace | None) -> Sequence[iam.PolicyStatement]:
    """Drop the window tables that have the tag `proven`, and never set a tag."""
    if keyspace is None:
        return []
    tag = f"aws:ResourceTag/{TAG_PROVEN}"
    return [
        *of_reader(keyspace),
        _allow([keyspace.arn_of("tables")], "Modify"),  # the notes of what is dropped
        _allow([keyspace.window_tables_arn], "Drop", conditions={"Null": {tag: "false"}}),
        # Explicit denials too, which no other policy of this role can override.
        _deny(keyspace, "Drop", conditions={"Null": {tag: "true"}}),
        _deny(keyspace, "Alter", "TagResource", "UntagResource"),
    ]


def tell_reads_of_system(keyspace: Keyspace | None, functions: Sequence[PipelineFunction]) -> None:
    """Say why functions may read the service's own tables, if there is a keyspace."""
    if keyspace is None:
        return
    reason = (
        "each connection of the driver reads the service's own tables, and nobody can write them"
    )
    for one in functions:
        acknowledge(one.role, {wildcard(keyspace, keyspace.system_arn): reason})


def _tag(keyspace: Keyspace, *actions: str, tags: Sequence[str]) -> iam.PolicyStatement:
    """Allow what sets these tags only, on window tables."""
    conditions = {
        "ForAllValues:StringEquals": {"aws:TagKeys": [*tags]},
        "Null": {"aws:TagKeys": "false"},  # without values, ForAllValues is true
    }
    return _allow([keyspace.window_tables_arn], *actions, conditions=conditions)


def _new_tables_key(keyspace: Keyspace) -> list[iam.PolicyStatement]:
    """Let Amazon Keyspaces use the key for the tables that the roller makes. Everything later is
    done with the grants that it gives itself then.
    """
    if keyspace.key is None:
        return []
    here = cdk.Stack.of(keyspace)
    via = f"cassandra.{here.region}.{here.url_suffix}"
    return [
        iam.PolicyStatement(
            actions=[*_KEY_ACTIONS],
            resources=[keyspace.key.key_arn],
            conditions={"StringEquals": {"kms:ViaService": via}},
        )
    ]


def _deny(
    keyspace: Keyspace, *actions: str, conditions: dict[str, Any] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        effect=iam.Effect.DENY,
        actions=[f"cassandra:{action}" for action in actions],
        resources=[keyspace.window_tables_arn],
        conditions=conditions,
    )


def _allow(
    arns: Sequence[str], *actions: str, conditions: dict[str, Any] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=[f"cassandra:{action}" for action in actions],
        resources=[*arns],
        conditions=conditions,
    )
