"""Rows sorted in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.archive import runs
from tallyroll.archive.runs import SortedRuns


@given(st.lists(st.binary(max_size=2)), st.integers(1, 4))
def test_a_file_holds_what_memory_does_not(rows: list[bytes], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "READ_ROWS", 2)
        kept = SortedRuns[bytes](most)
        for row in rows:
            kept.add(row)
        assert list(kept.rows()) == sorted(rows)


def test_memory_never_holds_more_than_it_may() -> None:
    kept, held = SortedRuns[bytes](3), []
    for number in range(7):
        kept.add(bytes([number]))
        held.append(len(kept._held))
    assert held == [1, 2, 0, 1, 2, 0, 1]
    assert len(list(kept.rows())) == 7  # closes its file
