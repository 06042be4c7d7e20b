"""Operators' wishes for the shards of keys, in the catalog's table: one item for all of them.

wishes  pk ~catalog  sk wishes  wishes {key: {shards, since, until, at}}, version

Releases before wishes neither read the item nor check its version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tallyroll.adapters.aws.client import retried
from tallyroll.adapters.dynamodb.attributes import ABSENT, attributes_of, expressed, facts_of
from tallyroll.adapters.dynamodb.catalog_items import CATALOG_PK, VERSION_UNCHANGED
from tallyroll.adapters.dynamodb.items import Key
from tallyroll.adapters.dynamodb.requests import CONDITION_FAILED, CONFLICTS, Action, DynamoTable
from tallyroll.errors import Refused, StateConflict, Unknown
from tallyroll.model.states import Wish, Wishes
from tallyroll.ports.backoff import TRANSACTION

WISHES: Key = {"pk": {"S": CATALOG_PK}, "sk": {"S": "wishes"}}


class DynamoWishes:
    """The port of wishes."""

    _table: DynamoTable

    def wishes(self) -> Wishes:
        item = self._table.get(WISHES)
        if item is None:
            return Wishes()
        facts = facts_of(item)
        return Wishes({key: _wish(of) for key, of in facts["wishes"].items()}, facts["version"])

    def put_wishes(self, read: Wishes, wanted: Mapping[str, Wish]) -> Wishes:
        changed = Wishes(dict(wanted), read.version + 1)
        stored = {key: asdict(wish) for key, wish in wanted.items()}
        item = WISHES | attributes_of({"wishes": stored, "version": changed.version})
        unknown = False

        def once() -> Wishes:
            nonlocal unknown
            try:
                self._table.caller.call(
                    "PutItem", TableName=self._table.name, Item=item, **_unchanged(read.version)
                )
            except Unknown:
                unknown = True
                raise
            except Refused as error:
                if error.code != CONDITION_FAILED:
                    raise
                if not (unknown and self.wishes() == changed):
                    raise StateConflict("the wishes have changed since they were read") from error
            return changed

        return retried(
            self._table.effects, TRANSACTION, once, lambda error: error.code in CONFLICTS
        )


def unchanged_check(table: str, version: int) -> Action:
    """The action that lets a transaction succeed only while the wishes are at this version."""
    return {"ConditionCheck": {"TableName": table, "Key": WISHES, **_unchanged(version)}}


def _unchanged(version: int) -> dict[str, Any]:
    return expressed(condition=VERSION_UNCHANGED, read=version) if version else _NEVER_PUT


def _wish(facts: Mapping[str, Any]) -> Wish:
    return Wish(facts["shards"], facts["since"], facts.get("until"), facts["at"])


_NEVER_PUT = expressed(condition=ABSENT)
