"""The doctor's checks of the calendar, the settings and the windows."""

from __future__ import annotations

from collections.abc import Iterator

from tallyroll.errors import UsageError
from tallyroll.lifecycle.overdue import late, next_missing, why_not_taking
from tallyroll.model.specs import IdentityScope
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import iso, length_of, text_of_length, window_id
from tallyroll.operations.doctor.checkup import (
    Checkup,
    Sign,
    finding,
    finding_of,
    fine,
    restoring,
    warning,
)
from tallyroll.resources import identities_table

_ROLLER = (
    "Let the roller run: its schedule (`aws scheduler list-schedules`), its log, its permissions"
    " (docs/operations.md, next-window-missing)."
)
_LATE = {
    Status.CREATING: _ROLLER,
    Status.OPEN: "The queue is not known to be drained of it (docs/operations.md, close-stuck).",
    Status.CLOSING: "The roller's log names what stops it (docs/operations.md, seal-stuck).",
    Status.SEALED: "Let cleanup run: its schedule and log (docs/operations.md, cleanup-silent).",
    Status.EXPORTING: "Cleanup's log names what stops it (docs/operations.md, export-stuck).",
    Status.PROVEN: "Let cleanup run (docs/operations.md, cleanup-silent).",
    Status.DROPPING: (
        "Let the dropper run. If its log says that it may not delete the table: its role needs the"
        " tag `proven` to be seen, by attribute-based access control for DynamoDB"
        " (docs/operations.md, steps-failing)."
    ),
}
_NEVER_AGAIN = (
    "Was the pipeline being taken down? A window is never opened again: its events are dead"
    " letters, to be redriven into the next one."
)
_RESTORE = "Items of the catalog were changed or deleted. Put them back as they were: {restoring}."


def _restore(case: Checkup) -> str:
    return _RESTORE.format(restoring=restoring(case.resources.catalog.name))


def calendar(case: Checkup) -> Iterator[Sign]:
    """There is a calendar, with the configured length of windows."""
    calendar = case.calendar
    if calendar is None:
        yield finding("there is no calendar: the roller has never run", _ROLLER)
        return
    length, configured = calendar.grid.lengths[-1][1], length_of(case.settings.window_length)
    if length != configured:
        said = f"windows are of {text_of_length(length)}, and {text_of_length(configured)} is set"
        remedy = "The roller's next run changes the length, if that is the deployment's setting."
        try:
            calendar.grid.with_length(case.settings.window_length, case.effects.now())
        except UsageError as error:
            remedy = f"The roller cannot change it: {error}."
        yield warning(f"{said} (TALLYROLL_WINDOW or TALLYROLL_WINDOW_SECONDS)", remedy)
    yield fine(f"windows of {text_of_length(length)} since {iso(calendar.genesis)}")


def settings(case: Checkup) -> Iterator[Sign]:
    """The settings here are the deployment's, and new windows have them."""
    for name, (here, there) in case.configured.items():
        yield warning(
            f"{name} is {here!r} in this environment, {there!r} in the deployment",
            "The deployment's holds. Unset the variable here, or deploy again with what you want.",
        )
    made = [w for w in case.windows.values() if w.status is Status.OPEN and w.shards]
    newest = made[-1] if made else None
    if newest and newest.shards != case.settings.shards:
        yield warning(
            f"window {newest.id} has {newest.shards} shards, and {case.settings.shards} are set",
            "Windows that are made from now on have them, if that is the deployment's setting.",
        )
    source = {
        True: "the deployment's",
        False: "this environment's: nothing is deployed",
        None: "this environment's: the deployment's are not known",
    }
    yield fine(f"settings are {source[case.deployed]}")


def roller(case: Checkup) -> Iterator[Sign]:
    """The current window is open, and the next ones exist."""
    now = case.effects.now()
    assert case.calendar
    grid = case.calendar.grid
    ends = [w.end for w in case.windows.values() if w.start >= case.calendar.genesis]
    missed = grid.over(max(ends, default=case.calendar.genesis), grid.at(now).start)
    missing = next_missing(case.calendar, case.windows, now, case.settings)
    for span in (*missed, *missing):
        if case.catalog.window(span.id) is None:
            text = "not made yet" if now < span.start else "it is missing: its events wait"
            yield finding_of(span.id, text, _ROLLER)
    current = case.windows.get(grid.at(now).id)
    if current:
        yield from _current(case, current, now)
    times = [at for window in case.windows.values() for at in window.times.values()]
    ahead = [window for window in case.windows.values() if window.start > now]
    since = f", the last change of a state at {iso(max(times))}" if times else ""
    yield fine(f"windows ahead: {len(ahead)}{since}")


