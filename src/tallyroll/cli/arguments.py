"""What the commands share: the run they are given, and options that several have."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cyclopts import Group, Parameter, Token
from cyclopts.validators import mutually_exclusive

from tallyroll.errors import Missing, TallyrollError, UsageError
from tallyroll.model.windows import WindowId, is_window_id, iso, parse_instant, window_start
from tallyroll.reads.ranges.spans import date_ms
from tallyroll.settings import Settings
from tallyroll.settings.texts import PREFIX

if TYPE_CHECKING:
    from tallyroll.cli.screen import Screen
    from tallyroll.model.states import Calendar
    from tallyroll.operations.doctor.checkup import Checkup
    from tallyroll.pipeline import Pipeline

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
_DAY_MS = _UNITS_MS["d"]
_DAYS = ("today", "yesterday")
_TIMES = "2026-11-20T08:00Z (UTC if it has no zone), -1h, today, yesterday, a window id or ms"
_SNAPPED = "; -1h: the bound before that"
CURRENT, PREVIOUS = "current", "previous"


class Around(int):
    """A time in ms that was given relative to now. It seldom is a bound of a window: where one is
    needed, `Run.bounds` takes the bound before it.
    """


@Parameter(parse=False)
@dataclass(frozen=True)
class Run:
    """One run of a command: the settings, the screen, and the way to the pipeline.

    `named` says that the pipeline was named on the command line, not by the environment. The
    pipeline's module is imported late: it loads boto3, for which help need not wait.
    """

    settings: Settings
    screen: Screen
    named: bool

    @classmethod
    @contextmanager
    def connecting(cls, name: str | None, *, as_json: bool) -> Iterator[Run]:
        """A run, in which what boto3 raises before a first call are this package's errors."""
        from tallyroll import pipeline
        from tallyroll.cli.screen import Screen

        named = {} if name is None else {PREFIX + "NAME": name}
        with pipeline.connecting():
            settings = Settings.from_env({**os.environ, **named})
            yield cls(settings, Screen(json=as_json), bool(named))

    def pipeline(
        self, settings: Settings | None = None, ports: Mapping[str, object] = {}
    ) -> Pipeline:
        """The pipeline, of these settings instead of the run's if they are given, and with these
        ports in the place of its own.
        """
        from tallyroll import pipeline

        return pipeline.Pipeline(settings or self.settings, ports=ports)

    def with_queue(self) -> Settings:
        """The settings with the event queue's URL."""
        from tallyroll.pipeline import queue_urls

        return queue_urls.with_queue(self.settings, self.screen.tell, named=self.named)

    def with_queues(self) -> Settings:
        """The settings with the URLs of the event queue and of the dead-letter queue."""
        from tallyroll.pipeline import queue_urls

        return queue_urls.with_queues(self.settings, self.screen.tell, named=self.named)

    def bounds(self, made: Pipeline, *times: int | None) -> list[int | None]:
        """The times, those relative to now as the bounds of windows before them."""
        relative = any(isinstance(at, Around) for at in times)
        calendar = made.catalog.calendar() if relative else None
        if calendar is None:
            return list(times)
        bounds: list[int | None] = []
        for at in times:
            bound = calendar.grid.at(at).start if isinstance(at, Around) else at
            if at is not None and bound is not None and at != bound:
                taken = f"its start {iso(bound)} is taken"
                self.screen.tell(f"{iso(at)} is inside a window: {taken}")
            bounds.append(bound)
        return bounds

    def window(self, made: Pipeline, name: str) -> WindowId:
        """The window of an id, or the current or the previous one. Raises UsageError; Missing if
        there is no calendar.
        """
        if name not in (CURRENT, PREVIOUS):
            try:
                window_start(name)
            except UsageError as error:
                raise UsageError(f"{error}; or give {CURRENT} or {PREVIOUS}") from None
            return name
        grid = self.calendar(made).grid
        span = grid.at(made.effects.now())
        return span.id if name == CURRENT else grid.at(span.start - 1).id

    def calendar(self, made: Pipeline) -> Calendar:
        """The pipeline's calendar. Raises Missing if there is none."""
        calendar = made.catalog.calendar()
        if calendar is None:
            name = self.settings.name
            raise Missing(f"the pipeline {name!r} has no calendar: its roller has not run yet")
        return calendar

    def waiting(self) -> int:
        """How many messages wait in the event queue; 0 also if that cannot be seen."""
        from tallyroll.pipeline import queue_urls

        with suppress(TallyrollError):
            settings = queue_urls.with_queue(self.settings, lambda _: None, named=self.named)
            return self.pipeline(settings).queue.counts().total
        return 0

    def checkup(self, bucket: str | None, *, deep: bool = False) -> Checkup:
        """The pipeline as it is deployed."""
        from tallyroll.pipeline.inspection import checkup

        return checkup(self.settings, self.screen.tell, bucket=bucket, named=self.named, deep=deep)


