"""Mistakes to plant: each changes one rule of the protocol."""

from __future__ import annotations

from enum import StrEnum


class Mistake(StrEnum):
    """A rule that is broken."""

    GATE_OUTSIDE = "the gate is read outside of the transaction"
    PUT_WITHOUT_CONDITION = "a record is put without a condition"
    TALLY_OUTSIDE = "the tally is added to outside of the transaction"
    GROUP_DIVIDED = "the records of an event's keys are put one by one"
    UNKNOWN_ACKNOWLEDGED = "an unknown outcome is taken for a counted one"
    GATE_LEFT_OPEN = "a window is sealed while one of its gates is open"
    SEAL_BEFORE_SETTLE = "tallies are listed before all transactions are settled"
    DROP_BEFORE_PROOF = "a table is dropped before its archive is proven"
    PROOF_BY_NET_SUMS = "the proof does not compare what is retracted"
    GATES_WITHOUT_STATE = "gates are put without asking for the window's state"
    STATE_NOT_READ_AGAIN = "the state is not read again after a record was not found"
    DROPPED_HANDED_BACK = "what meets a dropped table is handed back"
    ATTRIBUTE_BELIEVED = "a redrive is believed without its claim"
    CLAIM_MOVED_EARLY = "a claim moves while its window may still count"
    IDENTITY_OUTSIDE = "the identity is read outside of the transaction"
    IDENTITY_OVERWRITTEN = "a message that was sent beyond its days overwrites an identity"
    IDENTITY_EXPIRED = "a transaction takes an identity for expired by a clock"
    TTL_WITHOUT_WEEKS = "the TTL of an identity leaves out the weeks in which copies come"
    TTL_A_DAY_SHORT = "the TTL of an identity is a day short"
    OLD_LETTERS_REDRIVEN = "letters are redriven, however long ago they were first sent"
    IDENTITY_NOT_READ = "window-sealed is said before the identity is read"
    IDENTITY_BEFORE_STATE = "the identity is read before the state"
    ABSENT_IDENTITY_PROVES = "an absent identity proves that a dropped window did not count"
    CONTENT_NOT_READ = "a retraction is counted without reading the record"
    ABSENT_ACKNOWLEDGED = "a retraction is acknowledged while its record is absent"
    CLAIM_WITHOUT_TIME = "a claim's window is believed without the record's time"
    CLAIM_NOT_READ_AGAIN = "nothing-to-retract is said without reading the claim again"
    RECORD_BEFORE_TOMBSTONE = "the record is read before the tombstone"
    CORRECTION_ON_TOTAL = "the correction is kept on the total's item"
    RETRACTION_AFTER_SEALING = "a retraction changes the tally of a sealed window"
    ONE_KEY_RETRACTED = "only the least key's record names the others of its group"
    TOMBSTONE_NOT_IN_ARCHIVE = "an archive's record is believed without its tombstone"
    CORRECTION_TWICE = "a correction is added without its entry"
