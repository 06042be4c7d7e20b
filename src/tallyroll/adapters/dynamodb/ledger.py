"""The redrive ledger in the catalog's table: one small item per redriven event, kept forever.

pk ~claim#{window}#{key}   sk {record id}   target, at (ms)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallyroll.adapters.dynamodb.attributes import ABSENT, Facts, attributes_of, expressed
from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.adapters.dynamodb.requests import CONDITION_FAILED, DynamoTable
from tallyroll.errors import Refused, Unknown
from tallyroll.model.ids import Identity
from tallyroll.ports.catalog import Claim

_PREFIX = "~claim"


class DynamoLedger:
    """The port of the ledger."""

    _table: DynamoTable

    def claims(self, identities: Sequence[Identity]) -> Mapping[Identity, Claim]:
        found = self._table.get_all([_key(identity) for identity in identities])
        return {_identity(item): Claim(item["target"]["S"], int(item["at"]["N"])) for item in found}

    def claim(self, identity: Identity, wanted: Claim) -> Claim:
        return self._claim_if(expressed(condition=ABSENT), identity, wanted)

    def move(self, identity: Identity, read: Claim, wanted: Claim) -> Claim:
        unchanged = "#target = :target AND #at = :at"
        return self._claim_if(expressed(condition=unchanged, **_facts(read)), identity, wanted)

    def _claim_if(self, condition: Mapping[str, Any], identity: Identity, wanted: Claim) -> Claim:
        """Put a claim, and return the stored one. After a lost reply it finds its own claim."""
        item = _key(identity) | attributes_of(_facts(wanted))
        try:
            self._table.caller.read("PutItem", TableName=self._table.name, Item=item, **condition)
        except Refused as error:
            if error.code != CONDITION_FAILED:
                raise
        else:
            return wanted
        stored = self.claims([identity]).get(identity)
        if stored is None:
            raise Unknown(f"the claim of {identity} existed and is not there", "NotThere")
        return stored


def _facts(claim: Claim) -> Facts:
    return {"target": claim.target, "at": claim.at}


def _key(identity: Identity) -> Key:
    window, key, record_id = identity
    return {"pk": {"S": f"{_PREFIX}#{window}#{key}"}, "sk": {"S": record_id}}


def _identity(item: Item) -> Identity:
    _, window, key = item["pk"]["S"].split("#", 2)
    return window, key, item["sk"]["S"]
