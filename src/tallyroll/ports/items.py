"""How a store writes items to archives, and what it reads in them."""

from __future__ import annotations

from typing import Protocol

from tallyroll.model.items import Content, StoredItem


class ItemCodec(Protocol):
    """A store's form of items, and of the lines that hold them in archives."""

    def encode(self, item: StoredItem) -> bytes:
        """The item as one line of an archive, with its line feed."""
        ...

    def decode(self, line: bytes) -> StoredItem:
        """The item in a line of an archive. Raises ValueError for any other line."""
        ...

    def parse(self, item: StoredItem) -> Content:
        """What an item holds. Raises ValueError for an item of another form."""
        ...
