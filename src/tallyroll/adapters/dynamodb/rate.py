"""The lines of the shared write rate: one item of the catalog's table, which writers update.
Imported only if there is a write rate.

pk ~writers   sk rate   writes, returns: the ends of both lines, in microseconds
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyroll.adapters.aws.client import response_of
from tallyroll.adapters.dynamodb.attributes import expressed
from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.adapters.dynamodb.requests import (
    CONDITION_FAILED,
    CONFLICTS,
    DynamoTable,
    throttled_if,
)
from tallyroll.errors import Refused, Throttled
from tallyroll.ports.backoff import RATE_LINE
from tallyroll.ports.rate import Turn
from tallyroll.ports.writer_notes import WRITERS_PK

_KEY: Key = {"pk": {"S": WRITERS_PK}, "sk": {"S": "rate"}}


def append_turn(table: DynamoTable, turn: Turn) -> int:
    """Append a span to its line; see `SharedRate.take_turn`.

    One conditional update does it. A second one is needed only where the line's end is in the past,
    or is not believed. A call that is repeated after a lost reply may append its span twice: then
    less is written, never more.
    """
    line, span = turn.line.value, turn.span
    bounds = {"earliest": turn.earliest, "latest": turn.latest}
    within = f"#{line} BETWEEN :earliest AND :latest"
    add = expressed(f"SET #{line} = #{line} + :span", within, span=span, **bounds)
    for _ in RATE_LINE.attempts(table.effects):
        done, item = _change(table, add)
        end = int(item[line]["N"]) if line in item else None
        if done:
            assert end is not None
            return end - span
        start = turn.read_at(table.effects.now() * 1_000).start_after(end)
        if start > turn.latest:
            return start
        # Others may have begun the line anew since this one read its end.
        unchanged = f"attribute_not_exists(#{line})" if end is None else f"#{line} = :end"
        known = {} if end is None else {"end": end}
        anew = expressed(f"SET #{line} = :begun", unchanged, begun=start + span, **known)
        if _change(table, anew)[0]:
            return start
    raise Throttled(f"the line of {line} changed {RATE_LINE.tries} times meanwhile", "Contended")


def _change(table: DynamoTable, change: Mapping[str, Any]) -> tuple[bool, Item]:
    """Whether the update was carried out, and the item's lines after it, or instead of it."""
    try:
        with throttled_if(*CONFLICTS):
            reply = table.caller.read(
                "UpdateItem",
                TableName=table.name,
                Key=_KEY,
                ReturnValues="UPDATED_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **change,
            )
    except Refused as error:
        if error.code != CONDITION_FAILED:
            raise
        return False, response_of(error).get("Item", {})
    return True, reply["Attributes"]
