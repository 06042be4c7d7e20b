"""Functions as Lambda runs them: a pool of sandboxes, one process for each execution at a time.

A sandbox that was killed, died or ran out of time is replaced at the next invocation, with a cold
start. What a handler prints is handed on line by line, all of it before `invoke` returns.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from local.runtime.sandbox import END_OF_LOG

INIT_TIMEOUT_S = 30.0  # Lambda gives 10 s; a busy laptop may need more
LOG_TIMEOUT_S = 2.0
CLOSE_TIMEOUT_S = 5.0
_ROOT = Path(__file__).parents[2]
_PIPE_BYTES = 65_536

KILLED = "Runtime.ExitError"
TIMED_OUT = "Sandbox.Timedout"

OnLog = Callable[[str], None]


class FunctionError(RuntimeError):
    """An invocation failed; `kind` is Lambda's word for it or the exception's class.

    `Sandbox.Timedout`: it took too long and was killed. `Runtime.ExitError`: its process died or
    was killed.
    """

    def __init__(self, kind: str, message: str, trace: str = "") -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.trace = trace


class Invokes(Protocol):
    """What a poller or a schedule needs of a function."""

    def invoke(self, event: Any, *, kill_after_ms: float | None = None) -> Any:
        """The response to an event. Raises FunctionError."""
        ...


class Function:
    """A handler, and up to `concurrency` sandboxes that run it, started when they are needed.

    Args:
        handler: The dotted path of the handler, such as `functions.writer.handler.handler`.
        environment: Added to this process's environment, from which everything of AWS and of
            Tallyroll is left out.
        concurrency: How many executions may run at once; further ones wait.
        timeout_s: After how long an execution is killed.
        on_log: Gets each line that the handler prints. Called from threads, one at a time per
            sandbox.
        name: The function's name; by default the handler's package.
    """

    def __init__(
        self,
        handler: str,
        environment: Mapping[str, str],
        *,
        concurrency: int = 1,
        timeout_s: float = 30.0,
        on_log: OnLog | None = None,
        name: str | None = None,
        memory_mb: int = 512,
    ) -> None:
        self.handler = handler
        self.name = name or handler.split(".")[-3 if handler.count(".") > 1 else 0]
        self.timeout_s = timeout_s
        self.cold_starts = 0
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TALLYROLL_"))},
            "AWS_LAMBDA_FUNCTION_NAME": self.name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mb),
            **environment,
        }
        self._on_log = on_log or (lambda _line: None)
        self._slots = threading.BoundedSemaphore(concurrency)
        self._changed = threading.Condition()
        self._idle: list[_Sandbox] = []
        self._busy: set[_Sandbox] = set()
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The process ids of the sandboxes that run now."""
        with self._changed:
            return [sandbox.pid for sandbox in (*self._idle, *self._busy) if sandbox.alive]

    def invoke(self, event: Any, *, kill_after_ms: float | None = None) -> Any:
        """Run the handler on an event and give its response; wait for a free sandbox before.

        `kill_after_ms` kills the process (SIGKILL) if the handler still works then: a crash on
        purpose. Raises FunctionError if the handler raised, the process died, or the time was up.
        """
        with self._slots:
            sandbox = self._take()
            try:
                return sandbox.invoke(event, self.timeout_s, kill_after_ms)
            finally:
                self._give_back(sandbox)

    def close(self) -> None:
        """End all sandboxes; an execution that still runs fails with FunctionError."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            for sandbox in self._busy:
                sandbox.kill()
        for sandbox in idle:
            sandbox.end()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, CLOSE_TIMEOUT_S)

    def _take(self) -> _Sandbox:
        while True:
            with self._changed:
                if self._closed:
                    raise FunctionError(KILLED, f"{self.name} is closed")
                if not self._idle:
                    self.cold_starts += 1
                    sandbox = _Sandbox(self.handler, self._environment, self._on_log)
                    self._busy.add(sandbox)
                    break
                sandbox = self._idle.pop()
                if sandbox.alive:
                    self._busy.add(sandbox)
                    return sandbox
            sandbox.end()
        try:
            sandbox.await_ready()
        except BaseException:
            self._give_back(sandbox)
            raise
        return sandbox

    def _give_back(self, sandbox: _Sandbox) -> None:
        with self._changed:
            keep = sandbox.usable and sandbox.alive and not self._closed
            if keep:
                self._idle.append(sandbox)
        if not keep:
            sandbox.end()
        with self._changed:
            self._busy.discard(sandbox)
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Sandbox:
    """One process of `local.runtime.sandbox`."""

    def __init__(self, handler: str, environment: Mapping[str, str], on_log: OnLog) -> None:
        self.usable = False
        self._on_log = on_log
        self._settled = threading.Lock()
        self._working = False
        self._unread = b""
        self._log_ended = threading.Semaphore(0)
        self._replies, replies = os.pipe()
        command = [
            sys.executable,
            "-m",
            "local.runtime.sandbox",
            handler,
            "--replies",
            str(replies),
        ]
        try:
            self._process = subprocess.Popen(
                command,
                cwd=_ROOT,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(replies,),
            )
        finally:
            os.close(replies)
        self.pid = self._process.pid
        self._logs = threading.Thread(target=self._read_logs, daemon=True)
        self._logs.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def await_ready(self) -> None:
        """Wait for the cold start. Raises FunctionError if the import failed."""
        self._checked(self._reply(time.monotonic() + INIT_TIMEOUT_S, "the cold start"))
        self.usable = True

    def invoke(self, event: Any, timeout_s: float, kill_after_ms: float | None) -> Any:
        self.usable = False
        deadline_ms = time.time_ns() // 1_000_000 + int(timeout_s * 1000)
        invocation = {"id": str(uuid.uuid4()), "deadline_ms": deadline_ms, "event": event}
        with self._killer(kill_after_ms):
            until = time.monotonic() + timeout_s
            try:
                assert self._process.stdin
                self._process.stdin.write(json.dumps(invocation).encode() + b"\n")
                self._process.stdin.flush()
            except OSError as error:
                raise self._died() from error
            reply = self._reply(until, f"the task of {timeout_s:g} s")
        self._log_ended.acquire(timeout=LOG_TIMEOUT_S)
        self.usable = True
        return self._checked(reply)

    def kill(self) -> None:
        """Send SIGKILL; a waiting caller gets an error."""
        self._process.kill()

    @contextlib.contextmanager
    def _killer(self, after_ms: float | None) -> Iterator[None]:
        """Kill the process after a time, unless the block has ended before."""
        self._working = True
        timer = threading.Timer((after_ms or 0) / 1000, self._kill_working)
        timer.daemon = True
        if after_ms is not None:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._settled:
                self._working = False

    def _kill_working(self) -> None:
        with self._settled:
            if self._working:
                self._process.kill()

    def _reply(self, until: float, what: str) -> dict[str, Any]:
        """The next line on the reply pipe.

        Raises FunctionError if the process ends or the time is up.
        """
        chunks = [self._unread]
        while b"\n" not in chunks[-1]:
            ready, _, _ = select.select([self._replies], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self._process.kill()
                raise FunctionError(TIMED_OUT, f"{what} timed out")
            chunk = os.read(self._replies, _PIPE_BYTES)
            if not chunk:
                raise self._died()
            chunks.append(chunk)
        line, _, self._unread = b"".join(chunks).partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _died(self) -> FunctionError:
        status = self._process.wait(10)
        return FunctionError(KILLED, f"the sandbox ended with status {status}")

    @staticmethod
    def _checked(reply: dict[str, Any]) -> Any:
        if "error" in reply:
            error = reply["error"]
            raise FunctionError(error["type"], error["message"], error["trace"])
        return reply.get("response")

    def _read_logs(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for raw in lines:
                line = raw.decode(errors="replace").rstrip("\n")
                if line == END_OF_LOG:
                    self._log_ended.release()
                elif line:
                    self._on_log(line)

    def end(self) -> None:
        """Kill the process and reap it; for the thread that holds it. Ending twice does no harm."""
        self._process.kill()
        self._process.wait()
        self._logs.join(LOG_TIMEOUT_S)
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        if self._replies >= 0:
            os.close(self._replies)
            self._replies = -1
