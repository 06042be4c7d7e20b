"""Copies of archives in another bucket, by S3's replication."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tallyroll.cdk.annotations import acknowledge, wildcard
from tallyroll.cdk.storage import Storage
from tallyroll.model.formats.references import PAYLOADS_PREFIX
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import PREFIX, OptionsError

COPIED = ("archive/", f"{PAYLOADS_PREFIX}/")
_LOCKS = ("s3:GetObjectLegalHold", "s3:GetObjectRetention")
_ALL = "replication copies all archives and payloads; the permission is for these prefixes alone"


class Replication(Construct):
    """The bucket's rules, and the role by which S3 copies. Deletions are not copied. Source: S3
    User Guide, "Setting up permissions for live replication".

    Raises OptionsError for a bucket that is passed in, and unless keys are given for both or none.
    """

    def __init__(self, scope: Construct, id_: str, *, options: Options, storage: Storage) -> None:
        super().__init__(scope, id_)
        bucket = storage.bucket.node.default_child
        there, key = options.archive_replica, options.archive_replica_key
        if not isinstance(storage.bucket, s3.Bucket) or not storage.owned:
            raise OptionsError(
                f"{PREFIX}archive_replica {there!r}: leave it out: the bucket"
                f" {storage.bucket.node.path} is passed in; give it rules of your own"
            )
        if bool(storage.bucket.encryption_key) != bool(key):
            raise OptionsError(
                f"{PREFIX}archive_replica_key {key!r}: give one, in the Region of the copies, if"
                " the pipeline has a key, and else none"
            )
        assert isinstance(bucket, s3.CfnBucket)
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("s3.amazonaws.com"))
        for each in _statements(storage, there, key):
            role.add_to_policy(each)
        acknowledge(
            role,
            {
                wildcard(self, arn): _ALL
                for prefix in COPIED
                for arn in (storage.bucket.arn_for_objects(f"{prefix}*"), f"{there}/{prefix}*")
            },
        )
        rule = s3.CfnBucket
        bucket.replication_configuration = rule.ReplicationConfigurationProperty(
            role=role.role_arn,
            rules=[
                rule.ReplicationRuleProperty(
                    id=prefix.rstrip("/"),
                    status="Enabled",
                    priority=number,
                    filter=rule.ReplicationRuleFilterProperty(prefix=prefix),
                    delete_marker_replication=rule.DeleteMarkerReplicationProperty(
                        status="Disabled"
                    ),
                    destination=rule.ReplicationDestinationProperty(
                        bucket=there,
                        encryption_configuration=rule.EncryptionConfigurationProperty(
                            replica_kms_key_id=key
                        )
                        if key
                        else None,
                    ),
                    source_selection_criteria=rule.SourceSelectionCriteriaProperty(
                        sse_kms_encrypted_objects=rule.SseKmsEncryptedObjectsProperty(
                            status="Enabled"
                        )
                    )
                    if key
                    else None,
                )
                for number, prefix in enumerate(COPIED)
            ],
        )


def _statements(storage: Storage, there: str, key: str) -> list[iam.PolicyStatement]:
    bucket = storage.bucket
    copied = [bucket.arn_for_objects(f"{prefix}*") for prefix in COPIED]
    copies = [f"{there}/{prefix}*" for prefix in COPIED]
    reads = ("Acl", "ForReplication", "Tagging")
    found = [
        _allow(["s3:GetReplicationConfiguration", "s3:ListBucket"], [bucket.bucket_arn]),
        _allow([*(f"s3:GetObjectVersion{each}" for each in reads), *_locks(storage)], copied),
        _allow(["s3:ReplicateObject", "s3:ReplicateTags"], copies),
    ]
    if bucket.encryption_key:
        found += [
            _allow(["kms:Decrypt"], [bucket.encryption_key.key_arn]),
            _allow(["kms:Encrypt"], [key]),
        ]
    return found


def _locks(storage: Storage) -> tuple[str, ...]:
    return _LOCKS if storage.locks else ()


def _allow(actions: list[str], resources: list[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=actions, resources=resources)
