"""Whether the KMS key of `tallyroll:kms_key` works for all that shall be under it.

DynamoDB, SQS, S3 and Lambda use the key with the permissions of the role that calls them, so the
key's policy must let the account's IAM policies decide, or name the roles. CloudWatch Logs uses it
by itself. Sources: AWS KMS Developer Guide, "Key policies in AWS KMS" and "Key states of AWS KMS
keys"; CloudWatch Logs User Guide, "Encrypt log data in CloudWatch Logs using AWS Key Management
Service".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tallyroll.errors import Missing
from tallyroll.operations.doctor.checkup import Level, Sign, finding, fine, warning
from tallyroll.operations.doctor.policies import denials, not_granted
from tallyroll.operations.doctor.rights import packages_of
from tallyroll.operations.preflight.case import Preflight
from tallyroll.settings.common import INSIGHTS_IN_PLAIN_TEXT

_READS = ("kms:Decrypt", "kms:DescribeKey")
_WRITES = (*_READS, "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo")
CALLS: Mapping[str, Sequence[str]] = {
    "writer": _WRITES,
    "aggregator": _READS,
    "roller": (*_WRITES, "kms:CreateGrant", "kms:GenerateDataKeyWithoutPlaintext"),
    "cleanup": _WRITES,
    "dropper": _WRITES,
}
"""What each function's role does with the key."""

_ALL = tuple(dict.fromkeys(call for calls in CALLS.values() for call in calls))
_MENDED: Mapping[str, str] = {
    "Disabled": "`aws kms enable-key --key-id {key}`",
    "PendingDeletion": "`aws kms cancel-key-deletion --key-id {key}`, then `aws kms enable-key"
    " --key-id {key}`",
}


def key(of: Preflight) -> Iterator[Sign]:
    """The key is enabled, and its policy lets the functions' roles and CloudWatch Logs use it."""
    arn = of.planned.settings.kms_key
    if not arn:
        yield fine("no tallyroll:kms_key: AWS's own keys encrypt")
        return
    try:
        found = of.account.key(arn)
    except Missing:
        yield finding(f"there is no key {arn}", "Give the ARN of a key of this account and Region.")
        return
    if found.region != of.identity.region:
        yield finding(
            f"the key {arn} is in {found.region}, not in {of.identity.region}",
            "Tables and queues take only keys of their own Region.",
        )
    if found.state != "Enabled":
        yield finding(
            f"the key {arn} is {found.state}: nothing can be read or written under it",
            _MENDED.get(found.state, "`aws kms describe-key --key-id {key}`").format(key=arn),
        )
    if not found.symmetric:
        yield finding(
            f"the key {arn} is no symmetric key that encrypts",
            "Give one of the spec SYMMETRIC_DEFAULT and the usage ENCRYPT_DECRYPT.",
        )
    yield from _policy(of, arn, of.account.key_policy(arn))
    if of.planned.settings.contributor_insights:
        yield warning(
            INSIGHTS_IN_PLAIN_TEXT, "Leave the option off if keys of events are confidential."
        )
    yield fine(f"the key {arn} is enabled, and its policy lets the pipeline use it")


def _policy(of: Preflight, arn: str, policy: str) -> Iterator[Sign]:
    who = of.identity
    root = f"arn:{who.partition}:iam::{who.account}:root"
    account = (root, who.account)
    logs = f"logs.{who.region}.amazonaws.com"
    denied = denials(policy, _ALL, account)
    if denied:
        yield _wrong(arn, f"denies {', '.join(denied)}")
    roles = {
        package: card.role
        for package in packages_of(of.planned.settings)
        if (card := of.case.function(package)) is not None
    }
    lacking = not_granted(policy, _ALL, account)
    if lacking and not roles:
        yield _wrong(
            arn,
            f"does not let the account's IAM policies decide ({root}) on {', '.join(lacking)}, and"
            " cannot name the roles, which the deployment makes",
        )
    for package, role in roles.items():
        calls = CALLS.get(package, _WRITES)  # the compactor's
        if missing := not_granted(policy, calls, (*account, role)):
            yield _wrong(
                arn, f"allows {', '.join(missing)} neither to the account ({root}) nor to {role}"
            )
    if missing := not_granted(policy, _WRITES, (logs,)) or denials(policy, _WRITES, (logs,)):
        yield _wrong(arn, f"does not let {logs} call {', '.join(missing)}: no log group is made")


def _wrong(arn: str, what: str) -> Sign:
    return Sign(
        Level.FINDING,
        f"the policy of the key {arn} {what}",
        f"`aws kms get-key-policy --key-id {arn}` shows the policy. Add the statements of"
        " docs/deploy.md, Your own key, and put it back by `aws kms put-key-policy --key-id"
        f" {arn} --policy POLICY`.",
    )
