"""Invariants hold under every seed, a seed replays exactly, each planted bug is caught."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from itertools import count

import pytest

from tests.simulation.lanes import bug_name, finding_seed
from tests.simulation.pipeline import simulate
from tests.simulation.planted import DROWSY, PLANTED, Planted
from tests.simulation.run import replay_command
from tests.simulation.summary import LANE_REPORT

LANES = 6
LANE_SEEDS_MIN = 5
LANE_SECONDS = float(os.environ.get("TALLYROLL_SIM_SECONDS", "0"))
STORMS = (27, 29, 42, 47)
# A window that could not be created was passed by the live pointer; one was opened when all had
# come to its end, and nothing ran any more; one was to be opened that the roller had yet to make;
# a range of the past ended inside a window of the length with which the calendar was founded; a run
# of the roller that began before it was dead published later; a dead cleanup was held back, and so
# did not fail yet; the last run of the roller closed a window that a hopeless message had held;
# a writer that lived could not take back its note, which was the fifth of a message that kills;
# what was received three times had no turn in a full queue while others were sent;
# a copy was acknowledged while the transaction that counted the event was seen in part; DynamoDB's
# own export was asked for a moment before the window was sealed, attempt after attempt;
# another rule's identity told the model that a letter's event counted, which was not read; a window
# closed while its messages waited in a queue of nothing but what was received three times; the
# model did not know where an event of before the first window was to go, as its redrive slept;
# the judge of a commit took a table that was being made again for one that was there;
# a wish was promised for a window that had become longer since the command began, and was frozen;
# a copy counted elsewhere once its id was free again, and the judge took it for the other event;
# a retraction by its event's time was delivered before there was a calendar, which says the window.
FOUND = (
    *(6034, 6037, 6722, 7192, 700467, 741, 946, 3238, 291, 1231, 731, 1210, 5785, 111795, 111708),
    *(1796011992, 1796016931, 1796100728, 1796102145, 1796103470),
)


@pytest.mark.parametrize("lane", range(LANES))
def test_invariants_hold(lane: int, record_property: Callable[[str, object], None]) -> None:
    """The seeds lane, lane + 6, ...; more of them as long as `TALLYROLL_SIM_SECONDS` last."""
    began, cpu = time.monotonic(), time.process_time()
    ran, messages, commits, dropped = 0, 0, 0, 0
    broken = {}
    for seed in count(lane, LANES):
        if ran >= LANE_SEEDS_MIN and time.monotonic() - began >= LANE_SECONDS:
            break
        result = simulate(seed)
        ran, messages = ran + 1, messages + result.messages
        commits, dropped = commits + result.commits, dropped + result.dropped
        if result.violation:
            broken[replay_command(seed, {}, None, None)] = result.violation
    record_property(LANE_REPORT, (ran, time.process_time() - cpu, messages, len(broken)))
    assert not broken
    assert messages > commits > dropped > ran, "most seeds count little or end no window"


@pytest.mark.proof
@pytest.mark.parametrize("seed", FOUND)
def test_invariants_hold_where_they_once_did_not(seed: int) -> None:
    assert not simulate(seed).violation


@pytest.mark.proof
@pytest.mark.parametrize("seed", STORMS)
def test_invariants_hold_when_functions_sleep_through_a_windows_life(seed: int) -> None:
    """Rollers that wake up late try to make dropped tables again, late writers look for them."""
    result = simulate(seed, **DROWSY)
    assert not result.violation, replay_command(seed, DROWSY, None, None)
    assert {"stall", "zombie"} <= {fault.kind for fault in result.faults}


@cache
def violation_without_bugs(seed: int, weather: tuple[tuple[str, object], ...]) -> str | None:
    return simulate(seed, **dict(weather)).violation


@pytest.mark.proof
@pytest.mark.parametrize("planted", PLANTED, ids=bug_name)
def test_a_planted_bug_is_caught(planted: Planted) -> None:
    seed = finding_seed(simulate, planted)
    assert seed is not None, "it survived: make simulate BUGS=all"
    without = violation_without_bugs(seed, tuple(planted.weather.items()))
    assert not without, "it is not the planted bug"
