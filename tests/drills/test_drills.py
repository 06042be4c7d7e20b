"""Each incident tells whom it should, in time, and a day in health tells nobody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallyroll.settings import Settings
from tests.drills.drilling import control, drilled, pages_of
from tests.drills.incidents import INCIDENTS, KEYSPACES, Incident
from tests.drills.minutes import Minute, bursty, idle
from tests.simulation.outages import OUTAGES

UNPAGED = {"poison message", "cleanup fails for days"}  # nothing waits but a message and tables


def named(incident: Incident) -> str:
    return f"{incident.name}, {incident.settings.store}"


@pytest.mark.parametrize("incident", INCIDENTS, ids=named)
def test_an_incident_raises_its_alarms_by_their_minutes_and_no_other(incident: Incident) -> None:
    assert drilled(incident) == incident.alarms
    assert sorted(incident.alarms.values()) == [*incident.alarms.values()]


@pytest.mark.parametrize("settings", [Settings(), KEYSPACES], ids=["dynamodb", "keyspaces"])
def test_a_day_in_health_raises_none(settings: Settings) -> None:
    assert control(settings) == []


@pytest.mark.parametrize("day", [idle, bursty], ids=["idle", "bursty"])
def test_a_day_without_events_and_one_of_bursts_raise_none(
    day: Callable[[int, Settings], Minute],
) -> None:
    assert control(Settings(), day) == []


def test_what_keeps_events_from_being_counted_or_read_pages() -> None:
    unpaged = {named(one) for one in INCIDENTS if not pages_of(one)}
    assert unpaged == {f"{name}, dynamodb" for name in UNPAGED}


def test_where_the_simulated_code_has_the_same_outage_it_raises_the_same_alarm_first() -> None:
    alarms = {outage.name: outage.alarms for outage in OUTAGES}
    alike = [one for one in INCIDENTS if one.like]
    assert len(alike) >= 5
    for incident in alike:
        assert incident.first in alarms[incident.like], incident.name