def exclusive() -> Group:
    """A group of options of which one may be given."""
    return Group(validator=mutually_exclusive)


def read_by(parse: Callable[[str], object]) -> Callable[[Any, Sequence[Token]], Any]:
    """A converter of an option's value. The error of a refused value names the option."""

    def convert(_: Any, tokens: Sequence[Token]) -> Any:
        try:
            return parse(tokens[0].value)
        except UsageError as error:
            raise ValueError(str(error)) from None

    return convert


def duration(text: str) -> int:
    """The ms of a time span such as 90s, 30m, 24h or 7d."""
    match = _SPAN.fullmatch(text)
    if not match:
        raise UsageError(f"{text!r}: give a time span such as 90s, 30m, 24h or 7d")
    return int(match[1]) * _UNITS_MS[match[2]]


def now_ms() -> int:
    """This machine's clock."""
    return time.time_ns() // 1_000_000


def _time(text: str) -> int:
    """A time by this machine's clock (-1h, today, yesterday; days are UTC's), or as `parse_instant`
    takes it. One without a zone is named on stderr as what it was read as.
    """
    now = now_ms()
    if text in _DAYS:
        return Around((now // _DAY_MS - (text == "yesterday")) * _DAY_MS)
    if _SPAN.fullmatch(text[1:]) and text[0] == "-":
        return Around(max(0, now - duration(text[1:])))
    try:
        at = parse_instant(text)
    except UsageError as error:
        raise UsageError(f"{error}, or -1h, today, yesterday") from None
    if not text.isdigit() and not is_window_id(text) and not datetime.fromisoformat(text).tzinfo:
        sys.stderr.write(f"tallyroll: {text} has no zone: read as {iso(at)} (UTC)\n")
    return at


def up_to(most: int) -> Parameter:
    """A whole number from 1 to `most`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
            raise UsageError(f"{text!r}: give a whole number, 1 to {most:,}")
        return int(text)

    return Parameter(metavar="N", converter=read_by(read))


def _moment(text: str) -> int:
    """A time that is no day."""
    if text in _DAYS:
        raise UsageError(f"{text!r} is a day, not a time: give --date {text}")
    return _time(text)


def _date(text: str) -> int:
    """When a date begins, in UTC."""
    try:
        return _time(text) if text in _DAYS else date_ms(text)
    except UsageError as error:
        raise UsageError(f"{error}, today or yesterday") from None


def instant(text: str, read: Callable[[str], int] = _time) -> Parameter:
    """A time, in ms, with this help."""
    return Parameter(metavar="T", converter=read_by(read), help=text, allow_leading_hyphen=True)


NUMBER = up_to(999_999_999)
DURATION = Parameter(metavar="TIME", converter=read_by(duration))
HAPPENED = instant(f"when it happened: {_TIMES}")
MOMENT = instant("when it happened: 2026-11-20T08:00Z (UTC if it has no zone), -1h or ms", _moment)
DATE = Parameter(
    metavar="D",
    converter=read_by(_date),
    help="the day (of UTC) on which it happened: 2026-11-20, today or yesterday",
)
SINCE = instant(f"from this bound of a window on: {_TIMES}{_SNAPPED}")
UNTIL = instant("up to this bound of a window")
STARTS_SINCE = instant(f"windows that start from then on: {_TIMES}")
STARTS_UNTIL = instant("windows that start before then")
WINDOW = Parameter(
    metavar="W", help="the window's id (tallyroll windows list), current or previous"
)
BUCKET = Parameter(
    metavar="BUCKET", help="the archive bucket; the deployment's or TALLYROLL_BUCKET if left out"
)
