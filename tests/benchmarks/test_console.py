from __future__ import annotations

from typing import Any

from benchmarks.console import updates_of

MAIN, OTHER = {"pid": 7, "tid": 1}, {"pid": 7, "tid": 2}


def work(name: str, at_ms: int, ms: int, thread: dict[str, int] = MAIN) -> dict[str, Any]:
    return {"ph": "X", "name": name, "ts": 1000 * at_ms, "dur": 1000 * ms, **thread}


def answered(at_ms: int, kind: str = "application/json") -> dict[str, Any]:
    arguments = {"data": {"mimeType": kind}}
    return {"name": "ResourceReceiveResponse", "ts": 1000 * at_ms, "args": arguments, **MAIN}


def test_work_within_work_counts_once_and_that_of_other_threads_not_at_all() -> None:
    trace = [
        {"name": "thread_name", "args": {"name": "CrRendererMain"}, "ts": 0, **MAIN},
        {"name": "thread_name", "args": {"name": "Compositor"}, "ts": 0, **OTHER},
        work("FunctionCall", 1, 5),  # before the first answer
        answered(10),
        work("FunctionCall", 11, 4),
        work("Layout", 12, 2),  # which the script asked for
        work("UpdateLayoutTree", 20, 1),
        work("Paint", 22, 9),
        work("FunctionCall", 23, 9, OTHER),
        answered(15, "text/css"),
        answered(100),
        work("RunMicrotasks", 101, 3),
        work("Layout", 103, 2),
        answered(200),
    ]
    assert updates_of(trace) == [5.0, 4.0]
