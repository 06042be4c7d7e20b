"""Incidents judged by the rules of the alarms, and the table of docs/faults.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tallyroll.cdk.alarm_rules import rules_for
from tallyroll.cdk.pages import PAGES
from tallyroll.settings import Settings
from tests.drills.incidents import INCIDENTS, Incident
from tests.drills.minutes import DAY, HOUR, Minute, healthy, published
from tests.simulation.alarms import Raised, raised
from tests.simulation.gauges import MINUTE_MS, Gauges

HEALTHY = 3 * HOUR
# When an incident begins, in minutes of an hour. After the first of a period, the rest of it tells
# of nothing that was published before; from the eighth of a quarter on, health prevails in it.
BEGINNINGS = (1, 8)
PAGED = {alarm: page for page, each in PAGES.items() for alarm in each.alarms}


def judged(minutes: Iterable[Minute], settings: Settings) -> list[Raised]:
    """The alarms that minutes raise, the first of which begins a day."""
    rules = rules_for(settings, settings.queue_retention_ms // 1000)
    gauges, until = Gauges(), 0
    for clock, minute in enumerate(minutes):
        until = (clock + 1) * MINUTE_MS
        for metrics in published(minute, clock):
            for metric, values in metrics.items():
                gauges.minutes.setdefault(metric, {})[clock] = values
    return raised(rules, gauges, 0, until)


def control(settings: Settings, day: Callable[[int, Settings], Minute] = healthy) -> list[Raised]:
    """The alarms of a day in health, by its minutes."""
    return judged((day(clock, settings) for clock in range(DAY)), settings)


def _drilled(incident: Incident, past: int) -> dict[str, int]:
    """After how many minutes each alarm is raised by an incident that begins at a minute of an
    hour. Raises AssertionError for an alarm before, and for one that ends while the incident lasts.
    """
    settings, begins = incident.settings, HEALTHY + past
    minutes = (
        well if clock < begins else incident.at(clock - begins, clock, well)
        for clock in range(begins + incident.lasts)
        for well in (healthy(clock, settings),)
    )
    after: dict[str, int] = {}
    for one in judged(minutes, settings):
        since = one.since // MINUTE_MS - begins
        assert since > 0, f"{one.id} in health"
        assert one.until is None, f"{one.id} says that it is over"
        after.setdefault(one.id, since)
    return after


def drilled(incident: Incident) -> dict[str, int]:
    """After how many minutes an incident raises each alarm, at the latest, whenever it begins in an
    hour; an incident of days begins once.
    """
    beginnings = BEGINNINGS if incident.lasts <= DAY else BEGINNINGS[:1]
    found = [_drilled(incident, past) for past in beginnings]
    return {id_: max(one.get(id_, incident.lasts) for one in found) for id_ in set().union(*found)}


def pages_of(incident: Incident) -> dict[str, int]:
    """The first alarm of each page that an incident begins, and after how many minutes."""
    began: dict[str, str] = {}
    for id_ in incident.alarms:
        if id_ in PAGED:
            began.setdefault(PAGED[id_], id_)
    return {id_: incident.alarms[id_] for id_ in began.values()}


def _shown(minutes: int) -> str:
    """A length of time as people say it."""
    if minutes < 2 * HOUR:
        return f"{minutes} min"
    return f"{minutes / HOUR:.1f} h" if minutes < 2 * DAY else f"{minutes / DAY:.1f} days"


def _cell(alarms: Mapping[str, int]) -> str:
    shown = (f"[{id_}](operations.md#{id_}) {_shown(after)}" for id_, after in alarms.items())
    return "<br>".join(shown)


def drills_table() -> str:
    """Who is told in each incident, and by when."""
    lines = ["| incident | first | pages | then | by |", "|---|---|---|---|---|"]
    for incident in INCIDENTS:
        first, pages = incident.first, pages_of(incident)
        rest = {id_: at for id_, at in incident.alarms.items() if id_ not in (first, *pages)}
        cells = (
            f"**{incident.name}**: {incident.what}",
            f"{'page' if first in PAGED else 'ticket'}: {_cell({first: incident.alarms[first]})}",
            _cell(pages) or "none",
            _cell(rest),
            incident.told,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