def _current(case: Checkup, window: Window, now: int) -> Iterator[Sign]:
    """The current window takes events."""
    why = why_not_taking(window, now)
    if not why or not case.unchanged(window):
        return
    text = f"the current window is {window.status}: {why}"
    if window.status is not Status.CREATING:
        yield finding_of(window.id, text, _NEVER_AGAIN)
    elif late(window, now, case.settings):
        yield finding_of(window.id, text, _ROLLER)
    else:
        yield warning(f"{window.id}: {text}", "Look again in a minute or two.", window.id)


def stuck(case: Checkup) -> Iterator[Sign]:
    """No window is overdue in its step."""
    now = case.effects.now()
    for window in case.windows.values():
        text = late(window, now, case.settings)
        if text and case.unchanged(window):
            yield finding_of(window.id, text, remedy_of(window))
    live = sum(window.status is not Status.DROPPED for window in case.windows.values())
    yield fine(f"windows that are not dropped: {live:,}, none is late")


def remedy_of(window: Window) -> str:
    """What to do about a window that is late in its step; "" if nothing is known."""
    return _LATE.get(window.status, "")


def gaps(case: Checkup) -> Iterator[Sign]:
    """Windows have no gap between the first and the last, and lie on the grid. `roller` checks the
    windows after the last.
    """
    assert case.calendar
    grid, genesis = case.calendar.grid, case.calendar.genesis
    last = max((window.start for window in case.windows.values()), default=genesis)
    for span in grid.over(genesis, last):
        if span.id not in case.windows and case.catalog.window(span.id) is None:
            passed = case.pointer and case.pointer.since > span.start
            remedy = _restore(case) if passed else _ROLLER
            yield finding_of(span.id, "there is no such window", remedy)
    for window in case.windows.values():
        span = grid.at(window.start)
        if (span.start, span.end, span.id) != (window.start, window.end, window.id):
            yield finding_of(window.id, "it does not lie on the calendar's grid", _restore(case))
    yield fine(f"windows since {iso(genesis)}: {len(case.windows):,}, no gap")


def live_pointer(case: Checkup) -> Iterator[Sign]:
    """The live pointer covers every live window: functions ignore windows that it has passed."""
    pointer = case.pointer
    if pointer is None:
        if case.windows:
            yield finding("there is no live pointer, and there are windows", _restore(case))
        yield fine("no windows yet")
        return
    for window in case.windows.values():
        if window.status is not Status.DROPPED and not pointer.covers(window.start):
            yield finding_of(
                window.id,
                f"it is {window.status}, and the live pointer has passed it: neither roller nor"
                " cleanup looks at it",
                "Opening what is there already has it looked at again: `tallyroll windows open"
                f" --since {window.id} --until {window_id(window.end)}`.",
            )
    text = f"no regular window that lives starts before {iso(pointer.since)}"
    yield fine(f"{text}; spans of the past with live windows: {len(pointer.opened):,}")


def identities(case: Checkup) -> Iterator[Sign]:
    """Live windows whose ids count once beyond them have the table that remembers these."""
    live = [window.id for window in case.windows.values() if not window.status.sealed]
    specs = case.catalog.specs(live)
    found = [
        window
        for window in live
        if window in specs and specs[window].identity is not IdentityScope.WINDOW
    ]
    if case.resources.identities is None:
        table = identities_table(case.settings.name)
        for window in found:
            yield finding_of(
                window,
                f"its ids count once in the scope `{specs[window].identity}`, and the deployment"
                f" has no table {table}: its events wait",
                "Deploy with `-c tallyroll:keep_identities=true` until no window under that rule"
                " takes events.",
            )
    yield fine(f"windows not sealed whose ids count once beyond them: {len(found):,}")
