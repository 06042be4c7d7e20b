"""Reads records from DynamoDB: by their names, or page by page from one shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.items import (
    RECORD,
    RECORDS_END,
    Item,
    parse_item,
    record_key,
    shown_key,
)
from tallyroll.adapters.dynamodb.requests import batch_get
from tallyroll.errors import Refused
from tallyroll.model.records import Page, Record, RecordName
from tallyroll.model.specs import Spec
from tallyroll.ports.effects import Effects

_JUST_AFTER = "\0"  # no text sorts between an id and the id with this appended


def records_named(
    caller: Caller, effects: Effects, spec: Spec, names: Sequence[RecordName]
) -> Mapping[RecordName, Record]:
    """The existing records of these names, by consistent BatchGetItem on calculated suffixes.

    Raises Missing, Throttled and Refused.
    """
    keys = [record_key(key, spec.shard(key, name), name) for key, name in dict.fromkeys(names)]
    found = map(_record, batch_get(caller, effects, spec.table, keys))
    return {(record.key, record.id): record for record in found}


def records_after(caller: Caller, table: str, key: str, shard: int, after: str, limit: int) -> Page:
    """At most `limit` records of one shard that follow the id `after`, by a consistent Query.

    A page also ends at 1 MB (DynamoDB Developer Guide, "Paginating table query results"). Sort keys
    are ordered by their UTF-8 bytes, like Python's texts. Raises Missing and Refused.
    """
    values = {
        ":pk": {"S": f"{key}.{shard}"},
        ":from": {"S": RECORD + (after + _JUST_AFTER if after else "")},
        ":to": {"S": RECORDS_END},
    }
    more: dict[str, Any] = {}
    while True:
        reply = caller.read(
            "Query",
            TableName=table,
            ConsistentRead=True,
            KeyConditionExpression="pk = :pk AND sk BETWEEN :from AND :to",
            ExpressionAttributeValues=values,
            Limit=limit,
            **more,
        )
        records = tuple(map(_record, reply["Items"]))
        last = reply.get("LastEvaluatedKey")
        if records or not last:
            return Page(records, more=bool(last))
        more["ExclusiveStartKey"] = last


def _record(item: Item) -> Record:
    found = parse_item(item)
    if not isinstance(found, Record):
        raise Refused(f"item {shown_key(item)} is not a record", "NotARecord")
    return found
