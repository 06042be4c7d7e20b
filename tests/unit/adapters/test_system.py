from __future__ import annotations

import multiprocessing
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tallyroll.adapters import system
from tallyroll.adapters.system import SystemEffects


def test_the_clock_is_the_machines() -> None:
    before = time.time()
    assert before * 1000 - 1 <= SystemEffects().now() <= time.time() * 1000 + 1


def test_sleep_takes_ms() -> None:
    began = time.monotonic()
    SystemEffects().sleep(20)
    assert time.monotonic() - began > 0.015


def test_jobs_run_side_by_side_and_answer_in_order() -> None:
    meeting = threading.Barrier(3, timeout=300)

    def meet(number: int) -> int:
        meeting.wait()
        return number

    jobs = [partial(meet, number) for number in range(3)]
    assert SystemEffects().together(jobs, 3) == [0, 1, 2]


@pytest.mark.parametrize("at_once", [1, 2])
def test_no_more_than_asked_for_run_at_once(at_once: int) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def job() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1

    SystemEffects().together([job] * 6, at_once)
    assert most <= at_once


def test_the_first_error_is_raised_after_the_last_job_has_ended() -> None:
    ended = []

    def fail() -> None:
        raise ValueError("first")

    def last() -> None:
        time.sleep(0.02)
        ended.append("last")

    with pytest.raises(ValueError, match="first"):
        SystemEffects().together([fail, last], 2)
    assert ended == ["last"]


def test_jobs_within_jobs_need_no_more_threads_than_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    effects = SystemEffects()
    jobs = [partial(effects.together, [partial(effects.together, [int] * 3, 3)] * 3, 3)] * 3
    with ThreadPoolExecutor(1) as one:
        monkeypatch.setattr(system, "_threads", one)
        assert effects.together(jobs, 3) == [[[0] * 3] * 3] * 3


def test_a_child_after_a_fork_has_threads_of_its_own() -> None:
    effects = SystemEffects()
    jobs = [partial(threading.Barrier(2, timeout=300).wait)] * 2
    effects.together(jobs, 2)
    child = multiprocessing.get_context("fork").Process(target=effects.together, args=(jobs, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        child.start()
    child.join(60)
    assert child.exitcode == 0


def test_chance_is_the_systems() -> None:
    assert 0 <= SystemEffects().chance.random() < 1
    assert 0 <= SystemEffects().chance.getrandbits(8) < 256


def test_no_jobs() -> None:
    assert SystemEffects().together([], 4) == []
