"""All alarms and pages: their ids, which are headings in docs/operations.md, and their texts.

`observability` makes one alarm of each; a test checks that each has a heading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

FUNCTIONS = ("writer", "aggregator", "roller", "cleanup", "dropper")
RUNBOOK = "docs/operations.md"

ALARMS: Mapping[str, str] = MappingProxyType(
    {
        "dead-letters": "messages stand in the dead-letter queue, which no count has",
        "dead-letters-expire": "dead letters are at half of their retention",
        "rejections": "writers reject more than ten messages in five minutes",
        "mostly-rejected": "writers reject more than half of the messages that they finish",
        "mapping-disabled": "nobody polls the event queue: is the event source mapping disabled?",
        "falling-behind": "events wait in the queue for more than forty minutes",
        "events-expire": "events wait in the queue for half of its retention",
        "handed-back": "messages that are over half an hour old come back to the queue",
        "handed-back-expire": "messages come back that are at half of the queue's retention",
        "writer-silent": "the queue holds messages, and writers finish none",
        "writer-silent-expire": "writers have finished nothing for half of the queue's retention",
        "writer-slow": "writers need nearly all of their time for a batch",
        "notes-failing": "writers cannot note in the catalog what keeps windows open",
        "in-flight": "nearly as many messages are in flight as the queue allows",
        "next-window-missing": "the current window is not open, or the roller says nothing",
        "events-await-window": "events wait for a window that is not there",
        "close-stuck": "more windows are open than should be: one that is over does not close",
        "seal-stuck": "a window that is closing does not get on, and is not sealed",
        "export-stuck": "a window past retention is not archived, proven and dropped",
        "cleanup-silent": "cleanup does not run, or says nothing",
        "proof-mismatch": "an archive or a total does not agree with its window",
        "steps-failing": "steps of roller, cleanup or dropper fail, again and again",
        "store-throttles": "DynamoDB throttles writes for most of a quarter of an hour",
        "rate-outrun": "more messages arrive than the write rate lets through",
        "function-throttles": "Lambda throttles functions of the pipeline",
        "reads-failing": "one read in twenty, or more, is answered with an error of ours",
        "reads-incomplete": "reads are answered without some of the windows that were asked for",
        "reads-slow": "one read in a hundred takes more than five seconds",
        "api-errors": "the API answers one request in twenty, or more, with status 5xx",
        "window-tables": "tables near the quota of tables of an account and Region",
        **{f"{name}-errors": f"the {name} fails as a whole" for name in FUNCTIONS},
    }
)


@dataclass(frozen=True, slots=True)
class PagingAlarm:
    """What somebody is called for, at any hour: one composite alarm, on while any of `alarms` is.

    Alarms of no page can wait for the next working day.
    """

    text: str
    alarms: tuple[str, ...]


PAGES: Mapping[str, PagingAlarm] = MappingProxyType(
    {
        "page-wrong-counts": PagingAlarm("a count may be wrong", ("proof-mismatch",)),
        "page-events-expire": PagingAlarm(
            "events will be deleted that no count has",
            (
                "events-expire",
                "dead-letters-expire",
                "handed-back-expire",
                "writer-silent-expire",
            ),
        ),
        "page-not-counting": PagingAlarm(
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
        "page-no-reads": PagingAlarm(
            "counts cannot be read", ("reads-failing", "api-errors", "aggregator-errors")
        ),
    }
)


def described(id_: str, runbook: str = "") -> str:
    """The description of an alarm or a page, with the address of its entry in the runbook: the
    option `runbook_url`, or the document's place in the repository.
    """
    text = ALARMS[id_] if id_ in ALARMS else PAGES[id_].text
    return f"{text}. What to do: {runbook or RUNBOOK}#{id_}"
