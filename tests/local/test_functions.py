"""The sandbox, and the pool of them: what Lambda promises a handler and its invoker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local.runtime.pool import KILLED, TIMED_OUT, Function, FunctionError

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENVIRONMENT = {"PYTHONPATH": str(HERE)}


def function(handler: str, /, **options: Any) -> Function:
    return Function(f"echoes.{handler}", ENVIRONMENT | options.pop("environment", {}), **options)


def gone(pid: int, within_s: float = 120.0) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_event_context_and_response() -> None:
    options = {"name": "writer", "timeout_s": 7.0, "memory_mb": 256}
    with function("echo", environment={"TALLYROLL_NAME": "mine"}, **options) as echo:
        first, second = echo.invoke({"key": ["é", 1]}), echo.invoke(None)
    assert first["event"] == {"key": ["é", 1]}
    assert second["event"] is None
    assert first["pid"] == second["pid"]
    assert first["request_id"] != second["request_id"]
    assert 5_000 < first["remaining_ms"] <= 7_000
    assert first["name"] == "writer"
    assert first["arn"] == "arn:aws:lambda:us-east-1:123456789012:function:writer"
    assert first["memory"] == "256"
    assert first["log_group"] == "/aws/lambda/writer"
    assert first["stdin"] == ""
    assert first["setting"] == "mine"


def test_no_credentials_or_settings_leak_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYROLL_NAME", "the caller's")
    with function("echo") as echo:
        assert echo.invoke(0)["setting"] is None


def test_logs_are_kept_apart_and_whole() -> None:
    lines: list[str] = []
    with function("echo", on_log=lines.append) as echo:
        for number in range(1, 4):
            echo.invoke(number)
            assert sorted(lines) == ["complained"] * number + ["printed"] * number


def test_an_exception_is_told_and_the_sandbox_stays_warm() -> None:
    with function("fail") as fail:
        pid = fail.invoke("well")
        with pytest.raises(FunctionError, match="LookupError: no luck") as caught:
            fail.invoke("luck")
        assert caught.value.kind == "LookupError"
        assert "in fail" in caught.value.trace
        assert fail.invoke("well") == pid
        assert fail.cold_starts == 1


def test_a_response_that_is_no_json() -> None:
    with (
        function("unserialisable") as unserialisable,
        pytest.raises(FunctionError, match="not JSON serializable"),
    ):
        unserialisable.invoke({})


def test_a_handler_that_cannot_be_imported() -> None:
    lost = Function("echoes.absent", ENVIRONMENT)
    with lost, pytest.raises(FunctionError, match="absent"):
        lost.invoke({})
    assert lost.pids == []


def test_a_timeout_kills_and_the_next_invocation_starts_cold() -> None:
    with function("sleep", timeout_s=2) as sleep:
        pid = sleep.invoke(0)
        with pytest.raises(FunctionError) as caught:
            sleep.invoke(30)
        assert caught.value.kind == TIMED_OUT
        assert gone(pid)
        assert sleep.invoke(0) != pid
        assert sleep.cold_starts == 2


def test_a_kill_in_the_middle() -> None:
    lines: list[str] = []
    with function("sleep", on_log=lines.append) as sleep:
        pid = sleep.invoke(0)
        with pytest.raises(FunctionError) as caught:
            sleep.invoke(30, kill_after_ms=1_000)
        assert caught.value.kind == KILLED
        assert gone(pid)
        assert lines == ["sleeping 0", "sleeping 30"]
        assert sleep.invoke(0) != pid


def test_a_kill_that_comes_too_late_does_no_harm() -> None:
    with function("sleep") as sleep:
        pid = sleep.invoke(0, kill_after_ms=2_000)
        time.sleep(2.1)
        assert sleep.invoke(0) == pid


def test_a_handler_that_ends_its_process() -> None:
    with function("die") as die:
        for _ in range(2):
            with pytest.raises(FunctionError, match="status 3") as caught:
                die.invoke({})
            assert caught.value.kind == KILLED


def test_a_sandbox_that_died_while_idle_is_replaced() -> None:
    with function("sleep") as sleep:
        pid = sleep.invoke(0)
        os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 120
        while sleep.pids and time.monotonic() < until:
            time.sleep(0.01)
        assert not sleep.pids
        assert sleep.invoke(0) != pid


def test_large_events_and_responses() -> None:
    text = "x" * 3_000_000
    with function("echo") as echo:
        assert echo.invoke(text)["event"] == text


def test_as_many_at_once_as_allowed() -> None:
    with function("sleep", concurrency=2) as sleep, ThreadPoolExecutor(3) as pool:
        pids = list(pool.map(sleep.invoke, [0.4, 0.4, 0.0]))
        assert len(set(pids)) == 2
        assert sorted(sleep.pids) == sorted(set(pids))


def test_closing_ends_what_still_runs() -> None:
    sleep = function("sleep")
    pid = sleep.invoke(0)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(sleep.invoke, 30)
        time.sleep(0.2)
        sleep.close()
        with pytest.raises(FunctionError):
            running.result(5)
    assert gone(pid)
    with pytest.raises(FunctionError, match="closed"):
        sleep.invoke(0)


def test_the_end_of_stdin_ends_a_busy_sandbox() -> None:
    replies_r, replies_w = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "local.runtime.sandbox", "echoes.spin", "--replies", str(replies_w)],
        cwd=ROOT,
        env=os.environ | ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(replies_w,),
    )
    os.close(replies_w)
    assert process.stdin
    assert process.stdout
    with process.stdin, process.stdout, os.fdopen(replies_r) as replies:
        assert json.loads(replies.readline()) == {"ready": True}
        process.stdin.write(b'{"id": "1", "deadline_ms": 0, "event": null}\n')
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"spinning")
        process.stdin.close()
        assert process.wait(5) == 0


def test_nothing_stays_behind_a_killed_parent() -> None:
    program = (
        "from local.runtime.pool import Function\n"
        f"spin = Function('echoes.spin', {ENVIRONMENT!r}, timeout_s=60, "
        "on_log=lambda line: print(line, flush=True))\n"
        "spin.invoke(0)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout
    with parent.stdout:
        pid = int(parent.stdout.readline().split()[1])
        parent.kill()
        parent.wait()
    assert gone(pid)
