"""Readers of ranges, who ask the real aggregator by all its routes, and hold its answers to the
truth.

The windows of a range change while it is read: events come, they are sealed and dropped. So of a
sum it is checked that it lies between what was there when the read began, and what was there when
it ended; of lists, that they have all that was there before, and nothing that never counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tallyroll.errors import TallyrollError
from tallyroll.model.windows import window_start
from tallyroll.reads.http import (
    HttpAnswer,
    answer_counters,
    answer_error,
    answer_event,
    answer_events,
    answer_keys,
    answer_series,
    answer_top,
    answer_total,
)
from tallyroll.reads.lookups import TOP_MAX
from tallyroll.reads.ranges.spans import dropped
from tests.simulation.plans import PAST_WINDOWS, WINDOW_MS, shown_in_part_ms
from tests.simulation.producers import KEYS
from tests.simulation.readers import some_range
from tests.simulation.sandboxes import Context
from tests.simulation.truth import NOTHING, added, told_sums, unlike, window_name

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

EVERY_MS_MAX = 30_000
BETWEEN_PAGES_MS_MAX = 8_000
COUNTS_MAX, AGAIN_MS_MAX = 16, 4_000
PAGES_MAX = 60
ZONES = ("UTC", "Asia/Kolkata", "America/New_York")
STEPS = ("hour", "day", "week", "month", "minute")
ALL_KEYS = tuple(dict.fromkeys(KEYS))
"""The keys of most events; some events have further ones."""

Answer = Callable[[Any, dict[str, str], int], HttpAnswer]


@dataclass(frozen=True, slots=True)
class Asked:
    """A range [since, until) in ms, of which a part may not have come yet, and when its first
    request began (true ms).
    """

    since: int
    until: int
    began: int

    @property
    def parameters(self) -> dict[str, str]:
        return {"since": str(self.since), "until": str(self.until)}


class RangeReader:
    """Reads a range now and then, by one route or another."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._lag_ms = shown_in_part_ms(system.weather.clock_ms)
        self._routes: dict[str, Callable[[Asked], None]] = {
            "counters": self._counters,
            "series": self._series,
            "events": self._events,
            "event": self._event,
            "keys": self._keys,
            "top": self._top,
            "total": self._total,
        }

    def live(self) -> None:
        """Read as long as producers send, or somebody takes events back."""
        world, system = self._system.world, self._system
        routes = [self._counters, self._counters, *self._routes.values()]
        while system.producing or system.is_asking:
            world.pause(self._chance() * EVERY_MS_MAX)
            since, until = some_range(system, self._chance)
            if since is None or until is None:
                first = system.oracle.spans.at(world.start - PAST_WINDOWS * WINDOW_MS)
                last = system.oracle.spans.at(world.now)
                since, until = since or first[0], until or last[1]
            if since < until:
                self._any(routes)(Asked(since, until, world.now))

    def _chance(self) -> float:
        return self._system.world.random.random()

    def _any(self, some: Sequence[Any]) -> Any:
        return some[int(self._chance() * len(some))]

    def _ask(self, answer: Answer, parameters: dict[str, str]) -> HttpAnswer | None:
        """What a route answers; None if the function ended without an answer."""
        system = self._system

        def answered(context: Context) -> HttpAnswer:
            try:
                left_ms = context.get_remaining_time_in_millis()
                return answer(system.platform.use_case(), parameters, left_ms)
            except TallyrollError as error:
                return answer_error(error)

        found: HttpAnswer | None = system.platform.invoke("aggregator", answered).answer
        if found and found.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            system.world.fail(f"read: {parameters}: {found.body}")
        return found

    def _get(self, answer: Answer, parameters: dict[str, str]) -> dict[str, Any] | None:
        """The body of a whole or incomplete answer; None if there was none, or a problem."""
        found = self._ask(answer, parameters)
        return found.body if found and found.status == HTTPStatus.OK else None

    def _met(self, route: str, asked: Asked, told: object) -> None:
        self._system.marks.hit(f"ranged-{route}")
        span = f"{window_name(asked.since)}..{window_name(asked.until)}"
        self._system.world.note(f"range by {route}, {span}: {told}")

    # --- sums

    def _judge(
        self,
        what: str,
        part: Mapping[str, Any],
        keys: Sequence[str],
        span: tuple[int, int],
        since: int,
        *,
        complete: bool,
    ) -> None:
        """Fail unless sums of keys over windows are of moments from `since` (true ms) on."""
        truth, now = self._system.oracle.truth, self._system.world.now
        first = since - int(self._lag_ms)
        start, end = map(window_name, span)
        bounds = [truth.within(key, start, end, first, now) for key in keys]
        least, most = (added(*(pair[at] for pair in bounds)) for at in (0, 1))
        told = told_sums(part)
        if unlike(told, least if complete else NOTHING, most):
            self._system.world.fail(
                f"read: {what} says {told} of {keys} from {window_name(span[0])} to"
                f" {window_name(span[1])}, which had from {least} to {most}"
            )

    def _oldest(self, asked: Asked) -> int:
        """Since when (true ms) an answer that a sandbox may keep may be."""
        return asked.began - max(each.cache_live_ms for each in self._system.oracle.deployed)

    def _counters(self, asked: Asked) -> None:
        """Several keys, a few times in a row: soon the sandbox confirms what it knows."""
        for _ in range(1 + int(self._chance() * COUNTS_MAX)):
            self._count(replace(asked, began=self._system.world.now))
            self._system.world.pause(self._chance() * AGAIN_MS_MAX)

    def _count(self, asked: Asked) -> None:
        body = self._get(
            lambda use, given, left: answer_counters(use, ALL_KEYS, given, left), asked.parameters
        )
        if body is None:
            return
        self._met("counters", asked, [each["events"] for each in body["counters"]])
        if [each["key"] for each in body["counters"]] != [*ALL_KEYS]:
            self._system.world.fail(f"read: counters of {ALL_KEYS} are {body}")
        span, since = (asked.since, asked.until), self._oldest(asked)
        for each in body["counters"]:
            self._judge("counters", each, [each["key"]], span, since, complete=each["complete"])

    def _series(self, asked: Asked) -> None:
        key, step = self._any(ALL_KEYS), self._any(STEPS)
        given = asked.parameters | {"key": key, "step": step, "tz": self._any(ZONES)}
        body = self._get(answer_series, given)
        if body is None:
            return
        self._met("minutes" if step == "minute" else "series", asked, body["events"])
        points = body["points"]
        starts = [
            round(datetime.fromisoformat(each["start"]).timestamp() * 1000) for each in points
        ]
        ends = [*starts[1:], round(datetime.fromisoformat(body["until"]).timestamp() * 1000)]
        if starts[0] > asked.since or ends[-1] < asked.until:
            self._system.world.fail(f"read: a series of {key} does not span {asked}: {body}")
        if sum(each["events"] for each in points) != body["events"]:
            self._system.world.fail(f"read: a series of {key} is not the sum of its points: {body}")
        if step == "minute":
            self._minutes(key, points, starts, asked.began)
            return
        for point, *span in zip(points, starts, ends, strict=True):
            whole = point.get("complete", True)
            first, last = max(span[0], asked.since), min(span[1], asked.until)
            self._judge(
                f"a series by {step}", point, [key], (first, last), asked.began, complete=whole
            )

    def _minutes(self, key: str, points: Sequence[Any], starts: Sequence[int], since: int) -> None:
        """Minutes have net numbers of events alone. Those are judged that are a window's."""
        truth, now = self._system.oracle.truth, self._system.world.now
        for point, start in zip(points, starts, strict=True):
            window = self._system.oracle.spans.at(start)
            if window != (start, start + WINDOW_MS) or not point.get("complete", True):
                continue
            name, next_one = map(window_name, window)
            least, most = truth.within(key, name, next_one, since - int(self._lag_ms), now)
            if not least[0] - most[2] <= point["events"] <= most[0] - least[2]:
                self._system.world.fail(
                    f"read: the minute {name} of {key} is said to have {point['events']}"
                    f" events, it had from {least} to {most}"
                )

    def _top(self, asked: Asked) -> None:
        body = self._get(answer_top, asked.parameters | {"n": str(TOP_MAX)})
        if body is None:
            return
        self._met("top", asked, body["events"])
        self._check_all("top", body, body["top"], asked, complete=body["complete"])
        if body["complete"] and body["keys"] != len(body["top"]):
            self._system.world.fail(f"read: {body['keys']} keys are not those of {body['top']}")

    def _total(self, asked: Asked) -> None:
        body = self._get(answer_total, asked.parameters)
        if body is None:
            return
        self._met("total", asked, body["events"])
        self._judge(
            "the total",
            body,
            self._system.oracle.truth.keys(),
            (asked.since, asked.until),
            asked.began,
            complete=body["complete"],
        )

    def _keys(self, asked: Asked) -> None:
        """All pages of keys; a failed page is asked for again by its cursor."""
        rows: list[dict[str, Any]] = []
        pages = self._pages(answer_keys, asked.parameters | {"limit": "2"})
        whole = None
        for page in pages:
            rows += page["keys"]
            whole = page
        if whole is None or "cursor" in whole:
            return
        self._met("keys", asked, [row["key"] for row in rows])
        names = [row["key"] for row in rows]
        if len({*names}) < len(names):
            self._system.world.fail(f"read: keys come twice: {names}")
        self._check_all("keys", {}, rows, asked, complete=whole["complete"])

    def _check_all(
        self,
        what: str,
        body: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        asked: Asked,
        *,
        complete: bool,
    ) -> None:
        """Each key that is listed, all that are not, and the sum over all."""
        span = asked.since, asked.until
        listed = {row["key"]: row for row in rows}
        nothing = {"events": 0, "sum": "0"}
        keys = self._system.oracle.truth.keys()
        for key in keys:
            row = listed.pop(key, nothing)
            self._judge(what, row, [key], span, asked.began, complete=complete)
        if listed:
            self._system.world.fail(f"read: {what} has keys that never counted: {[*listed]}")
        if body:
            self._judge(what, body, keys, span, asked.began, complete=complete)

    def _pages(self, answer: Answer, given: dict[str, str]) -> Any:
        """The pages of a list that are answered, with pauses between them."""
        cursor: dict[str, str] = {}
        for _ in range(PAGES_MAX):
            page = self._get(answer, given | cursor)
            if page is None:
                if self._chance() < 0.5:
                    return
            else:
                yield page
                if "cursor" not in page:
                    return
                cursor = {"cursor": page["cursor"]}
            self._system.world.pause(self._chance() * BETWEEN_PAGES_MS_MAX)

    # --- events

    def _events(self, asked: Asked) -> None:
        """All pages of a key's events in the range: each once, and none is passed over. Three times
        of four also of dropped windows.
        """
        system, key = self._system, self._any(ALL_KEYS)
        shown = system.historian.shown_at
        there = [
            (window, name)
            for window, name in self._stored(key, asked)
            if shown(window_start(window), key, name) <= asked.began
        ]
        given = asked.parameters | {"key": key, "packed": "true", "limit": "30"}
        if asked.began % 4:  # no chance of its own, by which all else would happen otherwise
            given["archived"] = "true"
        gone = {
            each.id for each in system.catalog.windows(asked.since, asked.until) if dropped(each)
        }
        found: list[tuple[str, str]] = []
        last: dict[str, Any] | None = None
        for last in self._pages(answer_events, given):
            found += [(each["window"], each["id"]) for each in last["events"]]
        stored = self._stored(key, asked)
        if unknown := [each for each in found if each not in stored]:
            system.world.fail(f"read: events of {key} in a range: {unknown} never counted")
        if len({*found}) < len(found):
            system.world.fail(f"read: events of {key} in a range come twice: {found}")
        if last is None or "cursor" in last or not last["complete"]:
            return
        self._met(
            "archived" if gone & {window for window, _ in found} else "events", asked, len(found)
        )
        if missing := [each for each in there if each not in found]:
            system.world.fail(f"read: events of {key} in a range lack {missing}")

    def _stored(self, key: str, asked: Asked) -> list[tuple[str, str]]:
        """The windows and ids of a key's records in a range."""
        first, last = window_name(asked.since), window_name(asked.until)
        return [
            (window, name)
            for window, of, name in self._system.oracle.stored
            if of == key and first <= window < last
        ]

    def _event(self, asked: Asked) -> None:
        """One event by its id, somewhere in the range."""
        system, key = self._system, self._any(ALL_KEYS)
        stored = self._stored(key, asked)
        if not stored:
            return
        window, name = self._any(stored)
        answer = self._ask(partial(_event_of, key, name), asked.parameters)
        told = {HTTPStatus.NOT_FOUND: "Absent", HTTPStatus.GONE: "Archived"}
        identity = (window, key, name)
        if answer and answer.status in told:
            what = told[HTTPStatus(answer.status)]
            system.oracle.on_looked_up(identity, what, system.catalog, before=True)
        if answer is None or answer.status != HTTPStatus.OK:
            return
        self._met("event", asked, name)
        found = [one["window"] for one in (answer.body, *answer.body.get("also", ()))]
        gone = [one["window"] for one in answer.body.get("archived", ())]
        if window not in found + gone:
            system.world.fail(f"read: {name} of {key} is said to be in {found}, it is in {window}")
        where = [of for of, one in self._stored(key, asked) if one == name]
        if unknown := [of for of in found if of not in where]:
            system.world.fail(f"read: {name} of {key} never counted in {unknown}")


def _ms(iso: str) -> int:
    return round(datetime.fromisoformat(iso).timestamp() * 1000)


def _event_of(
    key: str, name: str, reader: Any, parameters: dict[str, str], left_ms: int
) -> HttpAnswer:
    del left_ms
    return answer_event(reader, parameters | {"key": key, "id": name})
