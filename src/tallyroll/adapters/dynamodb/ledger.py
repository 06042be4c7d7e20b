"""The redrive ledger in the catalog's table: one small item per redriven event, kept forever.

pk ~claim#{window}#{key}   sk {record id}   target, at (ms)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.adapters.dynamodb.requests import CONDITION_FAILED, batch_get
from tallyroll.errors import Refused, Unknown
from tallyroll.model.ids import Identity
from tallyroll.ports.catalog import Claim
from tallyroll.ports.effects import Effects

_PREFIX = "~claim"


def read_claims(
    caller: Caller, effects: Effects, table: str, identities: Sequence[Identity]
) -> Mapping[Identity, Claim]:
    """The existing claims of these distinct identities."""
    found = batch_get(caller, effects, table, [_key(identity) for identity in identities])
    return {_identity(item): Claim(item["target"]["S"], int(item["at"]["N"])) for item in found}


def put_claim(
    caller: Caller,
    effects: Effects,
    table: str,
    identity: Identity,
    read: Claim | None,
    wanted: Claim,
) -> Claim:
    """Replace the claim `read` (None: absent) if it is unchanged; return the stored claim.

    May be repeated: after a lost reply it finds its own claim.
    """
    condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(pk)"}
    if read:
        condition = {
            "ConditionExpression": "#target = :target AND #at = :at",
            "ExpressionAttributeNames": {"#target": "target", "#at": "at"},
            "ExpressionAttributeValues": _facts(read, ":"),
        }
    item = _key(identity) | _facts(wanted)
    try:
        caller.read("PutItem", TableName=table, Item=item, **condition)
    except Refused as error:
        if error.code != CONDITION_FAILED:
            raise
    else:
        return wanted
    stored = read_claims(caller, effects, table, [identity]).get(identity)
    if stored is None:
        raise Unknown(f"the claim of {identity} existed and is not there", "NotThere")
    return stored


def _facts(claim: Claim, prefix: str = "") -> Item:
    return {f"{prefix}target": {"S": claim.target}, f"{prefix}at": {"N": str(claim.at)}}


def _key(identity: Identity) -> Key:
    window, key, record_id = identity
    return {"pk": {"S": f"{_PREFIX}#{window}#{key}"}, "sk": {"S": record_id}}


def _identity(item: Item) -> Identity:
    _, window, key = item["pk"]["S"].split("#", 2)
    return window, key, item["sk"]["S"]
