"""What `make` shows while pip installs."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from release.install import LINES_KEPT, Course, install

LINES = (
    "Collecting attrs==26.1 (from -r requirements/local.txt (line 7))\n",
    "  Downloading attrs-26.1-py3-none-any.whl (67 kB)\n",
    "Requirement already satisfied: boto3==1.43.0 in .venv/lib (1.43.0)\n",
    "Installing collected packages: attrs\n",
    "Successfully installed attrs-26.1\n",
)


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (0, "fetching 0 of 2 packages, 7 s"),
        (2, "fetching 1 of 2 packages, 7 s"),
        (3, "fetching 2 of 2 packages, 7 s"),
        (4, "unpacking 2 packages, 7 s"),
        (5, "unpacking 2 packages, 7 s"),
    ],
)
def test_it_tells_how_far_pip_is(lines: int, shown: str) -> None:
    course = Course(2)
    course.follow(LINES[:lines])
    assert course.shown(7.2).strip() == shown


def test_the_last_lines_are_kept_for_a_failure() -> None:
    course = Course(1)
    course.follow(f"{number}\n" for number in range(1_000))
    assert (len(course.last), course.last[-1]) == (LINES_KEPT, "999\n")


def test_a_failure_shows_what_pip_says(tmp_path: Path) -> None:
    lock, out = tmp_path / "lock.txt", io.StringIO()
    lock.write_text("attrs==26.1 --no-such-option\n")
    assert install(lock, out) != 0
    assert "no-such-option" in out.getvalue()
    assert "installed in" not in out.getvalue()
