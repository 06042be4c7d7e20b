"""The size of any item, to compare with that of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyroll.model.items import number_bytes, text_bytes


def item_bytes(item: Mapping[str, Mapping[str, Any]]) -> int:
    """The size of any item that DynamoDB meters, in bytes; `sized` is the same for a record.

    Source: DynamoDB Developer Guide, "DynamoDB item sizes and formats": strings take their UTF-8
    bytes, numbers about one byte per two significant digits and one more, binaries their raw bytes,
    null and booleans one byte.
    """
    size = 0
    for name, value in item.items():
        ((kind, content),) = value.items()
        size += text_bytes(name)
        if kind == "S":
            size += text_bytes(content)
        elif kind == "N":
            size += number_bytes(content)
        elif kind == "SS":
            size += sum(map(text_bytes, content))
        elif kind == "NS":
            size += sum(map(number_bytes, content))
        else:
            size += len(content) if kind == "B" else 1
    return size
