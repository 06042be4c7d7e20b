"""`tallyroll archive read --since --until`: the archives of a range, one after the other."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine
from tests.harness.archives import Archived, archived
from tests.harness.pipeline import WINDOW, hour

HERE = ("--bucket", "memory")
DAY = ("--since", "2026-11-20", "--until", "2026-11-21")


def again_at(whole: Archived, number: int) -> str:
    """The same archive of the window at another hour; its prefix."""

    def moved(text: str) -> str:
        return text.replace(WINDOW, hour(number)).replace("hour=08", f"hour={number:02d}")

    for key in list(whole.bucket.list(f"{whole.prefix}/")):
        body = whole.bucket.get(key)
        is_text = key.endswith(".json")
        whole.bucket.put(moved(key), moved(body.decode()).encode() if is_text else body)
    return moved(whole.prefix)


@pytest.fixture
def whole() -> Archived:
    made = archived()
    again_at(made, 10)
    again_at(made, 9)
    return made


@pytest.fixture
def cli(
    whole: Archived, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(whole.pipeline, monkeypatch, capsys)


def test_windows_are_read_in_their_order_in_either_layout(
    cli: CommandLine, whole: Archived
) -> None:
    singly = [cli.run("archive", "read", hour(number), *HERE).out for number in (8, 9, 10)]
    answer = cli.run("archive", "read", *DAY, *HERE)
    assert (answer.status, answer.out) == (0, "".join(singly))
    assert f"of 3 windows, {hour(8)} to {hour(10)}; those without an archive" in answer.err
    raw = cli.run("archive", "read", "--raw", *DAY, *HERE)
    assert [line["Item"] for line in raw.json] == 3 * whole.items()
    assert cli.run("archive", "compact", hour(9), *HERE).status == 0
    assert cli.run("archive", "read", *DAY, *HERE).out == answer.out
    own = [key for key in whole.bucket.list("archive/") if f"/{hour(9)}/a1/" in key]
    whole.remove(*own)
    mixed = cli.run("archive", "read", *DAY, *HERE)
    assert mixed.status == 0
    number = len(singly[0].splitlines())
    lines, expected = mixed.out.splitlines(), answer.out.splitlines()
    assert lines[:number] + lines[2 * number :] == expected[:number] + expected[2 * number :]
    assert sorted(lines) == sorted(expected)


@pytest.mark.parametrize(
    ("asked", "windows"),
    [
        (("--since", hour(9)), 2),
        (("--until", hour(9)), 1),
        (("--since", "2026-11-20T08:00:01Z", "--until", "2026-11-20T09:00:01Z"), 1),
        (("--since", hour(10), "--until", hour(11)), 1),
    ],
)
def test_bounds_are_of_the_windows_starts(
    cli: CommandLine, asked: tuple[str, ...], windows: int
) -> None:
    answer = cli.run("archive", "read", *asked, *HERE)
    assert (answer.status, len(answer.json)) == (0, 9 * windows)


def test_a_key_is_recounted_over_the_range(cli: CommandLine) -> None:
    answer = cli.run("archive", "read", "--key", "k0", *DAY, *HERE)
    assert {event["key"] for event in answer.json} == {"k0"}
    said = "key 'k0': 18 events, sum 4.500012 by its records, the same by its tally"
    assert said in answer.err
    none = cli.run("archive", "read", "--key", "none", *DAY, *HERE)
    assert (none.status, none.out) == (0, "")
    assert "0 events, sum 0 by its records, the same by its tally" in none.err


def test_a_window_that_is_not_proven_ends_it_before_the_first_event(
    cli: CommandLine, whole: Archived
) -> None:
    prefix = again_at(whole, 11)
    whole.remove(f"{prefix}/proof.json")
    answer = cli.run("archive", "read", *DAY, *HERE)
    assert (answer.status, answer.out) == (1, "")
    assert f"window {hour(11)}: its archive is not proven: give a range without" in answer.err
    assert f"tallyroll archive read {prefix}" in answer.err
    assert cli.run("archive", "read", prefix, *HERE).status == 0
    assert cli.run("archive", "read", "--until", hour(11), *HERE).status == 0
    whole.remove(f"{whole.prefix}/proof.json")
    assert "(the first of 2 such windows)" in cli.run("archive", "read", *DAY, *HERE).err
    whole.bucket.put(f"{whole.prefix}/proof.json", b"{")
    assert "proof malformed" in cli.run("archive", "read", *DAY, *HERE).err


def test_a_damaged_archive_is_told_and_the_others_are_read(
    cli: CommandLine, whole: Archived
) -> None:
    spoilt = whole.spoil()
    answer = cli.run("archive", "read", *DAY, *HERE)
    assert answer.status == 1
    assert spoilt in answer.err
    assert len(answer.json) >= 18


def test_wrong_use_names_the_value_and_the_remedy(cli: CommandLine) -> None:
    none = cli.run("archive", "read", "--since", hour(12), *HERE)
    assert (none.status, none.out) == (3, "")
    said = "no archive in 'memory' of a window of 'tallyroll' that starts from"
    assert f"{said} 2026-11-20T12:00:00" in none.err
    assert "give a range that `tallyroll archive list` shows" in none.err
    for wrong, said in {
        ("--since", hour(9), "--until", hour(8)): "is not before until 2026-11-20T08:00:00",
        ("--since", hour(9), "--until", hour(9)): "give an earlier since, or a later until",
        (): "give an archive, or --since, --until or both",
        (WINDOW, "--since", hour(8)): "give an archive, or --since, --until or both",
        ("--since", "late"): "'late'",
    }.items():
        answer = cli.run("archive", "read", *wrong, *HERE)
        assert (answer.status, answer.out) == (2, "")
        assert said in answer.err
