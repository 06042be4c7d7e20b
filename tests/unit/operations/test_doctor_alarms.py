"""The doctor's check that somebody is told by the alarms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Missing, Refused, StoreError
from tallyroll.operations.doctor.alarm_checks import subscriptions
from tallyroll.operations.doctor.checkup import Level
from tallyroll.operations.doctor.examine import checked
from tests.docs.commands import check, of_sentences
from tests.harness.doctoring import case_of
from tests.harness.pipeline import Pipeline
from tests.unit.operations.test_doctor_deployment import ALARMS, HEARD, NAMES, TOPICS, whole

PENDING = replace(HEARD, endpoint="day@example.org", confirmed=False)


def looked(**changes: Any) -> Any:
    case = case_of(Pipeline(), stack=whole(**changes), deployed=True)
    return checked("subscriptions", subscriptions(case))


def test_topics_that_are_heard() -> None:
    assert looked().text == "topics of alarms with a confirmed subscription: 2"
    one = [replace(alarm, topics=TOPICS[:1]) for alarm in ALARMS]
    assert looked(alarming=one).text.endswith(": 1")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hearing": {TOPICS[0]: [HEARD]}}, [f"{TOPICS[1]} has no confirmed subscription"]),
        (
            {"hearing": {TOPICS[0]: [HEARD], TOPICS[1]: [PENDING]}},
            [
                f"{TOPICS[1]}: day@example.org has not confirmed",
                f"{TOPICS[1]} has no confirmed subscription",
            ],
        ),
        (
            {"hearing": {TOPICS[0]: [HEARD, PENDING], TOPICS[1]: [HEARD]}},
            [f"{TOPICS[0]}: day@example.org has not confirmed"],
        ),
        ({"alarming": ALARMS[:1]}, [f"there is no alarm {NAMES[1]}"]),
        (
            {"alarming": [ALARMS[0], replace(ALARMS[1], enabled=False)]},
            [f"the actions of the alarm {NAMES[1]} are switched off"],
        ),
        (
            {"alarming": [replace(ALARMS[0], topics=[]), ALARMS[1]]},
            [f"the alarm {NAMES[0]} notifies no topic"],
        ),
    ],
)
def test_alarms_that_nobody_hears(changes: dict[str, Any], says: list[str]) -> None:
    signs = looked(**changes).bad
    assert [sign.text[: len(text)] for sign, text in zip(signs, says, strict=True)] == says
    for sign in signs:
        assert sign.level is Level.WARNING
        assert sign.remedy
        for command in of_sentences("subscriptions", sign.remedy):
            check(command)


REFUSED = Refused("ListSubscriptionsByTopic: AuthorizationError", "AuthorizationError")


@pytest.mark.parametrize(
    ("account", "error", "level"),
    [
        ("2", REFUSED, Level.OK),
        ("1", REFUSED, Level.UNCHECKED),
        (
            "2",
            Refused("ListSubscriptionsByTopic: InvalidParameter", "InvalidParameter"),
            Level.UNCHECKED,
        ),
        ("2", Missing("ListSubscriptionsByTopic: NotFound", "NotFound"), Level.UNCHECKED),
    ],
)
def test_a_topic_of_another_account(account: str, error: StoreError, level: Level) -> None:
    """Its subscriptions may not be read from here, which is no fault of the pipeline's."""
    pager = f"arn:aws:sns:us-east-1:{account}:pager"
    alarms = [replace(ALARMS[0], topics=[pager]), ALARMS[1]]
    found = looked(alarming=alarms, hearing={pager: error, TOPICS[1]: [HEARD]})
    assert found.level is level
    if level is Level.UNCHECKED:
        assert ("AWS_PROFILE" in found.bad[0].remedy) == (error is REFUSED)
    else:
        assert found.text.endswith(f"subscription: 1; not to be read, in another account: {pager}")
