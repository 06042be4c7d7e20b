"""All alarms: their ids, which are headings in docs/operations.md, and their descriptions.

`observability` makes one alarm of each; a test checks that each has a heading.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FUNCTIONS = ("writer", "aggregator", "roller", "cleanup")

ALARMS: Mapping[str, str] = MappingProxyType(
    {
        "dead-letters": "messages stand in the dead-letter queue, which no count has",
        "dead-letters-expire": "dead letters are at half of their retention",
        "falling-behind": "events wait in the queue for more than forty minutes",
        "events-expire": "events wait in the queue for half of its retention",
        "handed-back": "messages that are over half an hour old come back to the queue",
        "handed-back-expire": "messages come back that are at half of the queue's retention",
        "writer-silent": "the queue holds messages, and writers finish none",
        "notes-failing": "writers cannot note in the catalog what keeps windows open",
        "in-flight": "nearly as many messages are in flight as the queue allows",
        "next-window-missing": "the current window is not open, or the roller says nothing",
        "events-await-window": "events wait for a window that is not there",
        "close-stuck": "more windows are open than should be: one that is over does not close",
        "seal-stuck": "a window that is closing does not get on, and is not sealed",
        "export-stuck": "a window past retention is not archived, proven and dropped",
        "cleanup-silent": "cleanup does not run, or says nothing",
        "proof-mismatch": "an archive or a total does not agree with its window",
        "steps-failing": "steps of the roller or of cleanup fail, again and again",
        "store-throttles": "DynamoDB throttles writes, in every minute of a quarter of an hour",
        "function-throttles": "Lambda throttles functions of the pipeline",
        "reads-failing": "reads are answered with an error of ours",
        "reads-incomplete": "reads are answered without some of the windows that were asked for",
        "window-tables": "window tables near the quota of tables of an account and Region",
        **{f"{name}-errors": f"the {name} fails as a whole" for name in FUNCTIONS},
    }
)


def described(id_: str) -> str:
    """An alarm's description, with a reference to docs/operations.md."""
    return f"{ALARMS[id_]}. What to do: docs/operations.md#{id_}"
