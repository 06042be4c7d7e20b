"""What the page asks for: JSON, by GET.

Each answer is 200 with an object, or a problem (RFC 9457): 400 wrong use, 401 no token, 403 another
site asks, 404 absent, 410 archived, 421 another host, 500, 503 the store does not answer. Times are
in ms; where the JSON is a command's, ISO 8601.

/api/tonight?since=&until=&by=events|sum&key=...
    The 20 largest keys of the windows that start in [since, until), and up to 70 keys that are
    followed. Bounds are ms, ISO 8601 or window ids, taken at the start of the window that holds
    them; by default open. since=-24h is so long ago, since=window the current window.
    {now, window: {id, start, end, state | null}, since, until, as_of, complete,
     missing: {window: why}, counts: [{key, events, sum, as_of, complete, largest, followed,
     retracted?: {events, sum}, parts?: [[start, events | null], ...]}],
     ranking: {keys, events, sum, retracted?, as_of, every_ms, complete, missing: [name]} | null}
    Followed keys, or else the three largest, are counted, by one `Reader.counts`; `parts` are their
    windows, rolled-up days and months, ascending; null: it is missing. The other largest have the
    numbers of `ranking`, one `Reader.top_within`, which is read again after `every_ms`; null:
    "the largest keys" are missing.
/api/find?key=K                          of at most 50 of the newest windows that hold its events:
    {count: as `tallyroll count --json`,
     places: [{window, state, events, table | null, shards, archive | null}]}
/api/find?key=K&id=E&(date=2026-11-20|ts=|window=)
    {matches: [as `tallyroll event --json`, its place, record, shard | null], archives: [window]}
/api/keys?prefix=&since=&until=&limit=&cursor=  as GET /v1/keys of the HTTP API
/api/letters?reason=&text=
    {seen, expected, groups: [as `tallyroll dlq list --json`], letters: [as `tallyroll dlq save`]}
/api/windows
    {now, older, missing: [window], windows: [as `tallyroll windows list --hot --json`, and `remedy`
     beside `late`]}
/api/health
    {now, status: as `tallyroll status --json`, alarms: [{name, state, says}], unknown: {what: why},
     gauges: {name: [[start, value], ...]}, shape: {shards, stripes, buckets, gates, hot} | null}
/api/doctor                              {now, checks: [as `tallyroll doctor --json`]}
Each has `pipeline` and `read_units_a_minute`. The last four are kept 15 s, gauges and checks 60.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from tallyroll.cli.arguments import Run, duration
from tallyroll.cli.doctor import check_json
from tallyroll.cli.status import status_json
from tallyroll.cli.windows import overview_json
from tallyroll.console.server import Answer
from tallyroll.model.windows import parse_instant
from tallyroll.operations.doctor.checkup import Checkup
from tallyroll.operations.doctor.examine import examine
from tallyroll.operations.overview.board import TIME_LEFT_MS, Board, BoardOf
from tallyroll.operations.overview.kept import KeptAnswers, monotonic_ms
from tallyroll.operations.overview.letter_search import search_letters
from tallyroll.operations.overview.ranking import Ranking
from tallyroll.operations.overview.recent import alarms_json, gauges_json, shape_json
from tallyroll.operations.overview.status import part, status_of
from tallyroll.operations.overview.whereabouts import found_event, found_key
from tallyroll.pipeline import inspection
from tallyroll.reads.http import answer_keys, parse_keys, parse_parameters, required_key

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

KEPT_MS, KEPT_LONG_MS = 15_000, 60_000

Told = Mapping[str, Any]


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
        checkup = partial(inspection.checkup, bucket=None, deep=False, ports=ports)
        first = checkup(run.settings, run.screen.tell, named=run.named).settings
        queues = partial(
            replace, queue_url=first.queue_url, dead_letters_url=first.dead_letters_url
        )
        again = partial(checkup, queues(run.settings), lambda _: None, named=False)
        return cls(run.pipeline(first, ports), again, units)

    @property
    def routes(self) -> Mapping[str, Answer]:
        """The answers by path."""
        answers: dict[str, tuple[Callable[..., Told], int, Sequence[str]]] = {
            "find": (self._find, 0, ("key", "id", "date", "ts", "window")),
            "letters": (self._letters, KEPT_MS, ("reason", "text")),
            "windows": (self._windows, KEPT_MS, ()),
            "health": (self._health, KEPT_MS, ()),
            "doctor": (self._doctor, KEPT_LONG_MS, ()),
        }
        asked: dict[str, Answer] = {"tonight": self._tonight, "keys": self._keys}
        asked |= {name: partial(self._ask, *how) for name, how in answers.items()}
        return {f"/api/{name}": partial(self._told, ask) for name, ask in asked.items()}

    def _told(self, ask: Answer, query: str) -> Told:
        said, units = ask(query), round(self._units(), 1)
        return {**said, "pipeline": self._made.settings.name, "read_units_a_minute": units}

    def _ask(self, answer: Callable[..., Told], ms: int, names: Sequence[str], query: str) -> Told:
        asked = parse_parameters(query)
        of = [asked.get(name, "") for name in names]
        ask = partial(answer, *of)
        return self._kept.get((answer, *of), ask, lambda _: ms) if ms else ask()

    def _tonight(self, query: str) -> Told:
        keys, asked = parse_keys(query)
        now = self._now()

        def bound(name: str) -> int | None:
            text = asked.get(name, "")
            if text.startswith("-"):
                return max(0, now - duration(text[1:]))
            return now if text == "window" else parse_instant(text) if text else None

        followed, by_sum = [*map(required_key, keys)], asked.get("by") == "sum"
        of = BoardOf(bound("since"), bound("until"), by_sum, followed)
        return self._board.read(of, now)

    def _find(self, key: str, id_: str, *of: str) -> Told:
        at = self._made.reader, self._catalog, required_key(key or None)
        return found_event(*at, id_, *of) if id_ else found_key(*at)

    def _keys(self, query: str) -> Told:
        return answer_keys(self._made.reader, parse_parameters(query), TIME_LEFT_MS).body

    def _letters(self, reason: str, text: str) -> Told:
        return search_letters(self._made.dead_letters, self._made.effects, reason, text)

    def _windows(self) -> Told:
        return overview_json(self._catalog, self._made.settings, self._now())

    def _health(self) -> Told:
        case, made = self._checkup(), self._made
        found = status_of(case, needs_catalog=False)
        unknown = {**found.unknown}
        shape = part(unknown, "shards", partial(shape_json, self._catalog, found.span))
        alarms = part(unknown, "alarms", partial(alarms_json, case.stack)) or []
        ask = partial(gauges_json, made.gauges, made.effects)
        gauges, unread = self._kept.get("gauges", ask, lambda _: KEPT_LONG_MS)
        status = {"pipeline": made.settings.name} | status_json(found)
        more = {"unknown": unknown | unread, "shape": shape}
        return {"now": found.as_of, "status": status, "alarms": alarms, "gauges": gauges, **more}

    def _doctor(self) -> Told:
        found = examine(self._checkup())
        return {"now": self._now(), "checks": [*map(check_json, found)]}
