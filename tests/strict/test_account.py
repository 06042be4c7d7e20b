"""What the synthesized template asks of an account: concurrency, and topics that can be heard."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.infra.conftest import KEY
from tests.infra.templates import FUNCTIONS, Template, function, of_type, only, text
from tests.strict.quotas import invoking, publishing, reserving
from tests.strict.values import Account, Refusal

NEW = Account(concurrency=10)
EACH_ONCE = len(FUNCTIONS) - 1  # beside the writers


def deployed(template: Template, account: Account) -> Account | Refusal:
    """The account after the deployment of all functions, or what it fails with."""
    for found in of_type(template, "AWS::Lambda::Function").values():
        wanted = found.get("ReservedConcurrentExecutions")
        after = account if wanted is None else reserving(account, wanted)
        if isinstance(after, Refusal):
            return after
        account = after
    return account


def reserving_writer(template: Template) -> Template:
    changed = deepcopy(template)
    function(changed, "writer")["ReservedConcurrentExecutions"] = 2
    return changed


def test_a_pipeline_of_defaults_deploys_and_runs_in_a_new_account(template: Template) -> None:
    account = deployed(template, NEW)
    assert account == NEW
    mapping = only(template, "AWS::Lambda::EventSourceMapping")
    writers = mapping["ScalingConfig"]["MaximumConcurrency"]
    busy = writers + EACH_ONCE
    assert [invoking(account, running) for running in range(busy)] == [None] * busy


def test_one_that_reserves_concurrency_does_not(template: Template) -> None:
    refusal = deployed(reserving_writer(template), NEW)
    assert isinstance(refusal, Refusal)
    assert "below its minimum value of [10]" in refusal.message
    assert isinstance(deployed(reserving_writer(template), Account()), Account)


def heard(template: Template, account: Account) -> dict[str, Refusal | None]:
    """What publishing to each topic is answered, for whom an alarm or a rule tells."""
    topics = of_type(template, "AWS::SNS::Topic")
    keys = {
        id_: text(found["KmsMasterKeyId"]) for id_, found in topics.items() if "Kms" in str(found)
    }
    known = Account(keys=keys, disabled=account.disabled)
    return {id_: publishing(known, id_) for id_ in told(template)}


def told(template: Template) -> set[str]:
    """The topics to which alarms and rules send."""
    kinds = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
    alarms: list[dict[str, Any]] = [
        one for kind in kinds for one in of_type(template, kind).values()
    ]
    rules = of_type(template, "AWS::Events::Rule").values()
    targets = [target["Arn"] for rule in rules for target in rule["Targets"]]
    actions = [action for alarm in alarms for action in alarm.get("AlarmActions", ())]
    return {text(arn) for arn in (*actions, *targets)}


DISABLED = Account(disabled=frozenset({KEY}))


def test_a_disabled_key_leaves_all_topics_heard(governed: Template) -> None:
    answers = heard(governed, DISABLED)
    assert answers.keys() == of_type(governed, "AWS::SNS::Topic").keys()
    assert len(answers) == 2
    assert set(answers.values()) == {None}


@pytest.mark.parametrize("disabled", [True, False])
def test_a_topic_under_that_key_is_silent(governed: Template, *, disabled: bool) -> None:
    changed = deepcopy(governed)
    for topic in of_type(changed, "AWS::SNS::Topic").values():
        topic["KmsMasterKeyId"] = KEY
    answers = heard(changed, DISABLED if disabled else Account())
    codes = {answer.code if answer else "" for answer in answers.values()}
    assert codes == {"KMSDisabled" if disabled else ""}
