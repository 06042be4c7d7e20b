"""`tallyroll series`: a key's counts by steps of time. It gives its exit status."""

from __future__ import annotations

from datetime import tzinfo
from typing import Annotated, Literal

from cyclopts import Parameter

from tallyroll.cli.arguments import SINCE, UNTIL, Around, Run, read_by
from tallyroll.cli.screen import Screen, bar, number_of
from tallyroll.model.amounts import format_amount
from tallyroll.reads.http import required_key
from tallyroll.reads.minutes import MINUTE_MS, Minutes, minutes_json
from tallyroll.reads.series import curve_json
from tallyroll.reads.steps import MINUTE, StepName, local_iso, zone_named


def series(
    key: str,
    /,
    *,
    since: Annotated[int | None, SINCE] = None,
    until: Annotated[int | None, UNTIL] = None,
    step: Literal["minute"] | StepName = "hour",
    tz: Annotated[
        tzinfo | None, Parameter(metavar="ZONE", converter=read_by(zone_named), n_tokens=1)
    ] = None,
    chart: bool = False,
    run: Run,
) -> int:
    """Count a key by the minute, hour, day, week or month.

    Each step begins where the last one ended, by the clocks of the time zone; so a day
    has 23 or 25 hours when they are changed. Its windows must begin where the steps do.
    The first step and the last one may be in part. By the minute there are only
    windows that are not sealed, and events without their sums.

    For example:
      tallyroll series candidate-7 --since today --chart
      tallyroll series candidate-7 --since -15m --step minute --chart
      tallyroll series video-42 --since -30d --step day --tz Europe/Berlin

    :param key: the key
    :param step: hour (the default), minute, day, week (from Monday on) or month
    :param tz: a time zone such as Europe/Berlin; UTC if left out
    :param chart: draw each step's events as a bar
    """
    key, made, screen = required_key(key), run.pipeline(), run.screen
    zone = tz or zone_named("UTC")
    if step == MINUTE:
        found = made.reader.minutes(key, _minute(since), _minute(until), zone)
        return _show(found, screen, chart=chart)
    since, until = run.bounds(made, since, until)
    curve = made.reader.series(key, since, until, step, zone)
    if screen.json:
        screen.emit(curve_json(curve))
    else:
        some = any(any(point.retracted) for point in curve.points)
        most = max(point.events for point in curve.points)
        screen.table(
            (step, "events", "sum", "retracted", "of these", ""),
            [
                (
                    local_iso(point.start, zone),
                    point.events,
                    format_amount(point.amount),
                    point.retracted[0] if some else None,
                    "" if point.complete else "not all could be read",
                    bar(point.events, most) if chart else "",
                )
                for point in curve.points
            ],
        )
        events = number_of(curve.count.events, "event")
        steps = number_of(len(curve.points), step)
        screen.tell(f"{key}: {events} in {steps} of {zone}")
    if curve.count.missing:
        screen.tell(f"{key}: could not read {', '.join(curve.count.missing)}: the rest is counted")
    return int(not curve.count.complete)


def _minute(at: int | None) -> int | None:
    """The begin of the minute of a time that was given relative to now; any other time as it is."""
    return at - at % MINUTE_MS if isinstance(at, Around) else at


def _show(minutes: Minutes, screen: Screen, *, chart: bool) -> int:
    if screen.json:
        screen.emit(minutes_json(minutes))
    else:
        most = max(point.events for point in minutes.points)
        screen.table(
            (MINUTE, "events", "of these", ""),
            [
                (
                    local_iso(point.start, minutes.zone),
                    point.events,
                    "" if point.complete else "not read",
                    bar(point.events, most) if chart else "",
                )
                for point in minutes.points
            ],
        )
        events = number_of(minutes.events, "event")
        steps = number_of(len(minutes.points), MINUTE)
        screen.tell(f"{minutes.key}: {events} in {steps} of {minutes.zone}")
    for window, why in minutes.why_missing.items():
        screen.tell(f"{minutes.key}: could not read {window}: {why}")
    return int(not minutes.complete)
