"""`tallyroll status`: how far the pipeline has counted. It gives its exit status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from tallyroll.cli.arguments import Run
from tallyroll.cli.reads.watching import STATUS_MS, Watch
from tallyroll.cli.screen import Screen, known, number_of, printable
from tallyroll.errors import UsageError
from tallyroll.model.windows import iso
from tallyroll.operations.doctor.queue_checks import span_text
from tallyroll.operations.overview.pulse import pulse_json
from tallyroll.operations.overview.status import LETTERS, WAITING, PipelineStatus, status_of


def status(*, watch: bool = False, more: bool = False, run: Run) -> int:
    """Show how far a pipeline has counted.

    That is: messages that wait in the queue and the oldest of them, until when all
    events are counted, the current window, dead letters, and the rate of counting.
    SQS's counts are approximate, and CloudWatch's metrics lag by a minute or two;
    "counted up to" allows for both. It only reads.

    For example:
      tallyroll status --json

    :param watch: look again every five seconds, until Ctrl-C ends it
    :param more: also the last hour's metrics, and the alarms' states
    """
    case, screen = run.checkup(None), run.screen

    def look() -> PipelineStatus:
        return status_of(case, needs_catalog=not more)

    def show(found: PipelineStatus) -> None:
        pulse = pulse_json(case, run.pipeline(case.settings).gauges, found.span) if more else {}
        unknown = {**found.unknown, **pulse.pop("unknown", {})}
        if screen.json:
            screen.emit({"pipeline": run.settings.name} | status_json(found) | pulse)
        else:
            rows = [(name, text) for name, text in _report(found).items() if text]
            screen.table(("", run.settings.name), rows)
            if more:
                _show_pulse(pulse, screen)
        for what, why in unknown.items():
            screen.tell(f"not known: {what}: {why}")

    if watch and more:
        raise UsageError("--more: give it without --watch")
    if watch:
        return Watch(screen, case.effects, STATUS_MS, look, show, _picture).until_ended()
    show(look())
    return 0


def _show_pulse(pulse: Mapping[str, Any], screen: Screen) -> None:
    gauges = [(name, [value for _, value in pairs]) for name, pairs in pulse["gauges"].items()]
    rows = [(name, f"{sum(of):g}", f"{max(of):g}", f"{of[-1]:g}") for name, of in gauges if of]
    screen.table(("in the last hour", "sum", "most", "last"), rows)
    screen.table(("alarm", "state"), [(one["name"], one["state"]) for one in pulse["alarms"]])


def _picture(found: PipelineStatus) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    unknown = {"not known": "; ".join(map(": ".join, found.unknown.items()))}
    for name, text in (_report(found) | unknown).items():
        if text:
            table.add_row(name, Text(printable(text)))
    return table


def _report(found: PipelineStatus) -> dict[str, str]:
    """The status in words."""
    now, queue, window = found.as_of, found.queue, found.window
    waiting, oldest = _without(found, WAITING), ""
    if queue:
        delayed = f", {queue.delayed:,} delayed" if queue.delayed else ""
        waiting = f"{number_of(queue.visible, 'message')}, {queue.in_flight:,} in flight{delayed}"
        if not queue.empty:
            oldest = "not known yet: CloudWatch has no age of it"
    if found.oldest is not None:
        oldest = f"sent {iso(found.oldest)}, {span_text(now - found.oldest)} ago"
    current = f"{found.span.id}" if found.span else ""
    if window:
        current += f", {window.status}"
    problem = found.why_not or f"takes events until {iso(window.accepts_until if window else 0)}"
    letters, rate = found.dead_letters, found.rate
    return {
        "as of": iso(now),
        "waiting": waiting,
        "oldest waiting": oldest,
        "all counted up to": iso(found.counted_up_to) if found.counted_up_to else "not known",
        "current window": f"{current}: {problem}" if current else problem,
        LETTERS: _without(found, LETTERS) if letters is None else f"{letters:,}",
        "rate": "" if rate is None else f"{rate:,.1f} events/s, over {span_text(found.rate_ms)}",
    }


def _without(found: PipelineStatus, queue: str) -> str:
    return "not known" if queue in found.unknown else "there is no such queue"


def status_json(found: PipelineStatus) -> dict[str, Any]:
    """The status as JSON, without what is not known."""
    queue, window = found.queue, found.window
    return known(
        as_of=iso(found.as_of),
        queue={"visible": queue.visible, "in_flight": queue.in_flight, "delayed": queue.delayed}
        if queue
        else None,
        oldest_sent=None if found.oldest is None else iso(found.oldest),
        counted_up_to=None if found.counted_up_to is None else iso(found.counted_up_to),
        window={
            "window": found.span.id,
            "state": window.status if window else None,
            "takes_events": found.takes_events,
        }
        if found.span
        else None,
        dead_letters=found.dead_letters,
        rate=found.rate,
    )
