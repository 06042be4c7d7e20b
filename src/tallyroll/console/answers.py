"""What the page asks for: JSON by GET, whose shapes are in `page/answers.d.ts`. Times are in ms;
where the JSON is that of a command or of the HTTP API, ISO 8601.

/api/tonight?since=&until=&by=events|sum&key=...   the board of a range, with the followed keys
/api/find?key=K                                    as `count --where`
/api/find?key=K&id=E&(date=|ts=|window=)           as `event --where`
/api/keys                                          as GET /v1/keys
/api/letters?reason=&text=                         dead letters, as `dlq list` and `dlq find`
/api/windows, /api/health, /api/doctor             as `windows list`, `status` and `doctor`

Each has `pipeline` and `read_units_a_minute`. The last four are kept 15 s; metrics and checks 60.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Self

from tallyroll.cli.arguments import Run
from tallyroll.cli.doctor import check_json
from tallyroll.cli.status import status_json
from tallyroll.cli.windows import listed_json, rows_of
from tallyroll.console.server import Answer, Routes, Told
from tallyroll.lifecycle.overdue import next_missing
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.windows import parse_instant
from tallyroll.operations.dead_letter_scan import DeadLetterScan
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.operations.doctor.examine import examine
from tallyroll.operations.overview.board import TIME_LEFT_MS, Board, BoardOf
from tallyroll.operations.overview.kept import KeptAnswers
from tallyroll.operations.overview.letter_search import LetterSearch
from tallyroll.operations.overview.pulse import pulse_json
from tallyroll.operations.overview.ranking import Ranking
from tallyroll.operations.overview.status import status_of
from tallyroll.operations.overview.whereabouts import event_places, key_places
from tallyroll.pipeline import inspection
from tallyroll.ports.live_windows import list_live
from tallyroll.reads import http
from tallyroll.reads.counts import counter_json
from tallyroll.reads.ranges.spans import calendar_of

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

KEPT_MS, KEPT_LONG_MS = 15_000, 60_000
RECENT, WINDOWS_MAX, LETTERS_MAX, JOBS = 120, 240, 500, 4


class Answers:
    """Answers from a pipeline: `checkup` gives it as `doctor` sees it, `units` what its reads took
    in the last minute, and `clock` (ms) how old what is kept is.
    """

    def __init__(
        self,
        made: Pipeline,
        checkup: Callable[[], Checkup],
        units: Callable[[], float],
        clock: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._made, self._checkup, self._units = made, checkup, units
        self._catalog, self._now, self._kept = made.catalog, made.effects.now, KeptAnswers(clock)
        ranking = Ranking(made.settings, made.store, made.catalog, made.totals, made.effects)
        self._board = Board(made.reader, made.catalog, ranking, self._kept)

    @classmethod
    def of(cls, run: Run) -> Self:
        """The answers of a run's pipeline, whose reads are metered. Raises StoreError."""
        ports, units = inspection.metered()
        checkup = partial(inspection.checkup, run.settings, named=run.named, ports=ports)
        made = run.pipeline(checkup(run.screen.tell).settings, ports)
        return cls(made, partial(checkup, lambda _: None), units)

    @property
    def routes(self) -> Routes:
        """The answers by path."""
        asked: Mapping[str, Answer] = {
            "tonight": self._tonight,
            "find": self._find,
            "keys": self._keys,
            "letters": self._letters,
            "windows": lambda _: self._kept.get("windows", self._windows, KEPT_MS),
            "health": lambda _: self._kept.get("health", self._health, KEPT_MS),
            "doctor": lambda _: self._kept.get("doctor", self._doctor, KEPT_LONG_MS),
        }
        return {f"/api/{name}": partial(self._told, ask) for name, ask in asked.items()}

    def _told(self, ask: Answer, query: str) -> Told:
        said, units = ask(query), round(self._units(), 1)
        return {**said, "pipeline": self._made.settings.name, "read_units_a_minute": units}

    def _tonight(self, query: str) -> Told:
        keys, asked = http.parse_keys(query)
        times = [asked.get(name) for name in ("since", "until")]
        since, until = (parse_instant(time) if time else None for time in times)
        of = BoardOf(since, until, asked.get("by") == "sum", [*map(http.required_key, keys)])
        return self._board.read(of, self._now())

    def _letters(self, query: str) -> Told:
        asked = http.parse_parameters(query)
        of = asked.get("reason", ""), asked.get("text", "")
        return self._kept.get(("letters", *of), partial(self._search, *of), KEPT_MS)

    def _search(self, reason: str, text: str) -> Told:
        letters, search = self._made.dead_letters, LetterSearch(reason, text)
        with closing(DeadLetterScan(letters, self._made.effects, LETTERS_MAX)) as scan:
            scan.each(search.add, JOBS)
        found = {"groups": search.groups.json(), "letters": search.found(letters)}
        return {"seen": scan.seen, "expected": max(scan.expected, scan.seen), **found}

    def _keys(self, query: str) -> Told:
        asked = http.parse_parameters(query)
        return http.answer_keys(self._made.reader, asked, TIME_LEFT_MS).body

    def _find(self, query: str) -> Told:
        asked, reader = http.parse_parameters(query), self._made.reader
        key = http.required_key(asked.get("key"))
        if asked.get("id"):
            event = http.answer_event(reader, asked).body
            return event | {"matches": event_places(self._catalog, key, event)}
        count = reader.count(key, time_left_ms=TIME_LEFT_MS)
        apart = reader.count(key, time_left_ms=TIME_LEFT_MS, by_window=True)
        return {"count": counter_json(count), "places": key_places(self._catalog, apart)}

    def _windows(self) -> Told:
        """All windows that are not dropped and the newest of the others, as many as are shown."""
        now, calendar, catalog = self._now(), calendar_of(self._catalog), self._catalog
        current, settings = calendar.grid.at(now), self._made.settings
        recent = max(0, current.start - RECENT * (current.end - current.start))
        older = list_live(catalog, catalog.live(), 0, recent)
        found = {one.id: one for one in (*older, *catalog.windows(recent, TS_MS_MAX + 1))}
        shown = [*found.values()][-WINDOWS_MAX:]
        specs = catalog.specs([window.id for window in shown])
        return {
            "now": now,
            "older": len(found) - len(shown),
            "missing": [span.id for span in next_missing(calendar, found, now, settings)],
            "windows": [*map(listed_json, rows_of(shown, now, settings, specs))],
        }

    def _health(self) -> Told:
        case = self._checkup()
        found = status_of(case, needs_catalog=False)
        ask = partial(pulse_json, case, self._made.gauges, found.span)
        pulse = self._kept.get(("pulse", found.span), ask, KEPT_LONG_MS)
        unknown = {**found.unknown, **pulse["unknown"]}
        return {**pulse, "now": found.as_of, "status": status_json(found), "unknown": unknown}

    def _doctor(self) -> Told:
        return {"now": self._now(), "checks": [*map(check_json, examine(self._checkup()))]}
