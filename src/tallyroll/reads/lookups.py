"""Reads of one window: one event, all events of a key, the largest keys.

All reads are strongly consistent. Once a window's table is dropped, its items are in the archive,
and a read raises Archived.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import TypeVar

from tallyroll.errors import Absent, Archived, Missing, StoreError, Throttled, UsageError
from tallyroll.limits import LISTING_BUCKETS, TS_MS_MAX
from tallyroll.model.ids import IdentityItem, identity_names, uuid7_time
from tallyroll.model.periods import month_of
from tallyroll.model.records import Record
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.stored import StoredPacket, packed_id, stored
from tallyroll.model.tallies import Stripe, Sum, gather, place_of
from tallyroll.model.totals import Corrections, Listed, joined
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.catalog_cache import CachedSpecs
from tallyroll.ports.effects import Effects
from tallyroll.ports.paging import STRIPES_HELD, merged
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals
from tallyroll.reads.cursor import Position, cursor_of, read_cursor
from tallyroll.reads.found import Events, FoundEvent, RetractionMarks, StoredWhat, least_key
from tallyroll.reads.merge import EVENTS_MAX
from tallyroll.reads.parts import PartAsked, Parts
from tallyroll.reads.top import Largest, Top, listed_of

BUCKETS_AT_ONCE = 16
TOP_MAX = 1_000
LISTED_PER_PAGE = 1_000
DEADLINE_RESERVE_MS = 7_000  # for a read under way: 1 s to connect and 5 s to answer

T = TypeVar("T")
_IN_LOGS = (
    "; the key is logged: an event without an id of its own is found by its id in the log (~log...)"
    " or in a list of events, by its `message`, the id of the queue's message"
)
_Unmarked = tuple[Sequence[StoredWhat], dict[str, str]]  # and the least keys, by id


def deadline_of(now: int, time_left_ms: int) -> int:
    """The time (ms) after which a request with `time_left_ms` left begins no further read."""
    return now + time_left_ms - min(DEADLINE_RESERVE_MS, time_left_ms // 3)


class Lookups:
    """Reads windows. Use one per process, since it caches specs."""

    def __init__(self, store: Store, catalog: Catalog, totals: Totals, effects: Effects) -> None:
        self._store = store
        self._catalog = catalog
        self._totals = totals
        self._effects = effects
        self._specs = CachedSpecs(catalog)
        self._marks = RetractionMarks(store, totals, effects)
        self._parts = Parts(store, effects)

    def event(self, key: str, event_id: str, window: WindowId | None, ts: int | None) -> FoundEvent:
        """One event by its id, in `window` or the window of `ts` (ms).

        Without both, the window follows from where the id is taken, if ids count once beyond their
        windows by the rule of the current one; otherwise the id must be a UUIDv7, whose time gives
        the window. A packed event has the id `{packet id}:{index}`, unless a record has exactly
        this id. Raises UsageError if no window follows, Absent, Archived and StoreError.
        """
        rule = self._rule() if window is None and ts is None else None
        if rule and rule.identity is not IdentityScope.WINDOW:
            if taken := self._taken(rule, key, event_id):
                return self._event_taken(rule, key, event_id, taken)
            if uuid7_time(event_id) is None:
                raise Absent(
                    f"id {event_id!r} of key {key!r} is not taken: no event with it counted under"
                    " the present rule of identity, or it is forgotten; an id made from a"
                    " message's, or one of an earlier rule, is found by the event's ts or window"
                )
        chosen = window or self._window_at(event_id, ts)
        what, state = self._read(chosen, lambda spec: self._event(spec, key, event_id))
        if what is None:
            guess = "" if window or ts is not None else ", that of the time in its id"
            guess += self._in_logs(key, [chosen])
            raise Absent(f"there is no event {event_id!r} of key {key!r} in {chosen}{guess}")
        return self._found(key, state, what)

    def _rule(self) -> Spec | None:
        """The spec of the current window, or else of the one before; None if there is neither."""
        calendar = self._catalog.calendar()
        if calendar is None:
            return None
        current = calendar.grid.at(self._effects.now())
        windows = (current.id, calendar.grid.at(current.start - 1).id)
        specs = self._specs.specs(windows)
        return next((specs[window] for window in windows if window in specs), None)

    def _taken(self, rule: Spec, key: str, event_id: str) -> list[IdentityItem]:
        """The identity of the id, and that of the packet whose event it may name."""
        packed = packed_id(event_id)
        ids = (event_id, packed[0]) if packed else (event_id,)
        names = [name for each in ids for name in identity_names(rule, (key,), each)]
        found = self._store.identities(names)
        return [found[name] for name in names if name in found]

    def _event_taken(
        self, rule: Spec, key: str, event_id: str, taken: Sequence[IdentityItem]
    ) -> FoundEvent:
        """The event in one of the windows where its id, or its packet's, is taken.

        In the scope of the pipeline it may be there under other keys only.
        """
        archived: list[Archived] = []
        for identity in taken:
            try:
                what, state = self._read(
                    identity.window, lambda spec: self._event(spec, key, event_id)
                )
            except Archived as error:
                if self._may_have(rule, identity, key):
                    archived.append(error)
                continue
            if what is not None:
                return self._found(key, state, what)
        if archived:
            archived[0].also = tuple(each.window for each in archived[1:])
            raise archived[0]
        last = taken[-1]
        others = "" if last.key == key else f": there its id is taken under key {last.key!r}"
        raise Absent(f"there is no event {event_id!r} of key {key!r} in {last.window}{others}")

    def _may_have(self, rule: Spec, taken: IdentityItem, key: str) -> bool:
        """Whether the event of an identity may have the key. In the scope of the pipeline the
        identity names its least key; an event has others only by a mapping, none of which is ever
        forgotten.
        """
        if rule.identity is IdentityScope.KEY or taken.key == key:
            return True
        calendar = self._catalog.calendar()
        return taken.key < key and (calendar is None or bool(calendar.mappings.entries))

    def _window_at(self, event_id: str, ts: int | None) -> WindowId:
        instant = uuid7_time(event_id) if ts is None else ts
        if instant is None:
            reason = "holds no time, since it is no UUIDv7"
            raise UsageError(f"id {event_id!r} {reason}: give the event's date, ts or window")
        calendar = self._catalog.calendar()
        if calendar is None:
            raise Absent("the pipeline has no windows: its roller has not run yet")
        if instant > TS_MS_MAX:
            raise Absent(f"there is no window at {instant} ms, after the year 9999")
        return calendar.grid.at(instant).id

    def _found(self, key: str, window: Window, what: _Unmarked) -> FoundEvent:
        [marked] = self._marked(key, window, what)
        return FoundEvent(key, window.id, window.status, marked)

    def _marked(self, key: str, window: Window, what: _Unmarked) -> tuple[StoredWhat, ...]:
        """What was found in a window, with what was retracted of it. Raises Archived."""
        found, least_keys = what
        spec = self._spec(window.id)
        assert spec
        try:
            return self._marks.marked(spec, window.status, key, found, least_keys)
        except Missing:
            now = self._catalog.window(window.id)
            if now and now.status in (Status.DROPPING, Status.DROPPED):
                raise Archived(window.id, now.attempt.archive) from None
            raise

    def _event(self, spec: Spec, key: str, event_id: str) -> _Unmarked | None:
        if record := self._store.record(spec, key, event_id):
            return [stored(self._whole(spec, record))], least_key(record)
        if packed := packed_id(event_id):
            packet_id, index = packed
            packet = self._store.record(spec, key, packet_id)
            held = stored(self._whole(spec, packet)) if packet else None
            if isinstance(held, StoredPacket) and index < len(held.events):
                return [held.events[index]], {}
        return None

    def _whole(self, spec: Spec, record: Record) -> Record:
        """The record with its data, for which its chunks are read."""
        return self._parts.whole(spec, record)

    def events(
        self,
        key: str,
        window: WindowId,
        time_left_ms: int,
        *,
        limit: int = 100,
        cursor: str | None = None,
        packed: bool = False,
    ) -> Events:
        """Up to `limit` events of a key in a window from `cursor` on; fewer if they are large.

        Packets are unpacked unless `packed`. An event written meanwhile appears if its place lies
        after the cursor. Raises UsageError, Absent, Archived and StoreError.
        """
        if not 1 <= limit <= EVENTS_MAX:
            raise UsageError(f"limit {limit}: must be from 1 to {EVENTS_MAX}")
        position = Position()
        if cursor is not None:
            position = read_cursor(cursor, window, key, packed=packed)
        now = self._effects.now()
        deadline = deadline_of(now, time_left_ms)
        asked = PartAsked(key, position, limit, deadline, packed)
        answer, state = self._read(window, lambda spec: self._parts.read(spec, asked))
        if answer is None:
            return Events(key, window, state.status, (), None, complete=True, as_of=now)
        then = cursor_of(window, key, answer.then, packed=packed) if answer.then else None
        found = self._marked(key, state, (answer.found, answer.least_keys))
        return Events(key, window, state.status, found, then, answer.complete, now)

    def top(self, window: WindowId, n: int, time_left_ms: int, *, by_amount: bool = False) -> Top:
        """The `n` keys of a window with the most events, or with the largest sums; ties in code
        point order.

        Reads the listed totals of a sealed window, even if its table is dropped, and all tallies of
        a live one. Holds only some pages and the largest keys in memory. Raises UsageError, Absent,
        Archived and StoreError.
        """
        if not 1 <= n <= TOP_MAX:
            raise UsageError(f"n {n}: must be from 1 to {TOP_MAX}")
        now = self._effects.now()
        deadline = deadline_of(now, time_left_ms)
        state = self._catalog.window(window)
        found = Largest(n, by_amount)
        if state and state.listed:
            missing = self._add_listed(found, state, deadline)
        elif state and not state.status.sealed and not self._tallied(state):
            raise UsageError(
                f"window {window} is {state.status}: its store keeps no tallies, so its largest"
                " keys are known once it is sealed; count keys by their names until then"
            )
        else:
            corrected = self._corrected(state, deadline) if state and state.status.sealed else {}
            unread, state = self._read(
                window, lambda spec: self._add_live(found, spec, deadline, corrected)
            )
            missing = unread or 0
        return Top(
            window=window,
            status=state.status,
            largest=tuple(found.largest),
            keys=found.keys,
            events=found.events,
            amount=found.amount,
            missing=missing,
            as_of=now,
            retracted=found.retracted,
        )

    def _tallied(self, window: Window) -> bool:
        return self._store.metering_of(window.table).tallied

    def _add_listed(self, found: Largest, window: Window, deadline: int) -> int:
        """Add a window's listed totals, less their corrections; return the number of buckets not
        read in time.
        """
        # Before the listings: a correction that is in none of them came while they were read.
        corrected = bool(self._totals.revision(month_of(window.start).name))
        read = partial(self._bucket, window.id, corrected)
        jobs = [
            partial(read, Largest(found.n, found.by_amount), bucket, deadline)
            for bucket in range(1, (window.listed or 0) + 1)
        ]
        buckets = self._effects.together(jobs, BUCKETS_AT_ONCE)
        for bucket in filter(None, buckets):
            found.merge(bucket)
        return buckets.count(None)

    def _bucket(
        self,
        window: WindowId,
        corrected: bool,  # noqa: FBT001
        found: Largest,
        bucket: int,
        deadline: int,
    ) -> Largest | None:
        place = (window, bucket, "", LISTED_PER_PAGE)
        try:
            pages = self._totals.listing(*place)
            if corrected:
                pages = _joined(pages, self._totals.corrected(*place))
            for page in pages:
                found.add(page)
                if self._effects.now() >= deadline:
                    return None
        except StoreError:
            return None
        return found

    def _corrected(self, window: Window, deadline: int) -> dict[str, Corrections]:
        """What was corrected of a sealed window, by key. Its tallies have what was before. Raises
        StoreError, also if time runs out.
        """
        if not self._totals.revision(month_of(window.start).name):
            return {}
        found: dict[str, Corrections] = {}
        for bucket in range(1, LISTING_BUCKETS + 1):
            for page in self._totals.corrected(window.id, bucket, "", LISTED_PER_PAGE):
                if self._effects.now() >= deadline:
                    raise Throttled(f"the corrections of {window.id} take too long", "NoTime")
                found |= {row.key: row.corrections._replace(before=(0, 0)) for row in page}
        return found

    def _add_live(
        self, found: Largest, spec: Spec, deadline: int, corrected: Mapping[str, Corrections]
    ) -> int:
        """Add a window's tallies, less what was corrected of them; return the number of buckets
        that could not be read to their end in time. The buckets are merged, so that the stripes of
        a key come together.
        """
        page = max(1, STRIPES_HELD // spec.buckets)
        unread: set[int] = set()
        buckets = [
            self._stripes(spec, number, page, deadline, unread)
            for number in range(1, spec.buckets + 1)
        ]
        begun: list[Sum] = []
        for batch in merged(buckets, place_of, page, self._effects):
            found.add([_less(listed_of(each), corrected) for each in gather(begun, batch)])
        found.add([_less(listed_of(each), corrected) for each in begun])
        return len(unread)

    def _stripes(
        self, spec: Spec, number: int, page: int, deadline: int, unread: set[int]
    ) -> Iterator[list[Stripe]]:
        """A bucket's stripes; adds the bucket to `unread` if time runs out or a read fails."""
        pages: Iterator[list[Stripe]] | None = None
        while self._effects.now() < deadline:
            try:
                pages = pages or self._store.stripes(spec, number, "", page)
                stripes = next(pages, None)
            except Missing:
                raise
            except StoreError:
                break
            if stripes is None:
                return
            yield stripes
        unread.add(number)

    def _read(self, window: WindowId, read: Callable[[Spec], T]) -> tuple[T | None, Window]:
        """What `read` finds in a window's table (None before the window opens), and the window's
        state.

        The state is read last. States only move forward, so if the table is not being dropped then,
        it existed during the read, and what `read` did not find does not exist.
        """
        spec = self._spec(window)
        answer = gone = None
        if spec is not None:
            try:
                answer = read(spec)
            except Missing as missing:
                gone = missing
        state = self._catalog.window(window)
        if state is None:
            raise Absent(f"there is no window {window}")
        if state.status in (Status.DROPPING, Status.DROPPED):
            raise Archived(window, state.attempt.archive)
        if gone or (spec is None and state.status is not Status.CREATING):
            raise gone or Missing(f"window {window} has opened just now: ask again", "NoSpec")
        return answer, state

    def _in_logs(self, key: str, windows: Sequence[WindowId]) -> str:
        """How else an event may be found, if one of these windows logs the key."""
        logs = any(key in spec.logs for spec in self._specs.specs(windows).values())
        return _IN_LOGS if logs else ""

    def _spec(self, window: WindowId) -> Spec | None:
        return self._specs.specs([window]).get(window)


def _less(row: Listed, corrected: Mapping[str, Corrections]) -> Listed:
    if row.key not in corrected:
        return row
    return replace(row, corrections=corrected[row.key]._replace(before=row.corrections.before))


def _joined(
    totals: Iterator[list[Listed]], corrected: Iterator[list[Listed]]
) -> Iterator[list[Listed]]:
    """Pages of a bucket's totals, joined with their corrections."""
    rows = map(chain.from_iterable, (totals, corrected))
    found = joined(heapq.merge(*rows, key=attrgetter("key")))
    while page := list(islice(found, LISTED_PER_PAGE)):
        yield page
