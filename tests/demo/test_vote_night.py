"""What a vote night says of votes that came too late, and how it casts them."""

from __future__ import annotations

import json

from local.demo.inspection import Letter
from local.demo.report import Verdict
from local.demo.vote_night import judge_rejections, late_votes
from local.demo.votes import LATE_VOTER, VoteNight

NOW = 1_795_161_600_000
PACKED = json.dumps(
    {"v": 1, "id": "p", "key": "Ada", "t0": NOW, "events": [[0, 1], [1, 1], [2, 1]]}
)
PLANNED = Letter("too-late", json.dumps({"id": LATE_VOTER, "key": "Ada", "ts": NOW}))
EXPECTED = {"too-late": 1, "not-json": 1}


def test_late_votes_are_counted_by_key_without_the_planned_one() -> None:
    single = Letter("too-late", json.dumps({"id": "voter-7", "key": "Grace", "ts": NOW}))
    other = Letter("bad-key", json.dumps({"id": "voter-8", "key": "", "ts": NOW}))
    assert late_votes([PLANNED, Letter("too-late", PACKED), single, other]) == {
        "Ada": 3,
        "Grace": 1,
    }


def test_late_votes_are_no_rejections_that_somebody_planned() -> None:
    verdict = Verdict()
    letters = [PLANNED, Letter("not-json", "I vote"), Letter("too-late", PACKED)]
    judge_rejections(letters, EXPECTED, verdict)
    assert not verdict.failures


def test_a_mishap_that_was_not_rejected_or_another_rejection_is_a_failure() -> None:
    for letters in ([PLANNED], [PLANNED, Letter("not-json", ""), Letter("bad-key", "{}")]):
        verdict = Verdict()
        judge_rejections(letters, EXPECTED, verdict)
        assert len(verdict.failures) == 1


def test_votes_are_dated_within_the_span_that_they_are_cast_for() -> None:
    night = VoteNight(1, 500, 500, 5_000)
    times = [json.loads(body)["ts"] for body in night.cast(500, NOW - 1_000, NOW)]
    assert NOW - 1_000 < min(times) <= max(times) == NOW
