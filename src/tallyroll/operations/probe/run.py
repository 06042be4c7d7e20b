"""Probes a deployment: sends events, reads them while they are counted, and judges the reads.

It knows only what any client knows: it uses the producers' queue, and the reads of
`tallyroll count` and `tallyroll event`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from threading import Lock

from tallyroll.errors import Absent, Archived, StoreError
from tallyroll.limits import QUEUE_BATCH_MAX
from tallyroll.model.periods import period_of
from tallyroll.model.windows import WindowId, window_id, window_start
from tallyroll.operations.probe.history import History, Identity, ProbeRead, ProbeVerdict, Share
from tallyroll.operations.probe.judge import judge
from tallyroll.operations.probe.plan import POLLS, READERS, ROUNDS, Parcel, ProbePlan
from tallyroll.ports.backoff import BULK_REQUEST
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Sender
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals
from tallyroll.reads.counts import Count
from tallyroll.reads.reader import PortReader
from tallyroll.settings import Settings

TIME_LEFT_MS = 60_000
PAUSE_MS, POLL_MS, POLL_MS_MAX = 250, 500, 15_000
LINGER_MS = 10_000  # after the last event was counted: second copies may still arrive
UNANSWERED_MAX = 20  # failed reads in a row, after which the probe gives up


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe. Of the events `taken` by the queue, `counted` were read at the end;
    `missing` are the others, by key and window. `unsent` is the number of messages that the queue
    may not have taken, `unanswered` the number of failed reads.
    """

    verdict: ProbeVerdict
    taken: int
    counted: int
    missing: dict[tuple[str, WindowId], int]
    unsent: int
    reads: int
    unanswered: int

    @property
    def in_time(self) -> bool:
        """Whether all events that the queue took were read."""
        return not self.missing


def read_of(
    count: Count,
    client: str,
    began: int,
    ended: int,
    *,
    since: int | None = None,
    until: int | None = None,
    cache_ms: int = 0,
    asked: str = "",
) -> ProbeRead:
    """A count of [since, until) ms by a client, as a read of a history."""
    shares = [Share.of_window(window_start(w.window), w.events, w.amount) for w in count.windows]
    for part in count.periods:
        period = period_of(part.period)
        shares.append(Share(period.start, period.end, part.events, part.amount))
    return ProbeRead(
        client,
        count.key,
        began,
        ended,
        count.events,
        count.amount,
        since=-inf if since is None else since,
        until=inf if until is None else until,
        cache_ms=cache_ms,
        shares=tuple(shares),
        missing=tuple(map(window_start, count.missing)),
        complete=count.complete,
        as_of=count.as_of,
        asked=asked,
    )


