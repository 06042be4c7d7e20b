"""The port of tables as an operator sees them, on DynamoDB.

Source: DynamoDB API Reference, ListTables, DescribeTable, ListTagsOfResource,
DescribeContinuousBackups, DescribeTimeToLive, UpdateTable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.requests import (
    IN_USE,
    RECOVERY_ON,
    UNKNOWN_OPERATION,
    recovery_of,
    tags_of,
    throttled_if,
)
from tallyroll.errors import Missing, Refused
from tallyroll.model.windows import DYNAMODB, store_of
from tallyroll.ports.table_listing import TableCard

_EXPIRY_ON = ("ENABLED", "ENABLING")


@dataclass(frozen=True)
class DynamoListing:
    """The tables of one account and Region."""

    caller: Caller

    def names(self) -> Iterator[str]:
        """May miss tables just made and still list tables just deleted."""
        more: dict[str, Any] = {}
        while True:
            reply = self.caller.read("ListTables", **more)
            yield from reply["TableNames"]
            if not reply.get("LastEvaluatedTableName"):
                return
            more = {"ExclusiveStartTableName": reply["LastEvaluatedTableName"]}

    def card(self, table: str) -> TableCard | None:
        if store_of(table) != DYNAMODB:
            return None
        try:
            facts: dict[str, Any] = self.caller.read("DescribeTable", TableName=table)["Table"]
        except Missing:
            return None
        types = {
            each["AttributeName"]: each["AttributeType"]
            for each in facts.get("AttributeDefinitions", ())
        }
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
            kms_key=str(facts.get("SSEDescription", {}).get("KMSMasterKeyArn", "")),
        )

    def tags(self, card: TableCard) -> Mapping[str, str] | None:
        return tags_of(self.caller, card.arn)

    def recovery(self, card: TableCard) -> bool | None:
        found = recovery_of(self.caller, card.name)
        return None if found is None else found.get("PointInTimeRecoveryStatus") == RECOVERY_ON

    def expires_by(self, card: TableCard) -> str | None:
        try:
            reply = self.caller.read("DescribeTimeToLive", TableName=card.name)
        except Refused as error:
            if error.code == UNKNOWN_OPERATION:
                return None
            raise
        found: Mapping[str, str] = reply["TimeToLiveDescription"]
        on = found.get("TimeToLiveStatus") in _EXPIRY_ON
        return found.get("AttributeName", "") if on else ""

    def protect(self, table: str) -> None:
        with throttled_if(IN_USE):
            self.caller.read("UpdateTable", TableName=table, DeletionProtectionEnabled=True)
