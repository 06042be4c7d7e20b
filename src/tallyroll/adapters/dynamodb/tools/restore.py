"""Restores an archive into a table of its own, for inspection.

On AWS, ImportTable reads the archive's layout; other engines get the items in batches. The table is
new and belongs to no window: no writer knows it, and its gates are shut.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from tallyroll.adapters.aws.client import Caller, retried
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.items import GATE, Item
from tallyroll.errors import Missing, Refused, Throttled, Unknown, UsageError
from tallyroll.model.items import StoredItem
from tallyroll.ports.backoff import RESTORED_BATCH
from tallyroll.ports.effects import Effects
from tallyroll.resources import TAG_RESTORED, TableDeclaration

BATCH_ITEMS = 25  # DynamoDB API Reference, "BatchWriteItem"
BATCHES_AT_ONCE = 8
ACTIVE_WITHIN_MS = 300_000
ACTIVE_POLL_MS = 500
IMPORT_POLL_MS = 5_000
_OTHER_KEYS = "ValidationException"
# An item in a table that is being restored; no archived item has its key.
_MARKER = {"pk": {"S": "~restoring"}, "sk": {"S": "~restoring"}}


@dataclass(frozen=True, slots=True)
class Import:
    """An import's state: the service's status, the items in the table, the number of items refused,
    and why it failed, if it did.
    """

    arn: str
    status: str
    imported: int
    errors: int
    problem: str = ""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.status not in ("IN_PROGRESS", "CANCELLING")


@dataclass(frozen=True)
class DynamoRestore:
    """Restores archives into DynamoDB tables with these tags, encrypted with the KMS key of this
    ARN, or with DynamoDB's own.
    """

    caller: Caller
    effects: Effects
    tags: Mapping[str, str] = field(default_factory=dict)
    kms_key: str = ""

    def begin(self, table: str, archive: str) -> bool:
        """Make the table, marked as being restored from the archive with this prefix.

        Returns whether the table is already there from an earlier restore of this archive, which is
        continued. Raises UsageError if the table exists for another reason, and StoreError.
        """
        if self._there(table):
            if self._marked(table) != archive:
                raise UsageError(
                    f"table {table!r} exists, and is no unfinished restore of this archive: delete"
                    " it, or restore into another one"
                )
            return True
        declared = TableDeclaration(
            name=table,
            tags={**self.tags, TAG_RESTORED: archive},
            deletion_protection=False,
            kms_key=self.kms_key,
        )
        self.caller.read("CreateTable", **table_request(declared))
        self._await_active(table)
        marker = {**_MARKER, "archive": {"S": archive}}
        self.caller.read("PutItem", TableName=table, Item=marker)
        return False

    def put(self, table: str, items: Iterable[StoredItem]) -> None:
        """Put an archive's items, 25 per request; may be repeated. Every gate is put shut.

        Raises StoreError; the items already put stay.
        """
        left = iter(items)
        while batch := list(islice(left, BATCH_ITEMS * BATCHES_AT_ONCE)):
            jobs = [
                partial(self._put_batch, table, batch[at : at + BATCH_ITEMS])
                for at in range(0, len(batch), BATCH_ITEMS)
            ]
            self.effects.together(jobs, BATCHES_AT_ONCE)

    def end(self, table: str) -> None:
        """Delete the mark; the table then holds exactly the archive's items."""
        self.caller.read("DeleteItem", TableName=table, Key=_MARKER)

    def start_import(self, table: str, bucket: str, data_prefix: str) -> Import:
        """Start ImportTable from an archive's data files into a new table.

        Raises UsageError if the table exists, and StoreError.
        """
        if self._there(table):
            raise UsageError(
                f"table {table!r} exists, and ImportTable makes a new one: delete it, or restore"
                " into another one"
            )
        declared = table_request(TableDeclaration(name=table, kms_key=self.kms_key))
        left_out = ("DeletionProtectionEnabled", "Tags")  # which an import cannot give
        reply = self.caller.read(
            "ImportTable",
            # So an import whose reply was lost is not started twice.
            ClientToken=f"{self.effects.chance.getrandbits(128):032x}",
            S3BucketSource={"S3Bucket": bucket, "S3KeyPrefix": data_prefix},
            InputFormat="DYNAMODB_JSON",
            InputCompressionType="GZIP",
            TableCreationParameters={
                name: value for name, value in declared.items() if name not in left_out
            },
        )
        return _import(reply)

    def await_import(self, started: Import, on_progress: Callable[[int], None]) -> Import:
        """Wait until an import has ended; call `on_progress` with the number of items in the
        table. An import makes tables without tags.

        If the wait is interrupted, the import itself continues.
        """
        state = started
        while not state.over:
            self.effects.sleep(IMPORT_POLL_MS)
            state = _import(self.caller.read("DescribeImport", ImportArn=started.arn))
            on_progress(state.imported)
        return state

    def _there(self, table: str) -> bool:
        try:
            self.caller.read("DescribeTable", TableName=table)
        except Missing:
            return False
        return True

    def _marked(self, table: str) -> str | None:
        """The archive of which the table is an unfinished restore, if it is one."""
        try:
            reply = self.caller.read("GetItem", TableName=table, Key=_MARKER, ConsistentRead=True)
        except Missing:  # still being created
            return None
        except Refused as error:
            if error.code != _OTHER_KEYS:
                raise
            return None
        marked: str | None = reply.get("Item", {}).get("archive", {}).get("S")
        return marked

    def _await_active(self, table: str) -> None:
        until = self.effects.now() + ACTIVE_WITHIN_MS
        while self.effects.now() < until:
            try:
                facts = self.caller.read("DescribeTable", TableName=table)["Table"]
            except Missing:  # eventually consistent: may not list the new table yet
                facts = {}
            if facts.get("TableStatus") == "ACTIVE":
                return
            self.effects.sleep(ACTIVE_POLL_MS)
        raise Unknown(f"table {table} is not active yet: delete it and try again later")

    def _put_batch(self, table: str, items: Sequence[StoredItem]) -> None:
        # A request may not name an item twice. The last one wins, as it would in two requests.
        distinct = {(item.pk, item.sk): item for item in items}
        puts = [{"PutRequest": {"Item": _restored(item)}} for item in distinct.values()]
        request: dict[str, Any] = {table: puts}

        def once() -> None:
            nonlocal request
            reply = self.caller.call("BatchWriteItem", RequestItems=request)
            request = reply.get("UnprocessedItems") or {}
            if request:
                raise Throttled(
                    f"BatchWriteItem: {len(request[table])} items of {table} stay unprocessed after"
                    f" {RESTORED_BATCH.tries} tries: the same command continues from here",
                    "UnprocessedItems",
                )

        retried(self.effects, RESTORED_BATCH, once)


def _restored(item: StoredItem) -> Item:
    """The item with its binaries as bytes; a gate shut, so that no writer writes to the table."""
    shut = {"open": {"BOOL": False}} if item.pk.startswith(GATE) else {}
    attributes = {**item.attributes, **shut}
    return {
        name: {"B": base64.b64decode(value["B"])} if "B" in value else value
        for name, value in attributes.items()
    }


def _import(reply: Mapping[str, Any]) -> Import:
    found = reply["ImportTableDescription"]
    problem = ": ".join(
        found[name] for name in ("FailureCode", "FailureMessage") if found.get(name)
    )
    return Import(
        arn=found["ImportArn"],
        status=found["ImportStatus"],
        imported=found.get("ImportedItemCount") or 0,
        errors=found.get("ErrorCount") or 0,
        problem=problem,
    )
