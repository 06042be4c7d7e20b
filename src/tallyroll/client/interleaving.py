"""Spreads keys over time: one item of each key in turn, instead of one key's items in a row.

A partition of a table takes 1,000 write units a second. Items that are sent in the order of their
keys load one partition after the other; the same items in turn load all of them together. Source:
Amazon DynamoDB Developer Guide, "Distributing write activity efficiently during data upload".
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """A queue that gives one item of each key in turn; items of one key keep their order."""

    def __init__(self) -> None:
        self._of_key: OrderedDict[str, deque[T]] = OrderedDict()
        self._items = 0

    def __len__(self) -> int:
        return self._items

    def put(self, key: str, item: T) -> None:
        """Add an item behind those of its key."""
        self._of_key.setdefault(key, deque()).append(item)
        self._items += 1

    def peek(self) -> T:
        """The item whose turn it is. Raises KeyError if there is none."""
        return self._of_key[next(iter(self._of_key))][0]

    def take(self) -> T:
        """Remove the item whose turn it is, and return it. Raises KeyError if there is none."""
        key, items = self._of_key.popitem(last=False)
        item = items.popleft()
        if items:
            self._of_key[key] = items
        self._items -= 1
        return item


def interleaved(items: Iterable[T], key_of: Callable[[T], str], at_once: int) -> Iterator[T]:
    """The items, in turns of their keys within each `at_once` of them."""
    source = iter(items)
    while chunk := list(islice(source, at_once)):
        turns = Turns[T]()
        for item in chunk:
            turns.put(key_of(item), item)
        while turns:
            yield turns.take()
