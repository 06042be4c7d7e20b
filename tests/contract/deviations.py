"""Where an engine is known to deviate from DynamoDB: what must fail there, and why."""

from __future__ import annotations

from collections.abc import Mapping

DEVIATIONS: Mapping[tuple[str, str], str] = {
    ("moto", "test_a_tally_beyond_38_digits_is_invalid"): "it adds numbers of any length",
    ("dynamodb-local", "test_a_table_with_another_tag_is_refused"): "it knows no tags",
}
"""By engine and test. A test that passes nevertheless fails: then the entry has to go."""
