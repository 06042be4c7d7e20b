"""Every outage of over an hour raises an alarm, and a healthy or idle pipeline none.

The alarms are those that are deployed, judged on what the functions published.
"""

from __future__ import annotations

from operator import attrgetter

import pytest

from tallyroll.cdk.alarm_rules import ALARMS
from tests.simulation.outages import IDLE, OUTAGES, Outage, watch

LEFT_BEHIND = {"dead-letters"}  # by an outage: they stand until people have looked at them


@pytest.mark.proof
@pytest.mark.parametrize("outage", OUTAGES, ids=attrgetter("name"))
def test_an_outage_of_over_an_hour_raises_its_alarms_and_they_end_after_it(outage: Outage) -> None:
    told = watch(1, outage)
    assert not told.violation
    assert told.before == []
    assert outage.alarms
    assert outage.alarms <= {one.id for one in told.during}
    assert {one.id for one in told.after} <= LEFT_BEHIND


@pytest.mark.parametrize("seed", [1, 2])
def test_a_pipeline_that_is_well_raises_no_alarm(seed: int) -> None:
    told = watch(seed, None)
    assert not told.violation
    assert [told.before, told.during, told.after] == [[], [], []]


def test_a_pipeline_that_is_idle_raises_no_alarm() -> None:
    told = watch(1, IDLE)
    assert not told.violation
    assert [told.before, told.during, told.after] == [[], [], []]


def test_the_outages_name_alarms_that_there_are() -> None:
    assert len({outage.name for outage in OUTAGES}) == len(OUTAGES)
    assert set().union(*(outage.alarms for outage in OUTAGES)) <= set(ALARMS)
