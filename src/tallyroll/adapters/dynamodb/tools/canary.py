"""The port of a canary table on DynamoDB.

Source: DynamoDB API Reference, CreateTable, DeleteTable, DeleteResourcePolicy, TagResource.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.requests import IN_USE, throttled_if
from tallyroll.errors import Missing, Refused, Throttled
from tallyroll.ports.backoff import REQUEST
from tallyroll.ports.effects import Effects
from tallyroll.resources import TAG_PROVEN, TableDeclaration

ACTIVE_TRIES, ACTIVE_EVERY_MS = 60, 2_000


@dataclass
class CanaryTable:
    """The canary port: a table of this declaration, which is not protected from deletion."""

    caller: Caller
    effects: Effects
    declared: TableDeclaration

    @cached_property
    def name(self) -> str:
        return self.declared.name

    @property
    def arn(self) -> str:
        with suppress(Missing):
            found = self.caller.read("DescribeTable", TableName=self.name)
            return str(found["Table"]["TableArn"])
        return ""

    def make(self) -> None:
        declared = replace(self.declared, deletion_protection=False, drop_needs=TAG_PROVEN)
        # Not `read`: a second attempt after a lost reply would be refused as a second table.
        self.caller.call("CreateTable", **table_request(declared))
        for _ in range(ACTIVE_TRIES):
            with suppress(Missing):  # it may not be seen at once
                found = self.caller.read("DescribeTable", TableName=self.name)
                if found["Table"]["TableStatus"] == "ACTIVE":
                    return
            self.effects.sleep(ACTIVE_EVERY_MS)
        raise Throttled(f"table {self.name} did not become active in time", "Creating")

    def tag(self) -> None:
        tags = [{"Key": TAG_PROVEN, "Value": "canary"}]
        with throttled_if(IN_USE):
            self.caller.read("TagResource", ResourceArn=self.arn, Tags=tags)

    def drop(self) -> bool:
        last: Refused | None = None
        for _ in range(REQUEST.tries):
            try:
                self.caller.read("DeleteTable", TableName=self.name)
            except Missing:
                return True
            except Refused as error:
                if "AccessDenied" in error.code:
                    return False
                if error.code != IN_USE:
                    raise
                last = error  # it is being made or deleted
            else:
                return True
            if self._deleting():
                return True
            self.effects.sleep(ACTIVE_EVERY_MS)
        raise Throttled(str(last), IN_USE)

    def _deleting(self) -> bool:
        try:
            found = self.caller.read("DescribeTable", TableName=self.name)
        except Missing:
            return True
        return bool(found["Table"]["TableStatus"] == "DELETING")

    def unguard(self) -> None:
        if arn := self.arn:
            with suppress(Missing):
                self.caller.read("DeleteResourcePolicy", ResourceArn=arn)
