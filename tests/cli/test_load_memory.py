"""A load's memory does not grow with its input."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tallyroll.client import loading
from tallyroll.ports.queue import SendFailure
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import NOW


class Discarding:
    """A queue that takes everything and keeps nothing. Memory is traced from the middle on: what
    grows with every line grows there, too, and tracing takes time.
    """

    def __init__(self, middle: int) -> None:
        self.messages = 0
        self._middle = middle

    def send(self, bodies: Iterable[str]) -> list[SendFailure]:
        self.messages += len(list(bodies))
        if self.messages > self._middle and not tracemalloc.is_tracing():
            tracemalloc.start()
        return []


@pytest.mark.proof
@pytest.mark.slow
def test_memory_is_bounded(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    number = 200_000
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "SEGMENT", number // 10)
    monkeypatch.setattr(loading, "CHUNK_RECORDS", number // 50)
    queue: Any = Discarding(number // 20)
    cli.producer = queue
    with gzip.open(tmp_path / "large.jsonl.gz", "wt", compresslevel=1) as file:
        for n in range(number):
            own = f',"id":"event-{n}"' if n % 10 == 0 else ""
            file.write(f'{{"key":"k{n % 50}","ts":{NOW - n % 300 * 1_000}{own}}}\n')
    try:
        answer = cli.run("--json", "load", "large.jsonl.gz")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (answer.status, answer.json[0]["events"]) == (0, number)
    assert queue.messages == answer.json[0]["messages"]
    assert 100_000 < peak < 10 * 1024 * 1024, peak
