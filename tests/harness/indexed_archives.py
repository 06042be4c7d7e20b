"""Archives with an index, though they are small; and what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.indexed import entries, making, members
from tallyroll.archive.indexed.finding import IndexedArchive
from tallyroll.archive.layout import ArchivedItem, read_items
from tallyroll.archive.proof import prove
from tallyroll.model.records import Record
from tests.harness.archives import Archived
from tests.harness.pipeline import NOW, SECOND

LATER = NOW + 60 * SECOND


def indexed(patch: pytest.MonkeyPatch) -> None:
    """Small archives have an index, too, of several partitions, and files several members."""
    patch.setattr(making, "INDEXED_OVER", 0)
    patch.setattr(entries, "PARTITION_ENTRIES", 8)
    patch.setattr(making, "GROUP", 2)
    patch.setattr(members, "MEMBER_BYTES", 1_000)


def index(of: Archived) -> dict[str, bytes]:
    return {key: of.bucket.get(key) for key in of.bucket.list(f"{of.prefix}/index/")}


def run(of: Archived, deadline: int = LATER) -> int | None:
    ports = (CODEC, of.bucket, of.pipeline.totals, of.pipeline.effects)
    return prove(of.window, of.pipeline.spec(), *ports, deadline)


def items(of: Archived) -> Iterator[ArchivedItem]:
    return chain.from_iterable(
        read_items(of.bucket, file, CODEC, pytest.fail) for file in of.files()
    )


def opened(of: Archived) -> IndexedArchive:
    found = IndexedArchive.opened(of.bucket, of.prefix, CODEC)
    assert found
    return found


def names(of: Archived) -> list[tuple[str, str]]:
    return [(each.holds.key, each.holds.id) for each in items(of) if isinstance(each.holds, Record)]
