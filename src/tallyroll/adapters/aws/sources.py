"""The event sources of a function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.errors import Missing
from tallyroll.resources import ALIAS_LIVE


def mappings(caller: Caller, function: str) -> Iterator[Mapping[str, Any]]:
    """The event source mappings of a function and of its alias, each once; none if there is no such
    function.

    A mapping of an alias is asked for by the alias: no document says that the function's name finds
    it too. Source: AWS Lambda API Reference, ListEventSourceMappings, at FunctionName.
    """
    seen: set[str] = set()
    for name in (function, f"{function}:{ALIAS_LIVE}"):
        for found in _pages(caller, name):
            if found["UUID"] not in seen:
                seen.add(found["UUID"])
                yield found


def _pages(caller: Caller, name: str) -> Iterator[Mapping[str, Any]]:
    more: dict[str, str] = {}
    while True:
        try:
            reply = caller.read("ListEventSourceMappings", FunctionName=name, **more)
        except Missing:
            return
        yield from reply.get("EventSourceMappings", ())
        if not reply.get("NextMarker"):
            return
        more = {"Marker": reply["NextMarker"]}
