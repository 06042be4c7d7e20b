"""The model's calls to which the steps of the real functions are mapped."""

from __future__ import annotations

MAPPED = (
    *("deliver", "hand back", "read claim", "commit", "read record", "read state"),
    *("read identity", "reject", "ack"),
)


def mark_of(call: str) -> str:
    """The name of the mark of a call."""
    return f"model-{call.replace(' ', '-')}"
