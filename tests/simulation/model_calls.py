"""The model's calls to which the steps of the real functions are mapped."""

from __future__ import annotations

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
