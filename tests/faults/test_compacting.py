"""Archives that expire, under faults: their tags are put, through deaths and lost answers."""

from __future__ import annotations

import pytest

from tallyroll.adapters.aws.s3 import S3Bucket
from tests.faults.injector import GOES_WELL, Blow
from tests.faults.kinds import Kind
from tests.faults.plans import At, crash
from tests.faults.scenarios import PASSES, Scenarios

pytestmark = pytest.mark.engine


def test_a_tag_has_no_answer(scenarios: Scenarios) -> None:
    """The matrix has every other fault."""
    result = scenarios.compact_under(Kind.REPLY_LOST)
    assert not result.problems
    assert result.strikes.total()


def test_the_compactor_dies_after_its_first_tag(scenarios: Scenarios) -> None:
    reference = At(0, GOES_WELL)
    assert not scenarios.compacted("no fault", reference).problems
    first = reference.sites.index(PASSES) + 1
    assert not scenarios.compacted("crash", At(first, Blow(after=crash))).problems


def test_a_tag_that_is_not_put_is_found(
    scenarios: Scenarios, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(S3Bucket, "let_pass", lambda *_: None)
    problems = scenarios.compacted("forgotten", At(0, GOES_WELL)).problems
    assert any("an object with the tags []" in each for each in problems)
