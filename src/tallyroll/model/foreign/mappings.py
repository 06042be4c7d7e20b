"""The mappings of a pipeline, over time. Every reader uses the same mapping for a message.

The list only grows, and is stored with the calendar. An entry holds for messages that were sent
from its `since` on, until the next entry's. `until` is the bound of what is settled: a later entry
begins at `until` or after. A reader of a message that was sent at `until` or after first raises
`until`, and reads the list with it. So every reader finds the same entry for a message, however old
its list is, and without any clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tallyroll import limits
from tallyroll.errors import UsageError
from tallyroll.model.events import ENVELOPE_VERSION, REFERENCE, REFERRING_VERSION

UNMAPPED = ""
"""The text of a mapping without fields: only events of Tallyroll's own form count."""

Fields = Mapping[str, str | Sequence[str]]
"""A mapping as its object: the expression of each field, and a list of templates in `keys`."""


def are_fields(value: object) -> bool:
    """Whether a value has the types of a mapping."""
    return isinstance(value, Mapping) and all(
        isinstance(each, list | tuple) and all(isinstance(text, str) for text in each)
        if name == "keys"
        else isinstance(each, str)
        for name, each in value.items()
    )


@dataclass(frozen=True, slots=True)
class Mappings:
    """The mappings of a pipeline: `entries` are (since, text) pairs, in their order, times in ms.

    If `marked`, a message is Tallyroll's own event only with `"v": 1`, and all others are mapped.
    Pipelines are so that had a mapping from their first window on. In others every message with a
    field `key` is Tallyroll's own, as it was before there was a mapping.
    """

    entries: tuple[tuple[int, str], ...] = ()
    until: int = 0
    marked: bool = False

    @property
    def latest(self) -> str:
        """The text of the last mapping."""
        return self.entries[-1][1] if self.entries else UNMAPPED

    def keep(self, fields: Mapping[str, Any]) -> bool:
        """Whether an object with a field `key` is Tallyroll's own event or packet, unmapped."""
        version = fields.get("v")
        own = (ENVELOPE_VERSION, *([REFERRING_VERSION] if REFERENCE in fields else []))
        return not self.marked or (version in own and not isinstance(version, bool))

    def settles(self, sent: int) -> bool:
        """Whether no later entry can hold for a message that was sent at `sent` (ms)."""
        return not self.entries or sent < self.until

    def of(self, sent: int) -> list[str]:
        """The texts of the mappings to try on a message that was sent at `sent`: first the one that
        holds for it, then those that came later.

        If the first fails, the message has no key yet, so a later one may give it one. Once one of
        them does, it stays the first that does, because the list only grows.
        """
        past = [index for index, (since, _) in enumerate(self.entries) if since <= sent]
        return [text for _, text in self.entries[past[-1] if past else 0 :]]

    def with_latest(self, text: str) -> Mappings:
        """The same with another entry, from `until` on. Raises UsageError if there are too many."""
        if len(self.entries) >= limits.MAPPINGS_MAX:
            raise UsageError(
                f"the mapping was changed {limits.MAPPINGS_MAX} times, and is not changed again:"
                " make a new pipeline"
            )
        return replace(self, entries=(*self.entries, (self.until, text)))


NO_MAPPINGS = Mappings()


def founded_with(text: str) -> Mappings:
    """The mappings of a new pipeline whose settings have this one."""
    return NO_MAPPINGS if text == UNMAPPED else Mappings(((0, text),), marked=True)
