"""Numbers with their nouns, as people write them."""

from __future__ import annotations


def numbered(number: int, noun: str) -> str:
    """`1 writer`, `3,000 writers`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
