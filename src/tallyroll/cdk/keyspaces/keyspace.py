"""A keyspace and its permanent tables. They survive the stack's deletion, as DynamoDB's do, and the
failure of the deployment that makes them (`Retain`).

Who deletes a keyspace deletes all tables in it. When a deployment fails at its end, the roller may
have made window tables there, whose states the catalog keeps, and writers may have counted events
in them. So a rollback must not delete it. The next deployment takes it up with
`--import-existing-resources`. Source: Amazon Keyspaces API Reference, DeleteKeyspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cassandra as cassandra
from aws_cdk import aws_kms as kms
from constructs import Construct

from tallyroll.cdk.annotations import tag


@dataclass(frozen=True, slots=True)
class Columns:
    """A table's columns and their types: of the partition key, of the clustering key, others."""

    partition: Mapping[str, str]
    clustering: Mapping[str, str]
    others: Mapping[str, str]


# As `tallyroll.adapters.cassandra.cql` makes them on a node of Cassandra, which a test compares.
PERMANENT: Mapping[str, Columns] = {
    "gates": Columns({"tbl": "text", "gate": "int"}, {}, {"open": "boolean"}),
    "seals": Columns(
        {"tbl": "text", "segment": "int"},
        {},
        {"attempt": "text", "listed": "bigint", "parts": "int"},
    ),
    "tables": Columns({"tbl": "text"}, {"name": "text"}, {"value": "text"}),
}


class Keyspace(Construct):
    """The keyspace of a pipeline's window tables, with its permanent tables; the roller makes those
    whose names, as they are in DynamoDB, match the pattern `windows`. With a `key`, the permanent
    ones are encrypted with it.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        windows: str,
        tags: Mapping[str, str],
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self.name = name
        self.key = key
        keyspace = cassandra.CfnKeyspace(self, "Keyspace", keyspace_name=name)
        _keep(keyspace, tags)
        for table, columns in PERMANENT.items():
            made = _table(self, table, columns, name, key)
            made.node.add_dependency(keyspace)
            _keep(made, tags)
        self.window_tables_arn = self.arn_of(windows.replace("-", "_"))
        """The ARN pattern of this pipeline's window tables, and of no other tables."""
        self.system_arn = _arn(self, "/keyspace/system*")
        """The ARN pattern of the service's own tables, which each connection reads."""

    def arn_of(self, table: str) -> str:
        """The ARN of a table of the keyspace, by its name."""
        return _arn(self, f"/keyspace/{self.name}/table/{table}")


def _arn(scope: Construct, path: str) -> str:
    # Source: Service Authorization Reference, "Resource types defined by Amazon Keyspaces".
    here = cdk.Stack.of(scope)
    return here.format_arn(
        service="cassandra", resource=path, arn_format=cdk.ArnFormat.NO_RESOURCE_NAME
    )


def _table(
    scope: Construct, name: str, columns: Columns, keyspace: str, key: kms.IKey | None
) -> cassandra.CfnTable:
    encryption = cassandra.CfnTable.EncryptionSpecificationProperty(
        encryption_type="CUSTOMER_MANAGED_KMS_KEY" if key else "AWS_OWNED_KMS_KEY",
        kms_key_identifier=key.key_arn if key else None,
    )
    clustering = [
        cassandra.CfnTable.ClusteringKeyColumnProperty(column=column, order_by="ASC")
        for column in _columns(columns.clustering)
    ]
    return cassandra.CfnTable(
        scope,
        name.capitalize(),
        keyspace_name=keyspace,
        table_name=name,
        partition_key_columns=_columns(columns.partition),
        clustering_key_columns=clustering or None,
        regular_columns=_columns(columns.others),
        billing_mode=cassandra.CfnTable.BillingModeProperty(mode="ON_DEMAND"),
        encryption_specification=encryption,
        point_in_time_recovery_enabled=True,
    )


def _columns(types: Mapping[str, str]) -> list[cassandra.CfnTable.ColumnProperty]:
    return [
        cassandra.CfnTable.ColumnProperty(column_name=name, column_type=type_)
        for name, type_ in types.items()
    ]


def _keep(made: cdk.CfnResource, tags: Mapping[str, str]) -> None:
    made.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
    tag(made, tags)
