"""Window tables themselves in DynamoDB: made, checked, switched, dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.requests import query
from tallyroll.errors import Missing, Refused, Throttled
from tallyroll.model.items import gate_key
from tallyroll.ports.store import Capacity, TableFacts, TableStatus
from tallyroll.resources import TableDeclaration

_IN_USE = "ResourceInUseException"
_BACKUPS_BEGIN = "ContinuousBackupsUnavailableException"  # for a while after a table was made
_UNKNOWN_OPERATION = "UnknownOperationException"  # DynamoDB Local has no tags and no backups
_STATUSES = {
    "CREATING": TableStatus.CREATING,
    "ACTIVE": TableStatus.ACTIVE,
    "UPDATING": TableStatus.UPDATING,
    "DELETING": TableStatus.DELETING,
}


class DynamoTables:
    """Window tables, made by the pattern of `declaration`."""

    def __init__(self, caller: Caller, declaration: TableDeclaration) -> None:
        self._caller = caller
        self._declaration = declaration

    def make_table(
        self, table: str, tags: Mapping[str, str], capacity: Capacity | None = None
    ) -> None:
        """CreateTable as declared, with these tags too.

        Raises Throttled while 500 tables change at once, the service's limit, and Refused, among
        others when the account's quota of tables is used up.
        """
        declared = replace(self._declaration, name=table, tags={**self._declaration.tags, **tags})
        request = {**table_request(declared), **_throughput(capacity)}
        try:
            self._caller.read("CreateTable", **request)
        except Refused as error:
            if error.code != _IN_USE:
                raise

    def describe_table(self, table: str) -> TableFacts | None:
        """The table's status and protection; None if it is not there.

        Raises Refused for a status to which no pipeline leads (archived, key inaccessible).
        """
        try:
            facts = self._describe(table)
        except Missing:
            return None
        status = _STATUSES.get(facts["TableStatus"])
        if status is None:
            code = facts["TableStatus"]
            raise Refused(f"table {table} is in the status {code}", code)
        return TableFacts(status, bool(facts.get("DeletionProtectionEnabled")))

    def check_table(self, table: str, tags: Mapping[str, str]) -> None:
        """Raise Refused for a table of another schema, without these tags or with gates: not ours.

        A new table of ours that is not protected from deletion is from now on. Tags are passed over
        where the engine knows none.
        """
        facts = self._describe(table)
        wanted = table_request(self._declaration)
        for part in ("KeySchema", "AttributeDefinitions"):
            if _sorted(facts[part]) != _sorted(wanted[part]):
                raise _not_ours(table, f"its {part} is {facts[part]}, not {wanted[part]}")
        stands = self._tags(facts["TableArn"])
        if stands is not None:
            for key, value in tags.items():
                if stands.get(key) != value:
                    found = stands.get(key, "absent")
                    raise _not_ours(table, f"its tag {key} is {found!r}, not {value!r}")
        gates = query(self._caller, table, "pk = :pk", {":pk": gate_key(1)["pk"]})
        if any(page for page in gates):
            raise used_before(table)
        if self._declaration.deletion_protection and not facts.get("DeletionProtectionEnabled"):
            self._update(table, DeletionProtectionEnabled=True)

    def recover_table(self, table: str) -> None:
        """Switch point-in-time recovery on; without effect where the engine has none.

        Raises Throttled while the table's backups are only being enabled.
        """
        wanted = {"PointInTimeRecoveryEnabled": True}
        try:
            self._caller.read(
                "UpdateContinuousBackups",
                TableName=table,
                PointInTimeRecoverySpecification=wanted,
            )
        except Refused as error:
            if error.code == _BACKUPS_BEGIN:
                raise Throttled(str(error), error.code) from error
            if error.code != _UNKNOWN_OPERATION:
                raise

    def resize_table(self, table: str, capacity: Capacity) -> None:
        """Give a provisioned table another capacity. Raises Throttled while it changes."""
        units = _throughput(capacity)["ProvisionedThroughput"]
        if _units_of(self._describe(table)) != units:
            self._update(table, ProvisionedThroughput=units)

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None:
        """TagResource; without effect where the engine knows no tags. Raises Missing."""
        arn = self._describe(table)["TableArn"]
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        try:
            self._caller.read("TagResource", ResourceArn=arn, Tags=listed)
        except Refused as error:
            if error.code == _IN_USE:
                raise Throttled(str(error), error.code) from error
            if error.code != _UNKNOWN_OPERATION:
                raise

    def drop_table(self, table: str) -> None:
        """Lift the protection, or delete what has none; the table changes for a while after each.

        Raises Throttled while it does.
        """
        try:
            facts = self._describe(table)
            if facts["TableStatus"] == "DELETING":
                return
            if facts.get("DeletionProtectionEnabled"):
                self._update(table, DeletionProtectionEnabled=False)
            else:
                self._caller.read("DeleteTable", TableName=table)
        except Missing:
            return
        except Refused as error:
            if error.code == _IN_USE:
                raise Throttled(str(error), error.code) from error
            raise

    def _describe(self, table: str) -> dict[str, Any]:
        facts: dict[str, Any] = self._caller.read("DescribeTable", TableName=table)["Table"]
        return facts

    def _update(self, table: str, **changes: Any) -> None:
        try:
            self._caller.read("UpdateTable", TableName=table, **changes)
        except Refused as error:
            if error.code == _IN_USE:
                raise Throttled(str(error), error.code) from error
            raise

    def _tags(self, arn: str) -> dict[str, str] | None:
        """A table's tags, by pages of ten; None where the engine knows none."""
        tags: dict[str, str] = {}
        more: dict[str, str] = {}
        while True:
            try:
                reply = self._caller.read("ListTagsOfResource", ResourceArn=arn, **more)
            except Refused as error:
                if error.code == _UNKNOWN_OPERATION:
                    return None
                raise
            tags |= {tag["Key"]: tag["Value"] for tag in reply["Tags"]}
            if not reply.get("NextToken"):
                return tags
            more = {"NextToken": reply["NextToken"]}


def _throughput(capacity: Capacity | None) -> dict[str, Any]:
    """CreateTable's parameters for a capacity other than on-demand's own."""
    if capacity is None:
        return {}
    if capacity.provisioned:
        units = {"WriteCapacityUnits": capacity.write, "ReadCapacityUnits": capacity.read}
        return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units}
    warm = {"WriteUnitsPerSecond": capacity.write, "ReadUnitsPerSecond": capacity.read}
    return {"WarmThroughput": warm}


def _units_of(facts: Mapping[str, Any]) -> dict[str, int]:
    stands = facts.get("ProvisionedThroughput", {})
    return {name: stands.get(name, 0) for name in ("WriteCapacityUnits", "ReadCapacityUnits")}


def _sorted(part: list[dict[str, str]]) -> list[list[tuple[str, str]]]:
    return sorted(sorted(entry.items()) for entry in part)


def used_before(table: str) -> Refused:
    """A table that has gates before its window's are put, or shut ones before it is open."""
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
