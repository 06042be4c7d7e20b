"""What the page asks for: JSON, by GET.

Each answer is 200 with an object, or a problem (RFC 9457: `title`, `status`, `detail`): 400 wrong
use, 401 no token, 403 another site asks, 404 absent, 410 archived (with `archive`), 421 another
host, 500, 503 the store does not answer. Times are in ms; where the JSON is a command's, ISO 8601.

/api/tonight?since=&until=&by=events|sum&key=...
    The 20 largest keys of the windows that start in [since, until), and up to 70 keys
    that are followed. Bounds are ms, ISO 8601 or window ids, taken at the start of the window that
    holds them; without `since` from the first window on, without `until` open. since=-24h is so
    long ago, since=window the current window.
    {now, window: {id, start, end, state | null}, since, until, as_of, complete,
     missing: {window: why}, counts: [{key, events, sum, as_of, complete, largest, followed,
     retracted?: {events, sum}, parts?: [[start, events | null], ...]}],
     ranking: {keys, events, sum, retracted?, as_of, every_ms, complete, missing: [name]} | null}
    Followed keys, or else the three largest, are counted, by one `Reader.counts`; `parts` are their
    windows, rolled-up days and months, ascending; null: it is missing. The other largest have the
    numbers of `ranking`, one `Reader.top_within`, which is read again after `every_ms`; null:
    "the largest keys" are missing.
/api/find?key=K                                of the newest 50 windows that hold its events:
    {count: as `tallyroll count --json`,
     places: [{window, state, table | null, shards, archive | null}]}
/api/find?key=K&id=E&(date=2026-11-20|ts=|window=)
    {matches: [as `tallyroll event --json` gives it, and its place, record, shard | null],
     archives: [window]}
/api/keys?prefix=&since=&until=&limit=&cursor=        as GET /v1/keys of the HTTP API.
/api/letters?reason=&text=
    {seen, expected, groups: [as `tallyroll dlq list --json`], letters: [as `tallyroll dlq save`]}
/api/windows
    {now, older, missing: [window], windows: [as `tallyroll windows list --hot --json`, and `remedy`
     beside `late`]}
/api/health
    {now, status: as `tallyroll status --json`, alarms: [{name, state, says}], unknown: [why],
     gauges: {name: [[start, value], ...]}, shape: {shards, stripes, buckets, gates, hot} | null}
/api/doctor                                           {now, checks: [as `tallyroll doctor --json`]}
Each has `pipeline` and `read_units_a_minute`, too. The last four are kept for 15 seconds, gauges
and the doctor's checks for 60.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from tallyroll.cli.arguments import Run, duration
from tallyroll.cli.doctor import check_json
from tallyroll.cli.status import status_json
from tallyroll.cli.windows import overview_json
from tallyroll.model.windows import parse_instant
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.operations.doctor.examine import examine
from tallyroll.operations.overview.board import TIME_LEFT_MS, Board, BoardOf
from tallyroll.operations.overview.kept import KeptAnswers, monotonic_ms
from tallyroll.operations.overview.letter_search import search_letters
from tallyroll.operations.overview.ranking import Ranking
from tallyroll.operations.overview.recent import alarms_json, gauges_json, shape_json
from tallyroll.operations.overview.status import status_of
from tallyroll.operations.overview.whereabouts import found_event, found_key
from tallyroll.pipeline import inspection
from tallyroll.reads.http import answer_keys, parse_keys, parse_parameters, required_key

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

KEPT_MS, KEPT_LONG_MS = 15_000, 60_000
CURRENT = "window"

Answer = Callable[[str], Mapping[str, Any]]


class Answers:
    """Answers from a pipeline: `checkup` gives it as `doctor` sees it, `units` what its reads took
    in the last minute, and `clock` (ms) how old what is kept is.
    """

    def __init__(
        self,
        made: Pipeline,
        checkup: Callable[[], Checkup],
        units: Callable[[], float],
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._made, self._checkup, self._units = made, checkup, units
        self._catalog, self._now = made.catalog, made.effects.now
        self._kept = KeptAnswers(clock)
        ranking = Ranking(made.settings, made.store, made.catalog, made.totals, made.effects)
        self._board = Board(made.reader, made.catalog, ranking, self._kept)

    @classmethod
    def of(cls, run: Run) -> Self:
        """The answers of a run's pipeline, whose reads are metered. Raises StoreError."""
        ports, units = inspection.metered()
        checkup = partial(
            inspection.checkup, run.settings, bucket=None, named=run.named, deep=False, ports=ports
        )
        made = run.pipeline(checkup(run.screen.tell).settings, ports)
        return cls(made, lambda: checkup(lambda _: None), units)

    @property
    def routes(self) -> Mapping[str, Answer]:
        """The answers by path."""
        kept: dict[str, tuple[Answer, int]] = {
            "tonight": (self._tonight, 0),
            "find": (self._find, 0),
            "keys": (self._keys, 0),
            "letters": (self._letters, KEPT_MS),
            "windows": (self._windows, KEPT_MS),
            "health": (self._health, KEPT_MS),
            "doctor": (self._doctor, KEPT_LONG_MS),
        }
        return {f"/api/{name}": partial(self._answer, name, *how) for name, how in kept.items()}

    def _answer(self, name: str, answer: Answer, ms: int, query: str) -> Mapping[str, Any]:
        ask = partial(answer, query)
        said = self._kept.get((name, query), ask, lambda _: ms) if ms else ask()
        units = round(self._units(), 1)
        return {**said, "pipeline": self._made.settings.name, "read_units_a_minute": units}

    def _tonight(self, query: str) -> Mapping[str, Any]:
        keys, asked = parse_keys(query)
        now = self._now()

        def bound(name: str) -> int | None:
            text = asked.get(name, "")
            if text.startswith("-"):
                return max(0, now - duration(text[1:]))
            return now if text == CURRENT else parse_instant(text) if text else None

        followed, by_sum = [*map(required_key, keys)], asked.get("by") == "sum"
        of = BoardOf(bound("since"), bound("until"), by_sum, followed)
        return self._board.read(of, now)

    def _find(self, query: str) -> Mapping[str, Any]:
        asked = parse_parameters(query)
        key, ports = required_key(asked.get("key")), (self._made.reader, self._catalog)
        if id_ := asked.get("id"):
            of = [asked.get(name, "") for name in ("date", "ts", "window")]
            return found_event(*ports, key, id_, *of)
        return found_key(*ports, key)

    def _keys(self, query: str) -> Mapping[str, Any]:
        return answer_keys(self._made.reader, parse_parameters(query), TIME_LEFT_MS).body

    def _letters(self, query: str) -> Mapping[str, Any]:
        asked, made = parse_parameters(query), self._made
        of = [asked.get(name, "") for name in ("reason", "text")]
        return search_letters(made.dead_letters, made.effects, *of)

    def _windows(self, _: str) -> Mapping[str, Any]:
        return overview_json(self._catalog, self._made.settings, self._now())

    def _health(self, _: str) -> Mapping[str, Any]:
        case, made, now = self._checkup(), self._made, self._now()
        found = status_of(case)
        specs = self._catalog.specs([found.span.id] if found.span else [])
        alarms, unknown = alarms_json(case.stack)
        ask = partial(gauges_json, made.gauges, made.effects)
        gauges, unread = self._kept.get("gauges", ask, lambda _: KEPT_LONG_MS)
        return {
            "now": now,
            "status": {"pipeline": made.settings.name} | status_json(found),
            "alarms": alarms,
            "gauges": gauges,
            "unknown": [*found.unknown, *unknown, *unread],
            "shape": shape_json(next(iter(specs.values()), None)),
        }

    def _doctor(self, _: str) -> Mapping[str, Any]:
        found = examine(self._checkup())
        return {"now": self._now(), "checks": [*map(check_json, found)]}
