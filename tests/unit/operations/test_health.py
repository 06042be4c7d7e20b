"""The alarms, the doctor and `overdue` move together with the bounds in `health`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.cdk.alarm_rules import rules_for
from tallyroll.cdk.alarm_values import AlarmRule
from tallyroll.lifecycle import health
from tallyroll.lifecycle.overdue import late
from tallyroll.model.states import Attempt, Status
from tallyroll.operations.doctor.checkup import Level
from tallyroll.settings import Settings
from tests.harness.doctoring import CLEAN, FakeStack, bad, examined, first, grown, listing_of
from tests.harness.pipeline import NOW, StillEffects
from tests.unit.operations.test_doctor import Waiting

# Of each alarm its bound, and the ports that show the doctor a measured number.
QUEUES: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "falling-behind": ("BEHIND_MS", lambda ms: {"queue": Waiting(1, ms)}),
    "writer-silent": (
        "SILENT_MS",
        lambda ms: {"queue": Waiting(1, 0), "effects": StillEffects(NOW + ms)},
    ),
    "handed-back": ("HANDED_BACK_MS", lambda ms: {"handed_back": lambda since: [(since, ms)]}),
    "in-flight": ("IN_FLIGHT_SHARE", lambda number: {"stack": FakeStack(hidden=number)}),
    "events-expire": ("EXPIRING_SHARE", lambda ms: {"queue": Waiting(1, ms)}),
    "dead-letters-expire": ("EXPIRING_SHARE", lambda ms: {"dead_letters": Waiting(1, ms)}),
}


def rule(alarm: str, settings: Settings = CLEAN) -> AlarmRule:
    return rules_for(settings, settings.queue_retention_ms // 1000)[alarm]


@pytest.mark.parametrize("alarm", QUEUES)
def test_an_alarm_and_the_doctor_tell_of_a_queue_from_the_same_bound_on(
    monkeypatch: pytest.MonkeyPatch, alarm: str
) -> None:
    bound, shown = QUEUES[alarm]
    moved = rule(alarm).above / 2
    monkeypatch.setattr(health, bound, getattr(health, bound) / 2)
    assert rule(alarm).above == moved

    pipeline = grown(3)
    pipeline.catalog.beat(NOW, finished=True)
    measured = round(moved) if alarm == "in-flight" else round(moved * 1000)
    check = "dead-letters" if alarm == "dead-letters-expire" else "queue"
    under, over = (
        examined(pipeline, **shown(number))[check].level for number in (measured - 1, measured)
    )
    assert under < over


@pytest.mark.parametrize(
    ("bound", "alarm", "status"),
    [
        ("CLOSING_LATE_MS", "seal-stuck", Status.CLOSING),
        ("EXPORT_LATE_MS", "export-stuck", Status.EXPORTING),
    ],
)
def test_an_alarm_overdue_and_the_doctor_wait_as_long_for_a_window(
    monkeypatch: pytest.MonkeyPatch, bound: str, alarm: str, status: Status
) -> None:
    moved = getattr(health, bound) // 2
    monkeypatch.setattr(health, bound, moved)
    assert rule(alarm).above == moved // 1000

    pipeline = grown()
    state = pipeline.state(first(pipeline, Status.SEALED))
    since = NOW - moved - (CLEAN.settle_ms if status is Status.CLOSING else CLEAN.retention_ms)
    times: dict[str, int] = {Status.SEALED: since, status: since}
    state = replace(state, status=status, times=times, attempt=Attempt(number=2))
    state = pipeline.catalog.advance(state)
    for now, is_late in ((NOW, False), (NOW + 1, True)):
        assert bool(late(state, now, CLEAN)) is is_late
        assert ("stuck" in bad(pipeline, effects=StillEffects(now))) is is_late


def test_an_open_window_is_held_as_long_for_its_alarm_as_for_overdue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "OPEN_LATE_MS", health.OPEN_LATE_MS // 2)
    settings = Settings()
    held_ms = 2 * settings.visibility_ms + health.OPEN_LATE_MS
    alarm = rule("close-stuck", settings)
    assert alarm.times == held_ms // 1000 // alarm.period

    window = replace(grown(3).state(), status=Status.OPEN, accept_until=None)
    assert not late(window, window.end + held_ms, settings)
    assert late(window, window.end + held_ms + 1, settings)


def test_the_quota_of_tables_is_as_near_for_its_alarm_as_for_the_doctor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "TABLES_SHARE", 0.5)
    pipeline = grown()
    full = 2 * len([*listing_of(pipeline).names()])
    for quota, level in ((full, Level.WARNING), (full + 1, Level.OK)):
        settings = replace(CLEAN, table_quota=quota)
        assert rule("window-tables", settings).above == quota / 2
        assert examined(pipeline, settings=settings)["quota"].level is level
