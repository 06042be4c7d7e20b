"""A window of which events were retracted, archived; and items to damage it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from random import Random
from typing import Any

from tallyroll.adapters.dynamodb.items import Item, parse_item
from tallyroll.client.packing import pack
from tallyroll.model.records import Record
from tallyroll.model.totals import Correction
from tests.harness.archives import PACKED, SINGLES, Archived, as_archived, event_of
from tests.harness.archives import sealed_and_exported as exported
from tests.harness.pipeline import NOW
from tests.harness.retracting import QUEUE, retraction

MAPPING = {"keys": ["{a}", "{b}"], "id": "name", "value": "worth", "ts": "at"}
BOTH = {"name": "both", "a": "k1", "b": "k2", "at": NOW, "worth": 8}
RETRACTIONS: tuple[dict[str, Any], ...] = (
    *({"key": "k1", "id": "e4"}, {"key": "k2", "id": "e2"}),
    *({"key": "k0", "id": "p", "index": index} for index in (1, 3)),
    {"key": "large", "id": "q", "index": 2},
    {"key": "k2", "id": "both"},
)
"""Of nine in the window; all events of `k2` are among them. Those of packets are of one in chunks,
too.
"""
LIKE_PACKED: tuple[dict[str, Any], ...] = tuple(
    {"key": "k0", "id": f"p:{index}", "ts": NOW, "value": 10 + index, "v": 1} for index in (2, 3)
)
"""Events with ids of their own, like those of the packet's events 2 and 3, of which 3 is taken."""


def bodies() -> list[Any]:
    chance = Random(5)
    large = [
        {"key": "large", "ts": NOW + n, "value": n, "payload": chance.randbytes(15_000).hex()}
        for n in range(5)
    ]
    packed = [*pack(map(event_of, PACKED), lambda: "p"), *pack(map(event_of, large), lambda: "q")]
    return [*({**body, "v": 1} for body in SINGLES), *packed, BOTH]


def retracted_archive(
    *,
    proven: bool = True,
    attempt: str = "a1",
    segments: int = 2,
    without: Sequence[str] = (),
    more: Sequence[Any] = (),
    logs: Mapping[str, int] | None = None,
) -> Archived:
    """The window at 08 with single events, packets and one of two keys, some of them retracted; but
    not those `without`, by their ids. `more` are further events, `logs` the setting.
    """
    asked = [retraction(**fields) for fields in RETRACTIONS if fields["id"] not in without]
    settings = replace(QUEUE, mapping=MAPPING, logs=logs or {})
    made = exported([*bodies(), *more], attempt, segments, settings, asked)
    return as_archived(*made, proven=proven)


def of_kind(archive: Archived, *begins: str) -> list[Item]:
    """The archived items whose sort keys begin with one of these."""
    return [item for item in archive.items() if item["sk"]["S"].startswith(begins)]


def correction_of(archive: Archived, sk: str, index: int | None = None, **more: Any) -> Correction:
    """The correction of the event that has a record of this sort key, or of one in its packet."""
    record = min(map(parse_item, of_kind(archive, sk)), key=attrgetter("key"))
    assert isinstance(record, Record)
    facts: dict[str, Any] = {
        "window": archive.window.id,
        "id": record.id,
        "keys": record.keys or (record.key,),
        "n": 1,
        "amount": record.amount,
        "digest": record.digest,
        "at": NOW,
        "by": "bob",
        "why": "ä \n late",
        "index": index,
    }
    return Correction(**{**facts, **more})
