"""Alarms are judged as CloudWatch judges them."""

from __future__ import annotations

import pytest

from tallyroll.cdk.alarm_rules import FIVE_MINUTES, rules_for
from tallyroll.cdk.alarm_values import AlarmRule, MetricNamespace, Watched
from tallyroll.settings import Settings
from tests.simulation.alarms import Raised, is_on, number_of, raised
from tests.simulation.gauges import MINUTE_MS, Gauges

METRIC = Watched(MetricNamespace.PIPELINE, "writer", "HandedBack")


def rule(*, silence_is_bad: bool, times: int = 3) -> AlarmRule:
    return AlarmRule(metrics={"m0": METRIC}, times=times, silence_is_bad=silence_is_bad)


# Amazon CloudWatch User Guide, "Configuring how CloudWatch alarms treat missing data": the table
# of an alarm of 3 of 3 datapoints; 0 is a good one, X a breaching one, - a missing one.
@pytest.mark.parametrize(
    ("shown", "breaching", "not_breaching"),
    [
        ("0 - X - X", False, False),
        ("0 - - - -", False, False),
        ("- - - - -", True, False),
        ("0 X X - X", True, True),
        ("- - X - -", True, False),
    ],
)
def test_missing_data_is_treated_as_the_guide_has_it(
    shown: str, *, breaching: bool, not_breaching: bool
) -> None:
    numbers = [{"0": 0.0, "X": 1.0}.get(sign) for sign in shown.split()]
    assert is_on(rule(silence_is_bad=True), numbers) is breaching
    assert is_on(rule(silence_is_bad=False), numbers) is not_breaching


def test_an_alarm_is_on_from_the_end_of_its_last_bad_period_to_that_of_a_good_one() -> None:
    gauges = Gauges()
    for minute, value in enumerate((0, 1, 1, 1, 1, 0, 1)):
        gauges.put(*METRIC_AT, minute * MINUTE_MS + 7, value)
    told = raised({"a": rule(silence_is_bad=False)}, gauges, 0, 7 * MINUTE_MS)
    assert told == [Raised("a", 4 * MINUTE_MS, 6 * MINUTE_MS)]


METRIC_AT = (MetricNamespace.PIPELINE, "writer", "HandedBack")


def test_statistics_are_of_whole_periods() -> None:
    gauges = Gauges()
    for at, value in ((0, 3.0), (59_999, 1.0), (60_000, 8.0), (300_000, 100.0)):
        gauges.put(*METRIC_AT, at, value)

    def of(statistic: str, period: int = FIVE_MINUTES) -> float | None:
        return gauges.statistic(Watched(*METRIC_AT, statistic, period), 0)

    found = [of(name) for name in ("Sum", "Maximum", "Minimum", "SampleCount", "p99")]
    assert found == [12.0, 8.0, 1.0, 3.0, 8.0]
    assert of("Sum", 60) == 4.0
    assert gauges.statistic(METRIC, 120_000) is None
    with pytest.raises(ValueError, match="p50"):
        of("p50")


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("0 - m0", -2.0),
        ("m0 + m1", None),
        ("FILL(m0, 0) + FILL(m1, 0)", 2.0),
        ("SUM([m0, m1])", 2.0),
        ("SUM([m1])", None),
        ("0 - SUM([m0, m1])", -2.0),
        ("SUM([FILL(m0, 0), FILL(m1, 0)])", 2.0),
        ("m1", None),
        ("IF(m0 > 1, 7, 8)", 7.0),
        ("IF(m0 > 2, 7, 8)", 8.0),
        ("IF(m0 > 1, m1, 8)", None),
        ("IF(m1 > 0, 7, 8)", None),
        ("7 / m0", 3.5),
        ("7 / (m0 - m0)", None),
        ("MAX([m0, m1])", 2.0),
        ("MAX([m0, m0 + 1])", 3.0),
        ("MAX([m1])", None),
    ],
)
def test_expressions(expression: str, number: float | None) -> None:
    gauges = Gauges()
    gauges.put(*METRIC_AT, 0, 2.0)
    metrics = {"m0": METRIC, "m1": Watched(MetricNamespace.PIPELINE, "writer", "Throttles")}
    assert number_of(AlarmRule(metrics=metrics, expression=expression), gauges, 0) == number


@pytest.mark.parametrize(
    "expression", ["m0 * 2", "m0 < 2", "IF(m0 > 1, 7)", "RATE(m0)", "m9", "FILL(m0, REPEAT)"]
)
def test_what_is_not_known_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="not evaluated"):
        number_of(AlarmRule(metrics={"m0": METRIC}, expression=expression), Gauges(), 0)


def test_some_of_the_last_periods_suffice_where_a_rule_says_so() -> None:
    rule = AlarmRule(metrics={"m0": METRIC}, above=1, times=2, within=4)
    assert is_on(rule, [9.0, None, None, 9.0])
    assert not is_on(rule, [9.0, 9.0, None, None, 9.0, 1.0])
    with pytest.raises(ValueError, match="within"):
        AlarmRule(metrics={"m0": METRIC}, times=2, within=1)


def test_every_alarm_can_be_judged() -> None:
    rules = rules_for(Settings(), 864_000)
    told = raised(rules, Gauges(), 0, 3 * 3_600_000)
    silent = {id_ for id_, each in rules.items() if each.silence_is_bad}
    assert {one.id for one in told} == silent
