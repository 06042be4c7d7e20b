"""Payloads that cannot be made much smaller."""

from __future__ import annotations

import base64
from random import Random


def noise(size: int, seed: int = 1) -> str:
    """A text of this many characters, six random bits each."""
    return base64.b64encode(Random(seed).randbytes(size * 3 // 4 + 3)).decode()[:size]


NOISE = noise(120_000)
