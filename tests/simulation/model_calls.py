"""The model's calls to which the steps of the real functions are mapped, and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallyroll.ports.store import Answer, Verdict

DONE = "committed"
MAPPED = (
    *("deliver", "hand back", "read claim", "commit", "read record", "read state"),
    *("read identity", "reject", "ack"),
    *("take letter", "leave letter", "look up claim", "look at state", "look up record"),
    *("look up identity", "claim", "redrive", "delete letter"),
    *("close", "shut gate", "note shut", "put total", "seal", "export", "prove", "tag"),
    *("drop table", "finish", "make table late"),
    *("put tombstone", "read tombstone", "put correction", "read item", "prove in archive"),
)


def mark_of(call: str) -> str:
    """The name of the mark of a call."""
    return f"model-{call.replace(' ', '-')}"


def answer_of(outcome: Any, records: Sequence[Any], indices: Sequence[int]) -> str:
    """The model's answer of a transaction for the records of one event; "" if that was not decided:
    for the model, it was not sent then.
    """
    match outcome.verdict:
        case Verdict.COMMITTED:
            return DONE
        case Verdict.GATE_SHUT:
            return "gate shut"
        case Verdict.GATE_MISSING:
            return "gate missing"
        case Verdict.CANCELLED:
            met = [(outcome.records[index], records[index]) for index in indices]
            stored = [each for each in met if each[0].answer is Answer.DUPLICATE]
            equal = any(element.digest == record.digest for element, record in stored)
            return ("duplicate" if equal else "id-conflict") if stored else ""
        case _:
            return ""
