"""Writers' notes in the catalog's table. They have a partition key of their own, to which a policy
can restrict writers.

heartbeat  pk ~writers   sk heartbeat               `at`, the latest in ms
finished   pk ~writers   sk finished                the same
reception  pk ~writers   sk batch#{at, ms}#{id}     oldest, newest (ms), digests
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice

from tallyroll.adapters.dynamodb.attributes import attributes_of, facts_of, known_fields
from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.adapters.dynamodb.requests import DynamoTable
from tallyroll.ports.writer_notes import WRITERS_PK, Heartbeat, Reception

_HEARTBEAT, _FINISHED, _BATCH = "heartbeat", "finished", "batch#"


class DynamoWriterNotes:
    """The port of writers' notes."""

    _table: DynamoTable

    def note_received(self, reception: Reception) -> None:
        facts = asdict(reception)
        del facts["id"], facts["at"]  # they are the key
        item = _reception_key(reception) | attributes_of(facts)
        self._table.caller.read("PutItem", TableName=self._table.name, Item=item)

    def clear_received(self, reception: Reception) -> None:
        key = _reception_key(reception)
        self._table.caller.read("DeleteItem", TableName=self._table.name, Key=key)

    def receptions(self, since: int, until: int, most: int) -> list[Reception]:
        if since >= until:
            return []
        first, last = _sort_key(since, ""), _sort_key(until - 1, "~")
        newest = self._table.between(WRITERS_PK, first, last, ScanIndexForward=False, Limit=most)
        return [_reception(item) for item in islice(newest, most)][::-1]

    def beat(self, at: int, *, finished: bool) -> None:
        for name in (_HEARTBEAT, *[_FINISHED] * finished):
            self._table.keep_latest(_key(name), at)

    def heartbeat(self) -> Heartbeat:
        found = self._table.get_all([_key(_HEARTBEAT), _key(_FINISHED)])
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
    facts = facts_of(item) | {"id": note_id, "at": int(at)}
    return Reception(**known_fields(Reception, facts))
