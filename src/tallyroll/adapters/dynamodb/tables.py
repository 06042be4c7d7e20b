"""Window tables in DynamoDB: makes, checks, changes and drops them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.items import gate_key
from tallyroll.adapters.dynamodb.requests import (
    IN_USE,
    UNKNOWN_OPERATION,
    DynamoTable,
    ignoring,
    in_dynamodb,
    tags_of,
    throttled_if,
)
from tallyroll.adapters.dynamodb.throughput import cold_throughput, new_throughput
from tallyroll.errors import Missing, Refused, StoreError
from tallyroll.ports.effects import Effects
from tallyroll.ports.table_listing import TableFacts, TableStatus
from tallyroll.resources import declare, identities_table
from tallyroll.settings import Settings

_log = logging.getLogger(__name__)
_BACKUPS_BEGIN = "ContinuousBackupsUnavailableException"  # for a while after a table is made


class DynamoTables:
    """The window tables of a pipeline with these settings."""

    def __init__(self, caller: Caller, effects: Effects, settings: Settings) -> None:
        self._caller = caller
        self._effects = effects
        self._settings = settings
        declared = declare(settings)
        self._declaration = declared.windows
        self._catalog = declared.catalog.name
        self._identities = identities_table(settings.name)

    def _table(self, name: str) -> DynamoTable:
        return DynamoTable(self._caller, self._effects, in_dynamodb(name))

    def make_table(self, table: str, tags: Mapping[str, str], peak: int = 0) -> None:
        """Raises Throttled while 500 tables are changing, the service's limit."""
        all_tags = {**self._declaration.tags, **tags}
        declared = replace(self._declaration, name=in_dynamodb(table), tags=all_tags)
        request = {**table_request(declared), **new_throughput(self._settings, peak)}
        with ignoring(IN_USE):
            self._caller.read("CreateTable", **request)

    def describe_table(self, table: str) -> TableFacts | None:
        """Raises Refused for a status that no pipeline causes, such as archived."""
        try:
            facts = self._describe(table)
        except Missing:
            return None
        status = facts["TableStatus"]
        if status not in TableStatus.__members__:
            raise Refused(f"table {table} is in the status {status}", status)
        warm = facts.get("WarmThroughput", {})
        return TableFacts(
            TableStatus[status],
            bool(facts.get("DeletionProtectionEnabled")),
            warm.get("WriteUnitsPerSecond"),
            warm.get("Status") == TableStatus.UPDATING.name,
            facts.get("BillingModeSummary", {}).get("BillingMode") != "PAY_PER_REQUEST",
        )

    def check_table(self, table: str, tags: Mapping[str, str]) -> None:
        """Raise Refused for a table with another schema, without these tags, or with gates.

        Ignores tags if the engine has none. Switches a missing deletion protection on.
        """
        facts = self._describe(table)
        wanted = table_request(self._declaration)
        for part in ("KeySchema", "AttributeDefinitions"):
            if _sorted(facts[part]) != _sorted(wanted[part]):
                raise _not_ours(table, f"its {part} is {facts[part]}, not {wanted[part]}")
        found_tags = tags_of(self._caller, facts["TableArn"])
        if found_tags is not None:
            for key, value in tags.items():
                if found_tags.get(key) != value:
                    found = found_tags.get(key, "absent")
                    raise _not_ours(table, f"its tag {key} is {found!r}, not {value!r}")
        gates = self._table(table).query("pk = :pk", {":pk": gate_key(1)["pk"]})
        if any(page for page in gates):
            raise used_before(table)
        if self._declaration.deletion_protection and not facts.get("DeletionProtectionEnabled"):
            self._update(table, DeletionProtectionEnabled=True)
        self._note_throttled_keys(table)

    def _note_throttled_keys(self, table: str, action: str = "ENABLE") -> None:
        """Have DynamoDB note which keys are throttled, if that is an option. A failure is logged,
        and changes nothing else: such a window counts as well, and the doctor names it.
        """
        if not self._settings.contributor_insights:
            return
        # The other mode is paid for each request.
        mode = {"ContributorInsightsMode": "THROTTLED_KEYS"} if action == "ENABLE" else {}
        try:
            self._caller.read(
                "UpdateContributorInsights",
                TableName=in_dynamodb(table),
                ContributorInsightsAction=action,
                **mode,
            )
        except StoreError as error:
            if error.code != UNKNOWN_OPERATION:
                _log.warning("Contributor Insights of table %s: %s", table, error)

    def recover_table(self, table: str) -> None:
        """No effect if the engine has no backups."""
        with throttled_if(_BACKUPS_BEGIN), ignoring(UNKNOWN_OPERATION):
            self._caller.read(
                "UpdateContinuousBackups",
                TableName=in_dynamodb(table),
                PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
            )

    def reduce_capacity(self, table: str) -> None:
        cold = cold_throughput(self._settings)
        found = self._describe(table).get("ProvisionedThroughput", {})
        if any(found.get(name) != units for name, units in cold.items()):
            self._update(table, ProvisionedThroughput=cold)

    def warm_table(self, table: str, units: int) -> None:
        """Source: DynamoDB Developer Guide, "Increase your existing DynamoDB table's warm
        throughput".
        """
        self._update(in_dynamodb(table), WarmThroughput={"WriteUnitsPerSecond": units})

    def tags(self, table: str) -> Mapping[str, str] | None:
        return tags_of(self._caller, self._describe(table)["TableArn"])

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None:
        """No effect if the engine has no tags."""
        arn = self._describe(table)["TableArn"]
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        with throttled_if(IN_USE), ignoring(UNKNOWN_OPERATION):
            self._caller.read("TagResource", ResourceArn=arn, Tags=listed)

    def drop_table(self, table: str) -> None:
        with suppress(Missing), throttled_if(IN_USE):
            facts = self._describe(table)
            if facts["TableStatus"] == "DELETING":
                return
            if facts.get("DeletionProtectionEnabled"):
                self._update(table, DeletionProtectionEnabled=False)
            else:
                self._caller.read("DeleteTable", TableName=table)

    def _describe(self, table: str) -> dict[str, Any]:
        facts: dict[str, Any] = self._caller.read("DescribeTable", TableName=in_dynamodb(table))[
            "Table"
        ]
        return facts

    def _update(self, table: str, **changes: Any) -> None:
        with throttled_if(IN_USE):
            self._caller.read("UpdateTable", TableName=table, **changes)


def _sorted(part: list[dict[str, str]]) -> list[list[tuple[str, str]]]:
    return sorted(sorted(entry.items()) for entry in part)


def used_before(table: str) -> Refused:
    """The error for a new window's table that already has gates, or shut ones."""
    return Refused(
        f"table {table} is there, with gates: it is an earlier pipeline's of this name;"
        " move it away, or give the pipeline another name",
        "UsedBefore",
    )


def _not_ours(table: str, why: str) -> Refused:
    return Refused(
        f"table {table} is there, but it is no window table of this pipeline: {why};"
        " move it away, or give the pipeline another name",
        "NotOurs",
    )
