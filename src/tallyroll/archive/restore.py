"""The rules for restoring an archive into a table."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tallyroll.errors import UsageError

_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")  # DynamoDB Developer Guide, "Naming rules"
_WINDOW_TABLE = re.compile(r".+-[0-9]{8}T[0-9]{6}Z")


def check_table(name: str, taken: Iterable[str]) -> None:
    """Raise UsageError unless a restored table may have this name.

    It must not be a window table's name, since functions have permissions for those, nor one of
    `taken`.
    """
    if not _TABLE.fullmatch(name):
        raise UsageError(
            f"table {name!r}: 3 to 255 letters, digits, underscores, hyphens and full stops"
        )
    if _WINDOW_TABLE.fullmatch(name):
        raise UsageError(
            f"table {name!r}: that is the name of a window's table, which writers may write to and"
            f" the dropper may drop; restore into another one, such as {name + '-inspected'!r}"
        )
    if name in taken:
        raise UsageError(f"table {name!r} belongs to the pipeline: restore into another one")
