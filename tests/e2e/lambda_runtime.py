"""Runs a deployed function as Lambda does: AWS's runtime client, its zip, its environment.

The interpreter is the one that runs the tests, which is the one that the asset was built with.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from local.aws.guard import GuardedProcess, spawn_guarded
from local.runtime.api import RuntimeApi
from local.runtime.packages import reserved, start_command
from tallyroll.settings.options.rules import RUNTIMES
from tests.e2e.cdk_command import written_to
from tests.strict.relay import access_key

_INIT_TIMEOUT_S = 60.0  # on a busy machine; Lambda gives 10 s
_POLL_S = 0.1


class DeployedFunction:
    """A function with one execution environment, which starts with the first invocation.

    Args:
        configuration: What Lambda's GetFunctionConfiguration says of it.
        task: Where its zip is unpacked.
        runtime: Where Lambda's runtime is laid out.
        addresses: The environment's variables that lead to the emulators.
        changed: Variables that differ from the deployed ones.
        layers: Where the packages of its layers are.

    Attributes:
        init_s: What the initialization took, s; and `first_s` the first invocation after it.
    """

    def __init__(
        self,
        configuration: Mapping[str, Any],
        task: Path,
        runtime: Path,
        addresses: Mapping[str, str],
        changed: Mapping[str, str] = MappingProxyType({}),
        layers: Sequence[Path] = (),
    ) -> None:
        self.name: str = configuration["FunctionName"]
        self.init_s = self.first_s = 0.0
        self._configuration = configuration
        self._task, self._runtime, self._layers = task, runtime, layers
        self._added = {**changed, **addresses}
        self._api = RuntimeApi()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `close`)
        self._process: GuardedProcess | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The deployed variables, those that Lambda sets, and those that lead to the emulators."""
        deployed: dict[str, str] = self._configuration["Environment"]["Variables"]
        return {**deployed, **self.reserved, **self._added}

    @property
    def reserved(self) -> dict[str, str]:
        """What Lambda sets, and no deployment may; each function has credentials of its own."""
        configuration = self._configuration
        assert configuration["Runtime"] in RUNTIMES  # which this interpreter stands in for
        package = configuration["Handler"].split(".")[1]
        return {
            **reserved(
                self.name,
                configuration["Handler"],
                configuration["MemorySize"],
                api=self._api.address,
                task=self._task,
                runtime=self._runtime,
            ),
            "AWS_ACCESS_KEY_ID": access_key(package),
        }

    def invoke(self, event: Any) -> Any:
        """The function's response to an event.

        Raises FunctionFailed for an error of its own, and RuntimeError, with its log, if the
        process ends or keeps silent.
        """
        cold = self._process is None
        if cold:
            self._start()
        timeout_s = float(self._configuration["Timeout"])
        began = time.monotonic()
        self._api.offer(event, self._configuration["FunctionArn"], timeout_s)
        response = self._await_answer(began + timeout_s)
        if cold:
            self.first_s = time.monotonic() - began
        return response

    def metrics(self) -> list[dict[str, Any]]:
        """What it wrote to its log in CloudWatch's embedded metric format, so far."""
        return [
            json.loads(line)
            for line in self.log().splitlines()
            if line.startswith("{") and '"_aws"' in line
        ]

    def log(self) -> str:
        """What it wrote to stdout and stderr so far."""
        return written_to(self._output)

    def close(self) -> None:
        """End its process, and the server that it asks."""
        if self._process:
            self._process.stop()
        self._api.close()
        self._output.close()

    def _start(self) -> None:
        began = time.monotonic()
        self._process = spawn_guarded(
            start_command(self._configuration["Handler"], self._task, *self._layers, self._runtime),
            cwd=self._task,
            env=self.environment,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        while not self._api.asked.wait(_POLL_S):
            self._answer(0, began + _INIT_TIMEOUT_S)  # nothing but an error can come
        self.init_s = time.monotonic() - began

    def _await_answer(self, deadline: float) -> Any:
        while True:
            answer = self._answer(_POLL_S, deadline)
            if answer:
                return answer[0]

    def _answer(self, wait_s: float, deadline: float) -> tuple[Any] | None:
        """The answer, if one comes within `wait_s`. Raises as `invoke` does."""
        assert self._process
        status = self._process.poll()  # before the look at the answers: it may have sent one
        with contextlib.suppress(queue.Empty):
            return (self._api.answer(wait_s),)
        if status is not None:
            raise RuntimeError(f"{self.name} ended with status {status}:\n{self.log()}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{self.name} did not answer in time:\n{self.log()}")
        return None