class Probe:
    """Carries out a plan. `history` is what its clients did and read so far."""

    def __init__(
        self,
        plan: ProbePlan,
        settings: Settings,
        store: Store,
        catalog: Catalog,
        totals: Totals,
        effects: Effects,
        producer: Sender,
    ) -> None:
        self.history = History()
        self._plan = plan
        self._settings = settings
        self._ports = store, catalog, totals
        self._effects = _Steady(effects)
        self._producer = producer
        self._since, self._until = plan.windows[0].start, plan.windows[-1].end
        self._taken: dict[Identity, Parcel] = {}
        self._expected = Counter(dict.fromkeys(plan.keys, 0))
        self._waiting = len(plan.senders)
        self._unsent = self._unanswered = 0
        self._counted = dict.fromkeys(plan.keys, 0)
        self._last: dict[str, Count] = {}
        self._lock = Lock()

    def run(self, timeout_ms: int, on_progress: Callable[[int], None]) -> ProbeResult:
        """Send, read, wait for the last event, and judge; calls `on_progress` with the events read
        so far.

        Raises StoreError if reads keep failing.
        """
        deadline = self._effects.now() + timeout_ms
        jobs = [partial(self._send_all, sender) for sender in self._plan.senders]
        jobs += [partial(self._watch, number, deadline, on_progress) for number in range(READERS)]
        self._effects.together(jobs, len(jobs))
        last = self._client("last reader")
        self._await(last, deadline, on_progress)
        if self._is_exact():
            self._effects.sleep(LINGER_MS)
            self._look_at_all(last)
        return ProbeResult(
            judge(self.history),
            self._expected.total(),
            sum(self._counted.values()),
            self._missing(),
            self._unsent,
            len(self.history.reads),
            self._unanswered,
        )

    def _send_all(self, parcels: Sequence[Parcel]) -> None:
        try:
            for at in range(0, len(parcels), QUEUE_BATCH_MAX):
                batch = parcels[at : at + QUEUE_BATCH_MAX]
                self._send(batch)
                self._send([parcel for parcel in batch if parcel.times > 1])
        finally:
            with self._lock:
                self._waiting -= 1

    def _send(self, batch: Sequence[Parcel]) -> None:
        now = self._effects.now()
        self.history.sent += [each.fact(now) for each in batch]
        left = list(batch)
        for _ in BULK_REQUEST.attempts(self._effects) if left else ():
            failures = self._producer.send([parcel.body for parcel in left])
            failed = {failure.index for failure in failures}
            self._take([parcel for at, parcel in enumerate(left) if at not in failed])
            left = [parcel for at, parcel in enumerate(left) if at in failed]
            if not left:
                break
        with self._lock:
            self._unsent += len(left)

    def _take(self, parcels: Sequence[Parcel]) -> None:
        with self._lock:
            for parcel in parcels:
                if parcel.identity not in self._taken:
                    self._taken[parcel.identity] = parcel
                    self._expected[parcel.identity[1]] += parcel.n

    def _client(self, name: str) -> _Client:
        return _Client(name, PortReader(self._settings, *self._ports, self._effects))

    def _watch(self, number: int, deadline: int, on_progress: Callable[[int], None]) -> None:
        """Read while events are counted: one key at a time, twice with the cache, then without."""
        client, plan = self._client(f"reader {number + 1}"), self._plan
        for turn in range(ROUNDS):
            key = plan.keys[(turn + number) % len(plan.keys)]
            self._find(client, key)
            whole, by_window = turn % 4 == 3, turn % 3 == 0
            for consistent in (False, False, True):
                self._count(client, key, consistent=consistent, whole=whole, by_window=by_window)
            on_progress(sum(self._counted.values()))
            if (not self._waiting and self._is_exact()) or self._effects.now() >= deadline:
                return
            self._effects.sleep(PAUSE_MS)

    def _find(self, client: _Client, key: str) -> None:
        """Look up a random record that was sent; one that is found is counted from then on."""
        with self._lock:
            sent = [parcel for parcel in self._taken.values() if parcel.identity[1] == key]
        if not sent:
            return
        parcel = sent[self._effects.chance.getrandbits(30) % len(sent)]
        start, _, record_id = parcel.identity
        try:
            client.reader.event(key, record_id, window_id(start), None)
        except (Absent, Archived, StoreError):
            return
        self.history.counted.append(parcel.fact(self._effects.now()))

    def _count(
        self, client: _Client, key: str, *, consistent: bool, whole: bool, by_window: bool
    ) -> Count | None:
        since, until = (None, None) if whole else (self._since, self._until)
        began = self._effects.now()
        try:
            count = client.reader.count(
                key, since, until, TIME_LEFT_MS, consistent=consistent, by_window=by_window
            )
        except StoreError:
            with self._lock:
                self._unanswered += 1
            client.failed += 1
            if client.failed > UNANSWERED_MAX:
                raise
            return None
        client.failed = 0
        self.history.reads.append(
            read_of(
                count,
                client.name,
                began,
                self._effects.now(),
                since=since,
                until=until,
                cache_ms=0 if consistent else self._settings.cache_live_ms,
                asked="by window" if by_window else "",
            )
        )
        with self._lock:
            self._counted[key] = max(self._counted[key], count.events)
        return count

    def _await(self, client: _Client, deadline: int, on_progress: Callable[[int], None]) -> None:
        """Read all keys until all events are counted, or time runs out."""
        pause_ms = POLL_MS
        for _ in range(POLLS):
            self._look_at_all(client)
            on_progress(sum(self._counted.values()))
            if self._is_exact() or self._effects.now() >= deadline:
                return
            self._effects.sleep(pause_ms)
            pause_ms = min(2 * pause_ms, POLL_MS_MAX)

    def _look_at_all(self, client: _Client) -> None:
        for key in self._plan.keys:
            count = self._count(client, key, consistent=True, whole=False, by_window=True)
            if count and count.complete:
                self._last[key] = count

    def _is_exact(self) -> bool:
        return all(self._counted[key] >= events for key, events in self._expected.items())

    def _missing(self) -> dict[tuple[str, WindowId], int]:
        missing: Counter[tuple[str, WindowId]] = Counter()
        if self._is_exact():
            return {}
        for (start, key, _), parcel in self._taken.items():
            missing[key, window_id(start)] += parcel.n
        for key, count in self._last.items():
            for part in count.windows:
                missing[key, part.window] -= part.events
        return {place: events for place, events in missing.items() if events > 0}


class _Steady:
    """Effects whose clock never goes back, unlike a machine's that is set."""

    def __init__(self, effects: Effects) -> None:
        self.chance = effects.chance
        self.sleep, self.together = effects.sleep, effects.together
        self._effects = effects
        self._lock = Lock()
        self._last = 0

    def now(self) -> int:
        """The latest time (ms) that the clock has shown."""
        with self._lock:
            self._last = max(self._last, self._effects.now())
            return self._last


@dataclass(slots=True)
class _Client:
    """One client, with a reader and so a cache of its own; `failed` reads in a row."""

    name: str
    reader: PortReader
    failed: int = 0
