"""The ids of packets that `load` makes: what keeps them, and what makes others."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tallyroll.client import checkpoint
from tallyroll.client.packing import FIRST_LIMITS, PacketLimits
from tallyroll.client.sources import shapes
from tallyroll.model.windows import iso
from tests.cli.command_line import CommandLine, lines
from tests.harness.pipeline import NOW, opened

pytestmark = pytest.mark.usefixtures("here")


def events(cli: CommandLine) -> int:
    cli.drain()
    return sum(count["events"] for count in cli.run("--json", "count", "k0").json)


@pytest.mark.parametrize("limit", list(asdict(FIRST_LIMITS)))
def test_packets_of_other_limits_have_other_ids(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: Path, limit: str
) -> None:
    """Else one id would have two contents, and its events would be rejected as conflicts."""
    (here / "a.jsonl").write_bytes(lines(*({"key": "k0", "ts": NOW + n} for n in range(9))))
    ids: list[set[str]] = []
    for most in (10_000, 10_001):
        cli = CommandLine(opened(), monkeypatch, capsys)
        limits = PacketLimits(**{limit: most})
        monkeypatch.setattr(checkpoint, "PacketLimits", lambda limits=limits: limits)
        assert cli.run("load", "a.jsonl").status == 0
        ids.append({json.loads(body)["id"] for body in cli.producer.bodies})
    assert ids[0].isdisjoint(ids[1])


def test_the_ids_of_the_first_releases_packets_stay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    """Else a file that another release loads again counts twice."""
    cli = CommandLine(opened(), monkeypatch, capsys)
    (here / "one.jsonl").write_text(f'{{"key": "a", "ts": {NOW}}}\n')
    assert cli.run("load", "one.jsonl").status == 0
    [body] = cli.producer.bodies
    assert json.loads(body)["id"] == "d6447c5d20bc0f2122cc-line-1"


@pytest.mark.parametrize("options", [(), ("--key", "key", "--ts", "ts")])
def test_what_another_release_reads_besides_leaves_the_other_packets_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    here: Path,
    options: tuple[str, ...],
) -> None:
    """A release that refused some lines loaded the file before: only these count now."""
    rows: list[dict[str, Any]] = [{"key": "k0", "ts": NOW + n} for n in range(30)]
    rows[4]["value"] = 0.1 + 0.2 + 1e-17
    rows[13]["value"] = 1 / 3
    if not options:
        rows[7]["ts"] = iso(NOW)
    (here / "a.jsonl").write_bytes(lines(*rows))
    cli = CommandLine(opened(), monkeypatch, capsys)
    with monkeypatch.context() as patch:
        patch.setattr(shapes, "FITTED", ())
        assert cli.run("load", "a.jsonl", *options).status == 1
    first, refused = {*cli.producer.bodies}, 2 + (not options)
    assert events(cli) == 30 - refused

    assert cli.run("load", "a.jsonl", *options, "--round", "6").status == 0
    assert first < {*cli.producer.bodies}
    assert events(cli) == 30
    assert cli.pipeline.reasons() == []


def test_a_load_says_when_other_options_would_count_it_again(cli: CommandLine, here: Path) -> None:
    in_seconds = {"key": "k0", "ts": NOW // 1000}
    (here / "a.jsonl").write_bytes(lines({"key": "k0", "ts": NOW}, in_seconds))
    answer = cli.run("load", "a.jsonl")
    assert "ts-in-seconds: give --ts-unit s" in answer.err
    assert "1 event of this load would count again with other options, unless they" in answer.err
    for others in ([], [{"key": "k0", "id": "own", "ts": NOW}]):
        (here / "b.jsonl").write_bytes(lines(in_seconds, *others))
        assert "would count again" not in cli.run("load", "b.jsonl", "--checkpoint", "b").err
