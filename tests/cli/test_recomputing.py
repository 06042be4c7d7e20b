"""`tallyroll windows recompute`: the sums of corrections, anew after a restore."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.archive.corrections import copy_corrections
from tallyroll.errors import Missing
from tallyroll.model.states import Attempt, Status
from tallyroll.model.totals import Correction, Corrections, Total
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import NOW, SMALL, hour, opened

SEVEN, SIX = hour(7), hour(6)
SPAN = ("--since", SIX, "--until", hour(9))
ARCHIVE = f"archive/tallyroll/{SEVEN}/1"
RIGHT = Corrections(1, 2_500_000)


def sums(cli: CommandLine, window: str = SEVEN) -> Corrections:
    return cli.pipeline.totals.of_window(window, ["k"], corrected=True)["k"].corrections


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Windows 06 and 07 are sealed, an event of each is corrected; 07 has a copy of it."""
    line = CommandLine(opened(replace(SMALL, bucket="memory")), monkeypatch, capsys)
    totals = line.pipeline.totals
    for window in (SIX, SEVEN):
        totals.put([Total("k", window, 3, 9_000_000)])
        totals.correct([Correction(window, "e1", ("k",), *RIGHT[:2], b"h", NOW)])
    line.pipeline.move(Status.SEALED, SIX)
    line.pipeline.move(Status.EXPORTING, SEVEN, attempt=Attempt(archive=ARCHIVE))
    state = line.pipeline.catalog.window(SEVEN)
    assert state
    copy_corrections(state, totals, line.pipeline.bucket)
    return line


def lost(cli: CommandLine, window: str, *, entry: bool = False) -> None:
    """As a restored copy of the totals may lack items."""
    totals = cli.pipeline.totals
    del totals._corrected["k", window]
    if entry:
        del totals._corrections["k", window, "e1", None]


def test_sums_are_those_of_the_corrections_again(cli: CommandLine) -> None:
    lost(cli, SIX)
    dry = cli.run("windows", "recompute", *SPAN, "--bucket", "memory", "--dry-run")
    assert (dry.status, sums(cli, SIX)) == (0, Corrections())
    assert "0 corrections put back, 1 sum would be changed" in dry.err
    answer = cli.run("--json", "windows", "recompute", *SPAN, "--bucket", "memory")
    assert answer.status == 0
    [told] = answer.json
    assert told == {
        "key": "k",
        "in": SIX,
        "before": {"events": 0, "sum": "0"},
        "after": {"events": 1, "sum": "2.5"},
    }
    assert sums(cli, SIX) == sums(cli) == RIGHT
    assert cli.run("windows", "recompute", *SPAN, "--bucket", "memory").out == ""


@pytest.mark.parametrize("with_sums", [False, True])
def test_what_only_the_copy_has_is_put_back(cli: CommandLine, *, with_sums: bool) -> None:
    lost(cli, SEVEN, entry=True)
    if with_sums:  # the correction alone was lost
        cli.pipeline.totals._corrected["k", SEVEN] = RIGHT
    answer = cli.run("windows", "recompute", *SPAN, "--bucket", "memory")
    assert "2 windows, 1 correction put back, " in answer.err
    assert sums(cli) == RIGHT
    assert len(cli.pipeline.totals.corrections("k", SEVEN)) == 1
    [day] = {
        each
        for (key, name), each in cli.pipeline.totals._corrected.items()
        if (key, name) == ("k", "day#20261120")
    }
    assert day == Corrections(2, 5_000_000)


def test_a_dry_run_puts_nothing_back(cli: CommandLine) -> None:
    lost(cli, SEVEN, entry=True)
    cli.run("windows", "recompute", *SPAN, "--bucket", "memory", "--dry-run")
    assert cli.pipeline.totals.corrections("k", SEVEN) == []


def test_only_sealed_windows_have_corrections(cli: CommandLine) -> None:
    answer = cli.run("windows", "recompute", "--since", hour(8), "--until", hour(9))
    assert answer.status == 2
    assert "no window between these times is sealed" in answer.err


def test_without_a_bucket_the_sums_are_computed_from_what_is_there(cli: CommandLine) -> None:
    lost(cli, SIX)
    answer = cli.run("windows", "recompute", *SPAN)
    assert "what only the copies beside archives have stays missing" in answer.err
    assert sums(cli, SIX) == RIGHT


def test_a_copy_that_cannot_be_read_is_told(cli: CommandLine) -> None:
    def gone(prefix: str, after: str = "") -> list[str]:
        raise Missing(f"no bucket for {prefix}", "NoSuchBucket")

    cli.pipeline.bucket.list = gone  # type: ignore[method-assign]
    answer = cli.run("windows", "recompute", *SPAN, "--bucket", "memory")
    assert answer.status == 3
    assert "no bucket for" in answer.err
