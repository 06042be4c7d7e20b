"""Checks of what exactness does not need: what an endpoint does otherwise than DynamoDB."""

from __future__ import annotations

from dataclasses import replace

from tallyroll.limits import ITEM_BYTES_MAX, TRANSACTION_ACTIONS_MAX, TRANSACTION_BYTES_MAX
from tallyroll.model.items import sized
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.operations.conform.stage import Broken, Stage, record
from tallyroll.ports.store import Verdict


def request_tokens(stage: Stage) -> str:
    """A transaction that is sent again under its token is not carried out again."""
    if (added := stage.added_twice()) != 1:
        raise Broken(f"a transaction sent twice under one token was carried out {added} times")
    return "a transaction sent twice under one token was carried out once"


def same_item_twice(stage: Stage) -> str:
    """A transaction that names an item twice is refused as a whole."""
    spec = stage.placed()
    one = record(spec, "same", "event")
    outcome = stage.commit(spec, one, one)
    if outcome.verdict is not Verdict.INVALID:
        raise Broken(f"a transaction that names an item twice is answered as {outcome.verdict}")
    return "a transaction that names an item twice is refused"


def item_size(stage: Stage) -> str:
    """Items of up to 400 KB are stored, and larger ones refused."""
    spec = stage.placed()
    whole = _of_size(spec, "whole", ITEM_BYTES_MAX)
    stage.commit_new(spec, whole)

    def look() -> str:
        found = stage.store.record(spec, whole.key, whole.id)
        same = found is not None and found.data == whole.data
        return "" if same else f"an item of {ITEM_BYTES_MAX:,} bytes is not read as it was written"

    stage.at_last(look)
    if _stored(stage, spec, _of_size(spec, "over", ITEM_BYTES_MAX + 2)):
        raise Broken(f"an item of over {ITEM_BYTES_MAX:,} bytes is stored")
    return f"items of {ITEM_BYTES_MAX:,} bytes are stored, and larger ones refused"


def transaction_size(stage: Stage) -> str:
    """Transactions of up to 100 actions and 4 MB are carried out, and larger ones refused."""
    spec = stage.placed()
    many = [record(spec, "many", f"event-{at}") for at in range(TRANSACTION_ACTIONS_MAX - 2)]
    stage.commit_new(spec, *many)
    more = [record(spec, "more", f"event-{at}") for at in range(TRANSACTION_ACTIONS_MAX - 1)]
    if _stored(stage, spec, *more):
        raise Broken(f"a transaction of {TRANSACTION_ACTIONS_MAX + 1} actions is carried out")
    each = ITEM_BYTES_MAX - 1024
    large = [_of_size(spec, f"large-{at}", each) for at in range(TRANSACTION_BYTES_MAX // each + 1)]
    if _stored(stage, spec, *large):
        raise Broken("a transaction of over 4 MB is carried out")
    return f"{TRANSACTION_ACTIONS_MAX} actions are taken; more of them, and over 4 MB, are refused"


def _stored(stage: Stage, spec: Spec, *records: Record) -> bool:
    return stage.commit_settled(spec, *records).verdict is Verdict.COMMITTED


def _of_size(spec: Spec, name: str, size: int) -> Record:
    """A record whose item has so many bytes, or one less: its stripe is chosen later."""
    bare = replace(record(spec, "sized", name), data=b"", format="json")
    return replace(bare, data=b"x" * (size - sized(bare).size), size=0)
