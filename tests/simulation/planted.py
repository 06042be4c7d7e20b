"""Bugs to plant: each patches the core or its store so that one promise no longer holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from tests.simulation import (
    planted_deaths,
    planted_ends,
    planted_forever,
    planted_heat,
    planted_identities,
    planted_rates,
    planted_reads,
    planted_redrives,
    planted_retractions,
    planted_stale,
    planted_writes,
)

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Planted:
    """A bug, the first seed to look for it in, and the weather in which it shows."""

    bug: Callable[[Patch], None]
    seed: int
    weather: Mapping[str, object] = field(default_factory=dict)


DROWSY: Mapping[str, object] = {
    "stall": 0.04,
    "stall_ms_max": 900_000,
    "zombie": 1.0,
    "slow_verb": "make_table",
    "slow_ms": 9_000,
    "duplicate": 0.7,
    "belated": 0.2,
}
MISREAD = {"misread": 1.0}
UNASKED = {"misread": 1.0, "hasty": 1.0}
SWIFT = {
    **UNASKED,
    **dict.fromkeys(("mangled", "laggard", "crash", "stall", "refused", "unanswered"), 0.0),
}
LATE_CLOSERS = {"misread": 1.0, "slow_verb": "stripes", "slow_ms": 9_000}
SLEEPERS = {
    "stall": 0.02,
    "stall_ms_max": 600_000,
    "zombie": 1.0,
    "slow_verb": "open_gate",
    "slow_ms": 9_000,
}
SPOILED = {"mangled": 0.3}
SLOW_ROLLERS = {"slow_verb": "live", "slow_ms": 12_000, "zombie": 1.0}
SLOW_READS = {"slow_verb": "live", "slow_ms": 6_000}
BELATED = {"belated": 0.3, "duplicate": 0.3}
LAGGARDS = {"laggard": 0.3, "zombie": 1.0}
OLD = {"stale_ms": 60_000, "misread": 1.0, "duplicate": 0.3}
CALM_BUT_HASTY = {
    "hasty": 1.0,
    "parted": 1.0,
    "belated": 0.1,
    "clock_ms": 200,
    "latency_ms": 8,
    "slow_verb": "",
    **dict.fromkeys(("crash", "stall", "refused", "unanswered", "tardy"), 0.0),
}
OLD_AND_SWIFT = {**SWIFT, "stale_ms": 60_000}
SLOW_PERIODS = {
    **CALM_BUT_HASTY,
    "parted": 0.0,
    "misread": 1.0,
    "slow_verb": "unrolled",
    "slow_ms": 12_000,
}
SLOW_TOMBSTONES = {**UNASKED, "slow_verb": "retract", "slow_ms": 14_000, "zombie": 1.0}
UNANSWERED = {"unanswered": 0.1}
HASTY_AND_SLOW = {**CALM_BUT_HASTY, "belated": 0.6, "slow_verb": "shut_gate", "slow_ms": 3_500}
PLANTED = (
    Planted(planted_writes.put_without_condition, 0),
    Planted(planted_writes.tally_outside_the_transaction, 0),
    Planted(planted_writes.chunks_outside_the_transaction, 5),
    Planted(planted_writes.chunks_dropped_in_the_retry, 5),
    Planted(planted_writes.gate_ignored, 2, MISREAD),
    Planted(planted_writes.random_shard_per_delivery, 0),
    Planted(planted_writes.window_by_processing_time, 0),
    Planted(planted_writes.lateness_by_processing_time, 0),
    Planted(planted_writes.conflicts_taken_for_duplicates, 0),
    Planted(planted_writes.unknown_taken_for_success, 0),
    Planted(planted_writes.remembered_before_the_answer, 0),
    Planted(planted_writes.duplicates_kept_in_the_retry, 0),
    Planted(planted_writes.duplicates_still_tallied_in_the_retry, 0),
    Planted(planted_writes.rejects_acknowledged_before_sent, 0),
    Planted(planted_writes.shards_by_the_writers_own_settings, 1),
    Planted(planted_writes.stripes_by_the_writers_own_settings, 1),
    Planted(planted_writes.spec_replaced_by_a_later_deployment, 5),
    Planted(planted_writes.sent_before_it_was_opened, 9),
    Planted(planted_rates.room_given_twice, 10),
    Planted(planted_rates.attempts_not_paid, 8),
    Planted(planted_ends.gates_shut_but_one, 1, MISREAD),
    Planted(planted_ends.gates_opened_blindly, 7, SLEEPERS),
    Planted(planted_ends.tallies_listed_before_the_gates_are_shut, 45, LATE_CLOSERS),
    Planted(planted_ends.bucket_cut_after_a_page, 1),
    Planted(planted_ends.closed_without_asking_the_queue, 6),
    Planted(planted_ends.stragglers_forgotten, 13),
    Planted(planted_ends.made_by_an_old_calendar, 12, SLOW_ROLLERS),
    Planted(planted_ends.length_where_the_new_windows_begin, 37),
    Planted(planted_ends.dropped_without_proof, 1),
    Planted(planted_ends.dropped_by_the_state_alone, 2053),
    Planted(planted_ends.proven_by_the_exports_status, 6, SPOILED),
    Planted(planted_ends.proven_by_checksums, 19, SPOILED),
    Planted(planted_ends.payloads_not_exported, 1),
    Planted(planted_ends.attempts_share_a_prefix, 6, LAGGARDS),
    Planted(planted_reads.unprocessed_stripes_dropped, 0),
    Planted(planted_reads.cached_beyond_its_promise, 0),
    Planted(planted_reads.cached_though_consistent, 0),
    Planted(planted_reads.missing_windows_left_out, 0),
    Planted(planted_reads.looked_up_on_another_shard, 0),
    Planted(planted_reads.totals_read_before_the_states, 6, SLOW_READS),
    Planted(planted_reads.first_record_of_an_archive_left_out, 47),
    Planted(planted_reads.rolled_up_for_ever, 92),
    Planted(planted_reads.sums_of_a_day_counted_beside_its_windows, 0),
    Planted(planted_reads.largest_keys_of_all_buckets_but_one, 1),
    Planted(planted_reads.largest_keys_by_an_old_sum, 0),
    Planted(planted_reads.windows_read_before_the_periods_state, 78, SLOW_PERIODS),
    Planted(planted_reads.cursor_that_skips_a_shard, 15),
    Planted(planted_reads.window_in_two_steps, 28),
    Planted(planted_redrives.sent_before_it_is_claimed, 21),
    Planted(planted_redrives.redriven_without_a_ledger, 6),
    Planted(planted_redrives.redriven_while_its_window_is_closing, 6, BELATED),
    Planted(planted_redrives.claim_moved_past_another_content, 6),
    Planted(planted_identities.identity_put_after_the_transaction, 1),
    Planted(planted_identities.identity_put_without_condition, 0),
    Planted(planted_identities.identity_put_over_one_whose_days_are_over, 0),
    Planted(planted_identities.identity_forgotten_while_copies_come, 0),
    Planted(planted_identities.identities_read_eventually, 1, OLD),
    Planted(planted_identities.identities_missing_taken_for_none, 0),
    Planted(planted_identities.rejected_before_its_identity_is_read, 0),
    Planted(planted_identities.absent_identity_taken_as_proof, 41, SWIFT),
    Planted(planted_identities.follower_takes_over_the_fate_in_another_window, 32, UNASKED),
    Planted(planted_retractions.tombstone_without_a_gate, 92, SLOW_TOMBSTONES),
    Planted(planted_retractions.tombstone_put_without_condition, 8),
    Planted(planted_retractions.tombstone_unknown_taken_for_put, 8, UNANSWERED),
    Planted(planted_retractions.retracted_id_forgotten, 7),
    Planted(planted_retractions.retracted_without_reading_the_content, 8),
    Planted(planted_retractions.retracted_from_any_stripe, 7),
    Planted(planted_retractions.retracted_without_an_operators_word, 7),
    Planted(planted_retractions.claim_not_read_again, 7),
    Planted(planted_retractions.record_read_before_the_tombstone, 7),
    Planted(planted_retractions.tombstones_of_a_sealed_window_not_read, 2006),
    Planted(planted_retractions.correction_of_the_total_itself, 7),
    Planted(planted_retractions.correction_without_an_entry, 7),
    Planted(planted_retractions.correction_after_which_days_stay, 7),
    Planted(planted_retractions.retracted_before_the_seal_not_noted, 7),
    Planted(planted_retractions.counted_without_corrections, 7),
    Planted(planted_retractions.dropped_before_the_copy_of_corrections, 2018),
    Planted(planted_retractions.not_copied_after_the_drop, 3000),
    Planted(planted_heat.stripes_by_a_cached_number, 16),
    Planted(planted_heat.number_read_after_the_stripes, 16),
    Planted(planted_heat.stripes_lowered, 16),
    Planted(planted_heat.stripes_beyond_what_the_release_before_reads, 33),
    Planted(planted_heat.hint_trusted_without_its_count, 260),
    Planted(planted_heat.wish_taken_after_the_freeze, 18),
    Planted(planted_heat.wish_lost_between_read_and_put, 67),
    Planted(planted_forever.a_window_keeps_others_from_their_turn, 1),
    Planted(planted_forever.a_letter_keeps_its_batch, 25),
    Planted(planted_stale.record_read_eventually, 21, OLD),
    Planted(planted_stale.tallies_read_eventually, 0),
    Planted(planted_stale.stripes_read_eventually, 7, OLD),
    Planted(planted_stale.window_read_eventually, 7, OLD),
    Planted(planted_stale.windows_read_eventually, 5, OLD),
    Planted(planted_stale.specs_read_eventually, 8, OLD),
    Planted(planted_stale.live_pointer_read_eventually, 13, OLD),
    Planted(planted_stale.claims_read_eventually, 2),
    Planted(planted_stale.totals_of_a_key_read_eventually, 62, OLD_AND_SWIFT),
    Planted(planted_stale.listing_read_eventually, 6, {"stale_ms": 60_000}),
    Planted(planted_stale.sealed_without_settling, 28, CALM_BUT_HASTY),
    Planted(planted_stale.settled_since_closing, 11, HASTY_AND_SLOW),
    Planted(planted_deaths.writers_taken_to_live, 4),
    Planted(planted_deaths.failures_forgotten, 262),
    Planted(planted_deaths.done_before_it_is_done, 4),
)
