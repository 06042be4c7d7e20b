"""`--watch` renews a view until it is ended: nothing flickers, nothing is wider than the screen."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from tallyroll.cli import screen
from tallyroll.cli.reads.watching import SPARKS, CountsView
from tallyroll.cli.screen import Screen, bar, sparkline
from tallyroll.errors import Missing, Throttled, Unknown
from tallyroll.model.states import Status
from tallyroll.reads.counting.singly import SingleGlances
from tallyroll.reads.counts import Count, WindowCount
from tests.cli.command_line import CommandLine
from tests.harness.pipeline import NOW

MISSING = {"20261120T080000Z": "it takes too long"}
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Terminal(io.StringIO):
    """A terminal of 80 columns that keeps each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)

    @property
    def pictures(self) -> list[str]:
        """What each write showed."""
        plain = (CONTROL.sub("", text).strip("\n") for text in self.writes)
        return [text for text in plain if text]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The terminal behind stdout."""
    made = Terminal()
    real = screen._console

    def console(stream: Any) -> Console:
        if stream is sys.stderr:
            return real(stream)
        return Console(file=made, force_terminal=True, width=80, height=40, highlight=False)

    monkeypatch.setattr(screen, "_console", console)
    return made


def while_watched(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, *works: Callable[[], object]
) -> None:
    """Do one of the works whenever the command sleeps; then it is interrupted."""
    left, asleep = [*works], cli.pipeline.effects.sleep

    def sleep(ms: float) -> None:
        asleep(ms)
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    monkeypatch.setattr(cli.pipeline.effects, "sleep", sleep)


def counting(cli: CommandLine, key: str, n: int) -> Callable[[], object]:
    return lambda: cli.pipeline.write(*({"key": key, "ts": NOW} for _ in range(n)))


@pytest.fixture
def eventual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a store in memory have eventual reads, as DynamoDB has."""
    monkeypatch.setattr(SingleGlances, "has_eventual", True)


