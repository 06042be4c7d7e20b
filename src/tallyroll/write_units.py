"""What DynamoDB's writes take: the one model that the writer's metering, plans and the producers'
estimates share.

Source: DynamoDB Developer Guide, "Amazon DynamoDB Transactions: How it works".
"""

from __future__ import annotations

from typing import TypeVar

from tallyroll.limits import ACTION_UNITS, KEY_BYTES_MAX, TRANSACTION_ACTIONS_MAX, UNIT_BYTES

ELEMENTS_MAX = TRANSACTION_ACTIONS_MAX - 1  # records and tallies, beside the check of a gate
ELEMENT_BYTES_MAX = KEY_BYTES_MAX + 512  # of a tally's update, or of a put's keys and condition
IDENTITY_UNITS = ACTION_UNITS
"""The write units of an id that stays taken beyond its window, in the table of identities: its item
has less than a KB, however long key and id are.
"""

N = TypeVar("N", int, float)


def write_units(size: float) -> int:
    """The write units of an item of `size` bytes; in a transaction it takes twice as many."""
    return int(-(-size // UNIT_BYTES)) or 1


def record_units(size: float) -> int:
    """The write units of a record of `size` bytes in a transaction."""
    return ACTION_UNITS * write_units(size)


def shared_units(tallies: N, transactions: N) -> N:
    """The write units of these transactions beside their records: of all additions to tallies, and
    of one check of a gate each.
    """
    return ACTION_UNITS * (tallies + transactions)
