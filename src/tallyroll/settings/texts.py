"""Settings as the texts of environment variables."""

from __future__ import annotations

import json
from collections.abc import Mapping

PREFIX = "TALLYROLL_"


def text_of(value: object) -> str:
    """The text of a value in an environment variable."""
    if isinstance(value, Mapping):
        return json.dumps(dict(value), separators=(",", ":"))
    return str(value).lower() if isinstance(value, bool) else str(value)
