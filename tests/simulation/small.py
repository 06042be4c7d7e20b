"""Limits and sizes of the core as small as the settings of a short simulation."""

from __future__ import annotations

from typing import Any

from tallyroll import limits
from tallyroll.archive import native_export
from tallyroll.lifecycle import sealing
from tallyroll.operations import dead_letter_scan
from tests.harness import native_exports

SMALL: tuple[tuple[Any, str, int], ...] = (
    # Of a handed-back message: under the visibility timeout, as on AWS
    (limits, "VISIBILITY_SECONDS_MAX", 20),
    (dead_letter_scan, "HIDDEN_SECONDS", 30),  # so that redrives overtake one another
    (dead_letter_scan, "BATCH_LETTERS", 3),  # so that several workers of a redrive find some
    (native_export, "SEALED_FOR_MS", 3_000),  # a native export's moment is so long after sealing,
    (native_exports, "LATEST_BEHIND_MS", 10_000),  # and can be exported so much later
    (sealing, "STRIPES_HELD", 24),  # so that a window is sealed in several pages
    (sealing, "STRIPES_PER_SLICE", 10),  # and slices
)
