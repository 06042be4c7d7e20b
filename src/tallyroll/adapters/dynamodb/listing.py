"""What an operator sees of tables, on DynamoDB.

Source: DynamoDB API Reference, ListTables, DescribeTable, ListTagsOfResource,
DescribeContinuousBackups, UpdateTable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.errors import Missing, Refused, Throttled
from tallyroll.ports.tables import TableCard

_ON = "ENABLED"
_IN_USE = "ResourceInUseException"
_UNKNOWN_OPERATION = "UnknownOperationException"  # DynamoDB Local has no tags and no backups


class DynamoListing:
    """The tables of one account and Region."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def names(self) -> Iterator[str]:
        """All names, by pages of 100. One that is just made or deleted may be missing or stand."""
        more: dict[str, Any] = {}
        while True:
            reply = self._caller.read("ListTables", **more)
            yield from reply["TableNames"]
            if not reply.get("LastEvaluatedTableName"):
                return
            more = {"ExclusiveStartTableName": reply["LastEvaluatedTableName"]}

    def card(self, table: str) -> TableCard | None:
        """By DescribeTable, which counts items and bytes about every six hours."""
        try:
            facts: dict[str, Any] = self._caller.read("DescribeTable", TableName=table)["Table"]
        except Missing:
            return None
        types = {each["AttributeName"]: each["AttributeType"] for each in _defined(facts)}
        return TableCard(
            name=table,
            status=facts["TableStatus"],
            protected=bool(facts.get("DeletionProtectionEnabled")),
            keys=tuple(
                f"{key['AttributeName']} {types.get(key['AttributeName'], '?')} {key['KeyType']}"
                for key in facts.get("KeySchema", ())
            ),
            items=int(facts.get("ItemCount", 0)),
            size=int(facts.get("TableSizeBytes", 0)),
            arn=facts["TableArn"],
        )

    def tags(self, card: TableCard) -> Mapping[str, str] | None:
        """By ListTagsOfResource, page by page."""
        tags: dict[str, str] = {}
        more: dict[str, Any] = {}
        while True:
            try:
                reply = self._caller.read("ListTagsOfResource", ResourceArn=card.arn, **more)
            except Refused as error:
                if error.code == _UNKNOWN_OPERATION:
                    return None
                raise
            tags |= {tag["Key"]: tag["Value"] for tag in reply.get("Tags", ())}
            if not reply.get("NextToken"):
                return tags
            more = {"NextToken": reply["NextToken"]}

    def recovery(self, card: TableCard) -> bool | None:
        """By DescribeContinuousBackups."""
        try:
            reply = self._caller.read("DescribeContinuousBackups", TableName=card.name)
        except Refused as error:
            if error.code == _UNKNOWN_OPERATION:
                return None
            raise
        said = reply["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        return bool(said.get("PointInTimeRecoveryStatus") == _ON)

    def protect(self, table: str) -> None:
        """By UpdateTable. Raises Throttled while the table changes."""
        try:
            self._caller.read("UpdateTable", TableName=table, DeletionProtectionEnabled=True)
        except Refused as error:
            if error.code == _IN_USE:
                raise Throttled(str(error), error.code) from error
            raise


def _defined(facts: Mapping[str, Any]) -> list[dict[str, str]]:
    return list(facts.get("AttributeDefinitions", ()))
