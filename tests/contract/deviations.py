"""Where an engine is known to deviate from DynamoDB: what must fail there, and why."""

from __future__ import annotations

from collections.abc import Mapping

_AT_ONCE = "it asserts that nobody asks for that: else bisecting would hide a wrong plan"
DEVIATIONS: Mapping[tuple[str, str], str] = {
    ("memory", "test_a_commit_of_over_100_actions_is_invalid"): _AT_ONCE,
    ("memory", "test_a_commit_of_over_4_mb_is_invalid"): _AT_ONCE,
    ("moto", "test_a_commit_of_over_4_mb_is_invalid"): "it takes transactions of any size",
    ("dynamodb-local", "test_a_commit_that_names_a_record_twice_is_invalid"): (
        "it finds the second one to be a duplicate of the first"
    ),
    ("dynamodb-local", "test_two_records_of_one_identity_are_no_commit"): (
        "it finds the second one to be a duplicate of the first"
    ),
    ("memory", "test_without_the_table_of_identities_nothing_is_stored"): "it has no such table",
    ("moto", "test_a_tally_beyond_38_digits_is_invalid"): "it rounds sums to 28 digits",
    ("dynamodb-local", "test_a_table_with_another_tag_is_refused"): "it knows no tags",
    ("cassandra", "test_a_table_is_made_once_described_and_dropped"): (
        "neither it nor Keyspaces has a deletion protection"
    ),
}
"""By engine and test. A test that passes nevertheless fails: then the entry has to go."""
