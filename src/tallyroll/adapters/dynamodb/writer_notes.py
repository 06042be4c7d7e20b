"""Writers' notes in the catalog's table. They have a partition key of their own, to which a policy
can restrict writers.

heartbeat  pk ~writers   sk heartbeat               `at`, the latest in ms
finished   pk ~writers   sk finished                the same
reception  pk ~writers   sk batch#{at, ms}#{id}     oldest, newest (ms), digests
"""

from __future__ import annotations

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.adapters.dynamodb.requests import batch_get, query
from tallyroll.ports.effects import Effects
from tallyroll.ports.writer_notes import WRITERS_PK, Heartbeat, Reception

_HEARTBEAT, _FINISHED, _BATCH = "heartbeat", "finished", "batch#"


def put_reception(caller: Caller, table: str, reception: Reception) -> None:
    """Put a note; replaces one with the same id."""
    item: Item = {
        **_reception_key(reception),
        "oldest": {"N": str(reception.oldest)},
        "newest": {"N": str(reception.newest)},
        "digests": {"B": reception.digests},
    }
    caller.read("PutItem", TableName=table, Item=item)


def delete_reception(caller: Caller, table: str, reception: Reception) -> None:
    """Delete a note."""
    caller.read("DeleteItem", TableName=table, Key=_reception_key(reception))


def read_receptions(
    caller: Caller, table: str, since: int, until: int, most: int
) -> list[Reception]:
    """The newest `most` notes put at [since, until) ms, ascending."""
    if since >= until:
        return []
    found: list[Reception] = []
    pages = query(
        caller,
        table,
        "pk = :pk AND sk BETWEEN :first AND :last",
        {
            ":pk": {"S": WRITERS_PK},
            ":first": {"S": _sort_key(since, "")},
            ":last": {"S": _sort_key(until - 1, "~")},
        },
        ScanIndexForward=False,
        Limit=most,
    )
    for page in pages:
        found += map(_reception, page)
        if len(found) >= most:
            break
    return found[:most][::-1]


def beat_change(name: str, at: int) -> dict[str, object]:
    """The update that stores `at` (ms) as a heartbeat, unless a later one is stored."""
    return {
        "Key": _key(name),
        "UpdateExpression": "SET #at = :now",
        "ConditionExpression": "attribute_not_exists(#at) OR #at < :now",
        "ExpressionAttributeNames": {"#at": "at"},
        "ExpressionAttributeValues": {":now": {"N": str(at)}},
    }


def beats(at: int, *, finished: bool) -> list[dict[str, object]]:
    """The updates of one heartbeat."""
    return [beat_change(name, at) for name in (_HEARTBEAT, *[_FINISHED] * finished)]


def read_heartbeat(caller: Caller, effects: Effects, table: str) -> Heartbeat:
    """The last heartbeat of all writers."""
    found = batch_get(caller, effects, table, [_key(_HEARTBEAT), _key(_FINISHED)])
    times = {item["sk"]["S"]: int(item["at"]["N"]) for item in found}
    return Heartbeat(times.get(_HEARTBEAT), times.get(_FINISHED))


def _key(name: str) -> Key:
    return {"pk": {"S": WRITERS_PK}, "sk": {"S": name}}


def _reception_key(reception: Reception) -> Key:
    return _key(_sort_key(reception.at, reception.id))


def _sort_key(at: int, note_id: str) -> str:
    return f"{_BATCH}{max(0, at):015d}#{note_id}"


def _reception(item: Item) -> Reception:
    _, at, note_id = item["sk"]["S"].split("#")
    return Reception(
        note_id,
        int(at),
        int(item["oldest"]["N"]),
        int(item["newest"]["N"]),
        bytes(item["digests"]["B"]),
    )
