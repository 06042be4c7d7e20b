"""The pages: which alarms call somebody, at any hour. Their ids are headings in
docs/operations.md, as those of the alarms are (alarm_rules.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Page:
    """What somebody is called for, at any hour: one composite alarm, on while any of `alarms` is.

    Alarms of no page can wait for the next working day.
    """

    text: str
    alarms: tuple[str, ...]


PAGES: Mapping[str, Page] = MappingProxyType(
    {
        "page-wrong-counts": Page("a count may be wrong", ("proof-mismatch",)),
        "page-events-expire": Page(
            "events will be deleted that no count has",
            ("events-expire", "dead-letters-expire", "handed-back-expire", "writer-silent-expire"),
        ),
        "page-not-counting": Page(
            "events are not counted, or will not be soon",
            (
                "mostly-rejected",
                "mapping-disabled",
                "writer-silent",
                "writer-errors",
                "falling-behind",
                "in-flight",
                "next-window-missing",
                "events-await-window",
                "window-tables",
            ),
        ),
        "page-no-reads": Page(
            "counts cannot be read", ("reads-failing", "api-errors", "aggregator-errors")
        ),
    }
)
