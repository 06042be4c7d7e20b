"""What operators decide of single events, in the catalog's table: small items, kept forever.

claim          pk ~claim#{window}#{key}    sk {record id}            target, at (ms)
authorization  pk ~retract#{window}#{key}  sk r#{record id}          by, why, at (ms), keys;
               pk ~retract#{window}#{key}  sk p#{record id}#{index}  n, v, h if proven
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallyroll.adapters.dynamodb.attributes import (
    ABSENT,
    Facts,
    attributes_of,
    expressed,
    facts_of,
)
from tallyroll.adapters.dynamodb.items import Item, Key, tombstone_key, tombstone_place
from tallyroll.adapters.dynamodb.requests import CONDITION_FAILED, DynamoTable
from tallyroll.errors import Refused, Unknown
from tallyroll.model.amounts import format_amount, read_amount
from tallyroll.model.ids import Identity
from tallyroll.model.retractions import Authorization, RetractionTarget
from tallyroll.ports.catalog import Claim

_PREFIX = "~claim"
_RETRACT = "~retract"


class DynamoLedger:
    """The ports of the ledger and of authorizations."""

    _table: DynamoTable

    def claims(self, identities: Sequence[Identity]) -> Mapping[Identity, Claim]:
        found = self._table.get_all([_key(identity) for identity in identities])
        return {_identity(item): _claim(item) for item in found}

    def claim(self, identity: Identity, wanted: Claim) -> Claim:
        return self._claim_if(expressed(condition=ABSENT), identity, wanted)

    def move(self, identity: Identity, read: Claim, wanted: Claim) -> Claim:
        unchanged = "#target = :target AND #at = :at"
        return self._claim_if(expressed(condition=unchanged, **_facts(read)), identity, wanted)

    def _claim_if(self, condition: Mapping[str, Any], identity: Identity, wanted: Claim) -> Claim:
        """Put a claim, and return the stored one. After a lost reply it finds its own claim."""
        item = _key(identity) | attributes_of(_facts(wanted) | {"sent": wanted.sent})
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

    def authorizations(
        self, targets: Sequence[RetractionTarget]
    ) -> Mapping[RetractionTarget, Authorization]:
        found = self._table.get_all([_target_key(target) for target in targets])
        return {each.target: each for each in map(_authorization, found)}

    def authorize(self, authorization: Authorization) -> None:
        facts: Facts = {
            "by": authorization.by,
            "why": authorization.why,
            "at": authorization.at,
            "keys": list(authorization.keys),
        }
        if authorization.proven:
            n, amount, digest = authorization.proven
            facts |= {"n": n, "h": digest, "v": format_amount(amount)}
        item = _target_key(authorization.target) | attributes_of(facts)
        self._table.caller.read("PutItem", TableName=self._table.name, Item=item)


def _target_key(target: RetractionTarget) -> Key:
    window, key, record_id, index = target
    place = tombstone_key(key, 0, record_id, index)
    return {"pk": {"S": f"{_RETRACT}#{window}#{key}"}, "sk": place["sk"]}


def _authorization(item: Item) -> Authorization:
    _, window, key = item["pk"]["S"].split("#", 2)
    facts = facts_of({name: of for name, of in item.items() if name not in ("pk", "sk")})
    proven = (facts["n"], read_amount(facts["v"]), facts["h"]) if "h" in facts else None
    return Authorization(
        (window, key, *tombstone_place(item["sk"]["S"])),
        by=facts["by"],
        why=facts["why"],
        at=facts["at"],
        keys=tuple(facts["keys"]),
        proven=proven,
    )


def _claim(item: Item) -> Claim:
    sent = int(item["sent"]["N"]) if "sent" in item else None
    return Claim(item["target"]["S"], int(item["at"]["N"]), sent)


def _facts(claim: Claim) -> Facts:
    return {"target": claim.target, "at": claim.at}


def _key(identity: Identity) -> Key:
    window, key, record_id = identity
    return {"pk": {"S": f"{_PREFIX}#{window}#{key}"}, "sk": {"S": record_id}}


def _identity(item: Item) -> Identity:
    _, window, key = item["pk"]["S"].split("#", 2)
    return window, key, item["sk"]["S"]