def failing(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> Callable[[], None]:
    """Let the next count fail: its look at what it knows, and the reads in place of that."""
    real, errors = cli.pipeline.catalog.calendar, [error, error]

    def fail() -> Any:
        if not errors[1:]:
            monkeypatch.setattr(cli.pipeline.catalog, "calendar", real)
        raise errors.pop()

    return lambda: monkeypatch.setattr(cli.pipeline.catalog, "calendar", fail)


def test_bars_and_rates_of_counts(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    counting(cli, "a", 30)()
    counting(cli, "b", 10)()
    while_watched(cli, monkeypatch, counting(cli, "b", 4), counting(cli, "b", 16))
    answer = cli.run("count", "a", "b", "none", "--watch")
    assert answer.status == 0
    assert re.search(r"^tallyroll: watched for 6s?", answer.err), answer.err
    first, second, third = [
        {line.split()[0]: line for line in picture.splitlines()}
        for picture in terminal.pictures[:3]
    ]
    assert first["a"].split() == ["a", "█" * 24, "30"]
    assert first["b"].split() == ["b", "█" * 8, "10"]
    assert first["none"].split() == ["none", "0"]
    assert second["b"].split()[2:] == ["14", "+2.0/s", "█"]
    assert third["b"].split() == ["b", "█" * 24, "30", "+8.0/s", "▃█"]
    assert third["a"].split()[2:] == ["30", "+0.0/s", "▁▁"]
    assert "every 2 s; Ctrl-C ends" in terminal.pictures[2]


def test_a_picture_is_one_write_in_the_place_of_the_one_before_and_fits(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    keys = ["k" * 500, "\x1b[2Jclear", "k"]
    for key in ("k" * 500, "k"):
        counting(cli, key, 3)()
    while_watched(cli, monkeypatch, *[counting(cli, "k", 1)] * 3)
    refused = cli.run("count", *keys, "--watch")
    assert refused.status == 2
    assert cli.run("count", keys[0], "k", "--watch").status == 0
    shown = [text for text in terminal.writes if "Ctrl-C ends" in text]
    assert len(shown) == 5  # each look, and once more when it ends
    for text in shown[1:4]:
        assert text.startswith("\r\x1b[2K\x1b[1A")
        assert all(len(line) <= 80 for line in CONTROL.sub("", text).splitlines())
        assert "\x1b[2J" not in text
    end = "".join(terminal.writes)
    assert end.rindex("\n") > end.rindex("Ctrl-C ends")
    assert end.rindex("\x1b[?25h") > end.rindex("\x1b[?25l"), "the cursor is shown again"


@pytest.mark.parametrize(
    ("columns", "key", "longest", "sparks"),
    [(120, 24, 24, 12), (80, 24, 3, 12), (70, 24, 0, 5), (50, 9, 0, 0)],
)
def test_numbers_stay_whole_where_the_rest_does_not_fit(
    columns: int, key: int, longest: int, sparks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(screen, "_console", lambda _: Console(file=terminal, width=columns))
    shown = Screen(json=False)
    view, pictures = CountsView(shown), []
    for look in range(SPARKS + 2):
        at, events = look * 2_000, look * 9_000_000 + 6_456_789
        many = Count("k" * 30, events, 0, (), at)
        pictures.append(view.picture(([many, Count("few", events, 0, (), at, MISSING)], 0)))
    shown._out.print(pictures[-1])
    lines = terminal.getvalue().splitlines()
    assert all(len(line) <= columns for line in lines)
    begins, drawn, ends = "k" * (key - 1) + "…", "█" * longest, "█" * sparks
    numbers = ["123,456,789", "+4,500,000.0/s"]
    assert lines[0].split() == [*filter(None, [begins, drawn, *numbers, ends])]
    assert lines[1].split() == [*filter(None, ["few", drawn, "123,456,789", "or", "more"])]


def test_what_is_not_answered_is_asked_again_beside_the_last_picture(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    counting(cli, "a", 30)()
    throttled = failing(cli, monkeypatch, Throttled("GetItem: slow down", "Throttling"))
    while_watched(cli, monkeypatch, throttled, counting(cli, "a", 1))
    assert cli.run("count", "a", "--watch").status == 0
    _, failed, again = terminal.pictures[:3]
    assert failed.split()[:3] == ["a", "█" * 24, "30"]
    assert "no answer since" in failed
    assert "GetItem: slow down" in failed
    assert again.split()[:3] == ["a", "█" * 24, "31"]
    assert "no answer" not in again


def test_what_stays_wrong_ends_it(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    counting(cli, "a", 3)()
    while_watched(cli, monkeypatch, failing(cli, monkeypatch, Missing("GetItem: gone", "None")))
    answer = cli.run("count", "a", "--watch")
    assert (answer.status, len(terminal.pictures)) == (3, 2)
    assert "GetItem: gone" in answer.err
    cli.cut_off()
    assert cli.run("count", "a", "--watch").status == 3


def test_without_a_terminal_each_look_is_put_out(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting(cli, "a", 3)()
    while_watched(cli, monkeypatch, counting(cli, "a", 2))
    answer = cli.run("count", "a", "--watch")
    assert answer.row("a", "3", "3", "yes", "2026-11-20T08:30:00.000Z")
    assert answer.row("a", "5", "5", "yes", "2026-11-20T08:30:02.000Z")


@pytest.mark.parametrize(("reads", "says"), [("eventual", ", maybe a moment old"), ("cli", "")])
def test_an_eventual_look_says_so(
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    terminal: Terminal,
    request: pytest.FixtureRequest,
    reads: str,
    says: str,
) -> None:
    """Where a store has only consistent reads, none is eventual."""
    request.getfixturevalue(reads)
    while_watched(cli, monkeypatch, counting(cli, "a", 1))
    assert cli.run("count", "a", "--watch", "--eventual").status == 0
    assert f"every 2 s{says}; Ctrl-C ends" in terminal.pictures[-1]


@pytest.mark.usefixtures("eventual")
def test_where_there_is_no_terminal_an_eventual_look_says_so(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_watched(cli, monkeypatch, counting(cli, "a", 1))
    answer = cli.run("count", "a", "--watch", "--eventual")
    assert answer.row("a", "1", "1", "yes", "2026-11-20T08:30:02.000Z")
    assert answer.err.count("eventual: this look may be a moment old") == 1  # the first is not


@pytest.mark.usefixtures("eventual")
@pytest.mark.parametrize(("asked", "reads"), [(["--eventual"], "eventual"), ([], None)])
def test_the_second_look_is_eventual_if_asked_for(
    asked: list[str], reads: str | None, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_watched(cli, monkeypatch, counting(cli, "a", 1))
    answer = cli.run("--json", "count", "a", "--watch", *asked)
    assert [one.get("reads") for one in answer.json] == [None, reads]


def test_a_single_look_cannot_be_eventual(cli: CommandLine) -> None:
    refused = cli.run("count", "a", "--eventual")
    assert (refused.status, refused.out) == (2, "")
    assert "--eventual: give it with --watch" in refused.err


def test_a_retraction_and_an_older_look_are_no_negative_rate() -> None:
    view = CountsView(Screen(json=False))
    rates = []
    for at, (events, retracted) in enumerate([(9, 0), (7, 2), (9, 4), (8, 4), (10, 4)]):
        window = WindowCount("20261120T080000Z", events, 0, Status.OPEN, retracted=(retracted, 0))
        view.picture(([Count("a", events, 0, (window,), at * 2_000)], 0))
        rates.append(view._pace("a")[0])
    assert rates == ["", "+0.0/s", "+2.0/s", "+0.0/s", "+1.0/s"]


def test_lines_of_json_go_on_after_a_look_that_was_not_answered(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_watched(
        cli, monkeypatch, failing(cli, monkeypatch, Unknown("GetItem")), counting(cli, "a", 1)
    )
    answer = cli.run("--json", "count", "a", "--watch")
    assert [one["events"] for one in answer.json] == [0, 1]
    assert "no answer: GetItem" in answer.err


def test_the_largest_keys_are_watched(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    for key, events in (("a", 30), ("b", 20), ("c", 10), ("d", 5)):
        counting(cli, key, events)()
    while_watched(cli, monkeypatch, counting(cli, "d", 35))
    assert cli.run("top", "--since", "20261120T080000Z", "--watch", "-n", "3").status == 0
    first, second = [
        {line.split()[0]: line.split()[2] for line in picture.splitlines() if "█" in line}
        for picture in terminal.pictures[:2]
    ]
    assert (first, second) == ({"a": "30", "b": "20", "c": "10"}, {"d": "40", "a": "30", "b": "20"})
    assert "every 2 s, 0 read units a minute; Ctrl-C ends" in terminal.pictures[0]


def test_without_a_terminal_each_look_at_the_largest_keys_is_put_out(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_watched(cli, monkeypatch, counting(cli, "a", 1))
    answer = cli.run("--json", "top", "--since", "20261120T080000Z", "--watch")
    assert [[one["events"] for one in look["counts"]] for look in answer.json] == [[], [1]]
    assert "key" in cli.run("top", "--since", "20261120T080000Z", "--watch").out
    assert cli.run("top", "--window", "current", "--watch").status == 2


def test_status_is_watched(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    while_watched(cli, monkeypatch, lambda: cli.pipeline.queue.send(json.dumps({"key": "a"})))
    assert cli.run("status", "--watch").status == 0
    first, second = terminal.pictures[:2]
    assert re.search(r"waiting +0 messages", first)
    assert re.search(r"waiting +1 message,", second)
    assert "every 5 s" in second


def test_watching_and_windows_exclude_each_other(cli: CommandLine) -> None:
    answer = cli.run("count", "a", "--watch", "--windows")
    assert answer.status == 2
    assert "--w" in answer.err


@pytest.mark.parametrize(
    ("value", "most", "shown"), [(0, 0, 0), (0, 9, 0), (-3, 9, 0), (1, 10**9, 1), (9, 9, 24)]
)
def test_a_bar(value: int, most: int, shown: int) -> None:
    assert bar(value, most) == "█" * shown


def test_a_sparkline() -> None:
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([0, 1, 50, 100]) == "▁▂▅█"
