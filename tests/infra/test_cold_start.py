"""What a cold start loads: the benchmark itself, with one start of each kind."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.cold_start import EMPTY, RATIO_MAX, Ground, Start

pytestmark = pytest.mark.skipif(
    find_spec("awslambdaric") is None, reason="AWS's client runs on Linux"
)


@pytest.fixture(scope="module")
def starts(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Start]:
    """A cold start of the empty handler and one of the writer."""
    ground = Ground(tmp_path_factory.mktemp("cold"), bundle)
    return {name: ground.start(name) for name in (EMPTY, "writer")}


def test_a_start_is_told_part_by_part(starts: dict[str, Start]) -> None:
    common = {"runtime client", "boto3", "clients", "in all"}

    assert starts[EMPTY].cpu.keys() == common
    assert starts["writer"].cpu.keys() == common | {"powertools", "own code"}
    for start in starts.values():
        for spans in (start.cpu, start.wall):
            assert min(spans.values()) > 0
            assert sum(spans.values()) == pytest.approx(2 * spans["in all"])


def test_the_writer_starts_in_less_than_twice_the_time_of_an_empty_handler(
    starts: dict[str, Start],
) -> None:
    """In processor time, and with its clients: 1.3 times when this was written."""
    assert starts["writer"].cpu["in all"] < RATIO_MAX * starts[EMPTY].cpu["in all"]
