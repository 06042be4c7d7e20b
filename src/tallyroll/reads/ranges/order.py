"""The order of keys in ranges, and stretches of it.

Keys are in the order of the keys with a slash behind each. So a key comes after those that begin
with it and a character up to the dot: the stripes of `a.1` lie between those of `a`, which are
`a.1`, `a.2` and so on. Listings of totals are in the order of the keys themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tallyroll.model.totals import Listed

_HIGHEST = chr(sys.maxunicode)
_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000  # of which no text holds one


@dataclass(frozen=True, slots=True)
class Stretch:
    """The keys that begin with `prefix` and come after the key `last`; all, if both are empty.

    Listings are read from `row_before` on, and stripes from `place_before` on, less the rows that
    it does not have. Only the keys `apart` may lie before them: `last` begins with each of these.
    """

    prefix: str = ""
    last: str = ""

    @property
    def row_before(self) -> str:
        """A text that all its keys follow in code point order, but for those `apart`."""
        if self.last:
            return f"{self.last}.{_HIGHEST}"
        if not self.prefix:
            return ""
        code = ord(self.prefix[-1])
        code = _BEFORE_SURROGATES if code == _AFTER_SURROGATES else code - 1
        return f"{self.prefix[:-1]}{chr(code)}{_HIGHEST}"

    @property
    def place_before(self) -> str:
        """A text that all stripes of its keys follow, but for those of keys `apart`."""
        return f"{self.last}/" if self.last else self.prefix

    @property
    def apart(self) -> list[str]:
        """The keys, whether they exist or not, with which `last` begins and which come after it."""
        ends = range(max(1, len(self.prefix)), len(self.last))
        return [self.last[:end] for end in ends if self.last[end] < "/"]

    def has(self, key: str) -> bool:
        """Whether a key is one of it, and not `apart`."""
        if not key.startswith(self.prefix):
            return False
        return not self.last or (f"{key}/" > f"{self.last}/" and not self.last.startswith(key))

    def is_past(self, text: str) -> bool:
        """Whether a key or place lies behind all that begin with the prefix."""
        return text > self.prefix and not text.startswith(self.prefix)

    def of(self, pages: Iterator[list[Listed]]) -> Iterator[list[Listed]]:
        """Of pages in code point order, read from `row_before` on, the rows of it."""
        for page in pages:
            yield [row for row in page if self.has(row.key)]
            if page and self.is_past(page[-1].key):
                return


ALL = Stretch()


def rank(row: Listed) -> str:
    """A row's place in the order."""
    return f"{row.key}/"


def ranked(pages: Iterator[list[Listed]]) -> Iterator[list[Listed]]:
    """Pages of rows in the order of keys, in the order of `rank`. A row waits while later keys
    begin with its own and a character up to the dot: each that waits begins the next.
    """
    waiting: list[Listed] = []
    for page in pages:
        ended = []
        for row in page:
            while waiting and rank(waiting[-1]) < rank(row):
                ended.append(waiting.pop())
            waiting.append(row)
        if ended:
            yield ended
    if waiting:
        yield waiting[::-1]
