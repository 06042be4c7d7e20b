"""What goes wrong in the fixture itself, with a remedy in the message."""

from __future__ import annotations


class TestingError(Exception):
    """The fixture cannot do what it was asked; the message says why, and what to do."""

    __test__ = False  # pytest collects classes by their names
