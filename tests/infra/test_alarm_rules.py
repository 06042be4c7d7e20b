from __future__ import annotations

import re
import sys

import pytest

from release.bundle import ROOT
from tallyroll.cdk.alarm_rules import rules_for
from tallyroll.cdk.alarm_values import AlarmRule
from tallyroll.settings import Settings
from tests.harness.processes import ran

RULES = rules_for(Settings(), 864_000)
IMPORT = "import sys, tallyroll.cdk.alarm_rules; print('aws_cdk' in sys.modules)"


def test_the_rules_are_plain_data_that_need_no_cdk() -> None:
    told = ran(
        [sys.executable, "-c", IMPORT],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        check=True,
    )
    assert told.stdout.strip() == "False"


@pytest.mark.parametrize("days", [0.01, 4, 10, 14])
def test_no_rule_looks_back_for_longer_than_cloudwatch_takes(days: float) -> None:
    """Amazon CloudWatch API Reference, "PutMetricAlarm", at Period."""
    for id_, rule in rules_for(Settings(), int(days * 86_400)).items():
        most = 86_400 if rule.period < 3_600 else 604_800
        assert rule.period * rule.evaluated <= most, id_


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_an_expression_names_its_metrics_and_a_period_is_one_of_cloudwatchs(
    rule: AlarmRule,
) -> None:
    """CloudWatch takes 10, 20, 30 s and multiples of a minute; of those we use minutes."""
    assert rule.period % 60 == 0
    assert rule.times >= 1
    names = re.findall(r"\b[a-z]\w*\b", rule.expression)
    assert sorted(set(names) or rule.metrics) == sorted(rule.metrics)
