"""Permanent storage: catalog, totals, archive bucket, perhaps identities, perhaps a keyspace. They
survive the stack's deletion.

When the deployment that makes them fails, the bucket goes (`RetainExceptOnCreate`), and the tables
stay (`Retain`): CloudFormation cannot delete a table with deletion protection, so the rollback
itself would fail. The next deployment takes the tables up with `--import-existing-resources`, which
imports what has a name in the template and either of these policies. Sources: AWS CloudFormation
User Guide, "DeletionPolicy attribute" and "Import AWS resources into a CloudFormation stack
automatically"; Amazon DynamoDB API Reference, CreateTable, at DeletionProtectionEnabled.

No template has the warm throughput of a permanent table. It grows with the traffic and cannot be
decreased, so a template with a lower one than the table's could not be deployed. Source: Amazon
DynamoDB Developer Guide, "Understanding DynamoDB warm throughput".
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tallyroll.cdk.annotations import acknowledge, tag
from tallyroll.cdk.existing_resources import check_bucket, check_options_of_bucket
from tallyroll.cdk.keyspaces.keyspace import Keyspace
from tallyroll.ports.bucket import TAG_PASSING
from tallyroll.resources import BucketDeclaration, Resources, TableDeclaration

# A pattern of window ids. Their capital letters occur in no pipeline's name, so it does not match
# the tables of a pipeline whose name begins with this one's.
_WINDOW_ID = "????????T??????Z"
_MULTIPART_DAYS = 7


class Storage(Construct):
    """The permanent tables and the bucket, as declared; the roller makes the window tables.

    A `given` bucket replaces the bucket, and keeps its own encryption and lifecycle. With a `key`,
    what is made here is encrypted with it. With a declared keyspace, that is made, too.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        resources: Resources,
        given: s3.IBucket | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self.catalog = _table(self, "Catalog", resources.catalog, key)
        self.totals = _table(self, "Totals", resources.totals, key)
        self.identities: dynamodb.Table | None = None
        if resources.identities:
            self.identities = _table(self, "Identities", resources.identities, key)
        self.bucket: s3.IBucket
        if given is None:
            self.bucket = _bucket(self, "Archive", resources.bucket, key)
        else:
            check_bucket(self, given)
            check_options_of_bucket(given, resources.bucket)
            self.bucket = given
        self.owned = given is None
        """Whether the bucket is made here."""
        self.locks = resources.bucket.locks
        """Whether objects of archives are locked."""
        self.key = key
        """The key of the tables, if a team passed one in."""
        self.window_tables_arn = cdk.Stack.of(self).format_arn(
            service="dynamodb", resource="table", resource_name=resources.windows.name + _WINDOW_ID
        )
        """The ARN pattern of this pipeline's window tables, and of no other tables."""
        self.keyspace: Keyspace | None = None
        if resources.keyspace:
            self.keyspace = Keyspace(
                self,
                "Keyspace",
                name=resources.keyspace,
                windows=resources.windows.name + _WINDOW_ID,
                tags=resources.catalog.tags,
                key=key,
            )


def _table(
    scope: Construct, id_: str, declared: TableDeclaration, key: kms.IKey | None
) -> dynamodb.Table:
    table = dynamodb.Table(
        scope,
        id_,
        table_name=declared.name,
        partition_key=_key(declared.partition_key),
        sort_key=_key(declared.sort_key) if declared.sort_key else None,
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if key else None,
        encryption_key=key,
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=declared.point_in_time_recovery
        ),
        deletion_protection=declared.deletion_protection,
        time_to_live_attribute=declared.expires_by or None,
        removal_policy=cdk.RemovalPolicy.RETAIN,
    )
    tag(table, declared.tags)
    return table


def _key(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def _bucket(
    scope: Construct, id_: str, declared: BucketDeclaration, key: kms.IKey | None
) -> s3.Bucket:
    bucket = s3.Bucket(
        scope,
        id_,
        bucket_name=declared.name or None,
        versioned=declared.versioned,
        block_public_access=(
            s3.BlockPublicAccess.BLOCK_ALL if declared.block_public_access else None
        ),
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        bucket_key_enabled=True if key else None,  # one call of the key for many objects
        enforce_ssl=True,
        lifecycle_rules=[
            s3.LifecycleRule(
                id="colder",
                # Still read without delay by the same calls. Objects below 128 KB are not moved.
                transitions=[
                    s3.Transition(
                        storage_class=s3.StorageClass.GLACIER_INSTANT_RETRIEVAL,
                        transition_after=cdk.Duration.days(declared.cold_after_days),
                    )
                ],
                noncurrent_version_expiration=cdk.Duration.days(declared.noncurrent_days),
                abort_incomplete_multipart_upload_after=cdk.Duration.days(_MULTIPART_DAYS),
                expired_object_delete_marker=True,  # those of what the next rule deletes
            ),
            s3.LifecycleRule(
                id="passing",
                prefix="archive/",
                tag_filters={TAG_PASSING: "true"},  # only cleanup may set it, on its notes alone
                expiration=cdk.Duration.days(declared.progress_days),
            ),
            *_expiry(declared.expire_days),
        ],
        removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    )
    if declared.locks:
        resource = bucket.node.default_child
        assert isinstance(resource, s3.CfnBucket)
        # Both, for a new bucket and one that is there. No default, which would lock notes, too.
        resource.object_lock_enabled = True
        resource.object_lock_configuration = s3.CfnBucket.ObjectLockConfigurationProperty(
            object_lock_enabled="Enabled"
        )
    tag(bucket, declared.tags)
    acknowledge(
        bucket,
        {
            "AwsSolutions-S1": "access logs need a second bucket that outlives this one; where an"
            " audit asks for them, CloudTrail's data events on this bucket tell more"
        },
    )
    return bucket


def _expiry(days: int) -> list[s3.LifecycleRule]:
    if not days:
        return []
    return [s3.LifecycleRule(id="expiring", prefix="archive/", expiration=cdk.Duration.days(days))]
