"""Judges histories of sends and reads by what a read promises.

`docs/exactness.md`, "What a read promises", gives the rules and the reasons for them. The same
judge runs on the simulation, on DynamoDB Local, and on deployments (`tallyroll probe --live`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from tallyroll.model.amounts import format_amount
from tallyroll.model.windows import iso, window_id
from tallyroll.operations.probe.history import Finding, History, Identity, Kind, Read, Rule, Verdict

STEPS_MAX = 20_000  # of one search for a set of records; a longer search is undecided


def judge(history: History) -> Verdict:
    """Judge all reads of a history. Raises ValueError if a record was counted before sent."""
    return _Judge(history).verdict()


class _Records:
    """The records of a key in some windows: how many of each kind were sent, and how many were
    certainly counted, by a time.
    """

    def __init__(self) -> None:
        self._sent: dict[Kind, list[float]] = {}
        self._counted: dict[Kind, list[int]] = {}

    def add(self, kind: Kind, sent: float, counted: int | None) -> None:
        insort(self._sent.setdefault(kind, []), sent)
        if counted is not None:
            insort(self._counted.setdefault(kind, []), counted)

    def possible(self, until: int) -> dict[Kind, int]:
        """Those sent at or before `until`: no others can be in an answer of that time."""
        return {kind: bisect_right(times, until) for kind, times in self._sent.items()}

    def sure(self, before: int) -> dict[Kind, int]:
        """Those certainly counted before a time."""
        return {kind: bisect_left(times, before) for kind, times in self._counted.items()}


@dataclass(frozen=True, slots=True)
class _Told:
    """One number of a read: of a span of windows, or of its whole range."""

    read: Read
    span: tuple[float, float]
    n: int
    amount: int

    @property
    def text(self) -> str:
        since, until = self.span
        where = "all windows"
        if until - since == 1:
            where = window_id(int(since))
        elif (since, until) != (-inf, inf):
            where = "..".join("" if abs(at) == inf else window_id(int(at)) for at in self.span)
        read = self.read
        how = "a cached read" if read.cache_ms else "a read"
        return (
            f"{how} by {read.client} ({iso(read.began)} to {iso(read.ended)[11:]}) of {read.key},"
            f" {where}: {_shown(self.n, self.amount)}"
        )


class _Judge:
    def __init__(self, history: History) -> None:
        self._history = history
        self._verdict = Verdict()
        self._atoms: dict[str, dict[tuple[Identity, Kind], tuple[float, int | None]]] = {}
        self._records: dict[tuple[str, tuple[float, float]], _Records] = {}
        for sent in history.sent:
            atoms = self._atoms.setdefault(sent.identity[1], {})
            atom = sent.identity, (sent.n, sent.amount)
            first, _ = atoms.get(atom, (sent.at, None))
            atoms[atom] = (min(first, sent.at), None)
        for fact in history.counted:
            atoms = self._atoms.get(fact.identity[1], {})
            atom = fact.identity, (fact.n, fact.amount)
            at, known = atoms.get(atom, (inf, None))
            if fact.at < at:
                raise ValueError(f"{fact} was not sent by then")
            atoms[atom] = (at, fact.at if known is None else min(known, fact.at))
        self._windows = {
            key: sorted({identity[0] for identity, _ in atoms})
            for key, atoms in self._atoms.items()
        }

    def verdict(self) -> Verdict:
        told: dict[tuple[str, tuple[float, float]], list[_Told]] = {}
        for read in self._history.reads:
            self._judge_parts(read)
            self._judge_time(read)
            for one in self._told(read):
                told.setdefault((read.key, one.span), []).append(one)
                self._judge_bounds(one)
            if not read.complete:
                self._judge_some(read)
        for series in told.values():
            self._judge_order(series)
        return self._verdict

    def _told(self, read: Read) -> Iterator[_Told]:
        """The complete numbers of a read: its shares, the windows that it says are empty, and its
        whole range if nothing is missing.
        """
        for share in read.shares:
            yield _Told(read, (share.since, share.until), share.n, share.amount)
        if read.parted:
            for start in self._windows.get(read.key, ()):
                told = any(share.since <= start < share.until for share in read.shares)
                if read.since <= start < read.until and start not in read.missing and not told:
                    yield _Told(read, (start, start + 1), 0, 0)
        if read.complete and (read.since, read.until) not in _spans(read):
            yield _Told(read, (read.since, read.until), read.n, read.amount)

    def _of(self, key: str, span: tuple[float, float]) -> _Records:
        found = self._records.get((key, span))
        if found is None:
            found = self._records[key, span] = _Records()
            for (identity, kind), (sent, counted) in self._atoms.get(key, {}).items():
                if span[0] <= identity[0] < span[1]:
                    found.add(kind, sent, counted)
        return found

    def _judge_parts(self, read: Read) -> None:
        """Each window is listed once, within the range, or missing; the parts make the whole."""
        self._verdict.judged[Rule.PARTS] += 1
        fault = ""
        ends: float = -inf
        for share in sorted(read.shares, key=lambda share: share.since):
            if share.since < ends:
                fault = f"{window_id(share.since)} is told twice"
            if not (read.since <= share.since and share.until - 1 < read.until):
                fault = f"{window_id(share.since)} was not asked for"
            if any(share.since <= start < share.until for start in read.missing):
                fault = f"{window_id(share.since)} is told, and said to be missing"
            ends = share.until
        if read.complete is bool(read.missing) and read.parted:
            fault = f"it says complete: {read.complete}, and that {len(read.missing)} are missing"
        sums = sum(share.n for share in read.shares), sum(share.amount for share in read.shares)
        if read.parted and sums != (read.n, read.amount):
            fault = f"its parts make {_shown(*sums)}"
        if fault:
            self._find(Rule.PARTS, f"{_whole(read).text}; {fault}", read, read)

    def _judge_time(self, read: Read) -> None:
        if read.as_of is None:
            return
        self._verdict.judged[Rule.STALE] += 1
        if not read.since_when <= read.as_of <= read.ended:
            self._find(
                Rule.STALE,
                f"{_whole(read).text}, as of {iso(read.as_of)}; it may be {read.cache_ms} ms old",
                read,
                read,
            )

    def _judge_bounds(self, told: _Told) -> None:
        """At most what was sent before the read ended, at least what was certainly counted before
        it began, and a set of whole records in between.
        """
        read, records = told.read, self._of(told.read.key, told.span)
        possible, sure = records.possible(read.ended), records.sure(read.since_when)
        most, least = _events(possible), _events(sure)
        below = Rule.STALE if read.cache_ms else Rule.BELOW
        self._verdict.judged[Rule.ABOVE] += 1
        self._verdict.judged[below] += 1
        if told.n > most:
            self._find(Rule.ABOVE, f"{told.text}; sent by then: {most:,} events", read, read)
        elif told.n < least:
            text = f"{told.text}; surely counted before {iso(read.since_when)}: {least:,} events"
            self._find(below, text, read, read)
        else:
            amount = told.amount - _amount(sure)
            self._judge_pair(told, _less(possible, sure), told.n - least, amount)

    def _judge_some(self, read: Read) -> None:
        """Windows that could not be read in time may hold anything; the rest are whole records that
        were sent.
        """
        told = _whole(read)
        possible = self._of(read.key, told.span).possible(read.ended)
        self._verdict.judged[Rule.ABOVE] += 1
        if told.n > _events(possible):
            text = f"{told.text}; sent by then: {_events(possible):,} events"
            self._find(Rule.ABOVE, text, read, read)
        else:
            self._judge_pair(told, possible, told.n, told.amount)

    def _judge_pair(self, told: _Told, kinds: Mapping[Kind, int], n: int, amount: int) -> None:
        self._verdict.judged[Rule.TORN] += 1
        fits = make(kinds, n, amount)
        if fits is None:
            self._verdict.undecided[Rule.TORN] += 1
        elif not fits:
            text = f"{told.text}; no set of records that were sent by then has this sum"
            self._find(Rule.TORN, text, told.read, told.read)

    def _judge_order(self, series: Sequence[_Told]) -> None:
        """A read that began after another one ended holds all that the other one held."""
        later = sorted(series, key=lambda told: told.read.since_when)
        ended = [(told.read.ended, number) for number, told in enumerate(later)]
        heapq.heapify(ended)
        before: list[_Told] = []  # those after which none of the others comes
        for told in later:
            while ended and ended[0][0] < told.read.since_when:
                one = later[heapq.heappop(ended)[1]]
                begun = one.read.since_when
                before = [each for each in before if each.read.ended >= begun] + [one]
            for earlier in before:
                rule = Rule.STALE if told.read.cache_ms else Rule.BACKWARDS
                self._judge_growth(rule, earlier, told)
        self._judge_clients(series)

    def _judge_clients(self, series: Sequence[_Told]) -> None:
        """A client's complete answers to one question never shrink, cached or not."""
        last: dict[tuple[str, str], _Told] = {}
        for told in sorted(series, key=lambda told: told.read.began):
            read = told.read
            if not read.complete or told.span != (read.since, read.until):
                continue
            earlier = last.get((read.client, read.asked))
            last[read.client, read.asked] = told
            if earlier and earlier.read.ended <= read.began and read.cache_ms:
                self._judge_growth(Rule.BACKWARDS, earlier, told)

    def _judge_growth(self, rule: Rule, earlier: _Told, later: _Told) -> None:
        self._verdict.judged[rule] += 1
        records = self._of(later.read.key, later.span)
        possible = records.possible(later.read.ended)
        left = _less(possible, records.sure(earlier.read.since_when))
        n, amount = later.n - earlier.n, later.amount - earlier.amount
        grown = n >= 0 and make(left, n, amount)
        if grown is None:
            self._verdict.undecided[rule] += 1
        elif not grown:
            text = f"{later.text}; before that {earlier.text}"
            self._find(rule, text, earlier.read, later.read)

    def _find(self, rule: Rule, text: str, first: Read, last: Read) -> None:
        reads = 1 if first is last else 2
        self._verdict.findings.append(Finding(rule, text, first.began, last.ended, reads))


def make(kinds: Mapping[Kind, int], n: int, amount: int) -> bool | None:
    """Whether some of these records (kind: how many there are) have `n` events and this `amount`
    together. None if STEPS_MAX steps did not decide.

    Searches kind by kind, and prunes by what the remaining kinds can reach. It takes few steps if
    the values of each kind outweigh those of all smaller ones together, as a probe's do.
    """
    order = sorted((kind for kind, there in kinds.items() if there), key=_weight)
    rest = [(0, 0, 0)]  # for the kinds from each place on: most events, least sum, largest sum
    for kind in reversed(order):
        events, least, most = rest[-1]
        sums = kind[1] * kinds[kind]
        rest.append((events + kind[0] * kinds[kind], least + min(0, sums), most + max(0, sums)))
    rest.reverse()
    waiting = [(0, n, amount)]
    seen, steps = set(waiting), 0
    while waiting:
        at, n, amount = waiting.pop()
        if at == len(order):
            if n == amount == 0:
                return True
            continue
        size, value = order[at]
        events, least, most = rest[at + 1]
        fewest, many = max(0, _ceiling(n - events, size)), min(kinds[order[at]], n // size)
        if value:
            low, high = (most, least) if value > 0 else (least, most)
            fewest = max(fewest, _ceiling(amount - low, value))
            many = min(many, (amount - high) // value)
        for some in range(fewest, many + 1):
            steps += 1
            if steps > STEPS_MAX:
                return None
            state = (at + 1, n - some * size, amount - some * value)
            if state not in seen:
                seen.add(state)
                waiting.append(state)
    return False


def _weight(kind: Kind) -> tuple[Fraction, int]:
    return -abs(Fraction(kind[1], kind[0])), -kind[0]


def _ceiling(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _events(kinds: Mapping[Kind, int]) -> int:
    return sum(n * there for (n, _), there in kinds.items())


def _amount(kinds: Mapping[Kind, int]) -> int:
    return sum(amount * there for (_, amount), there in kinds.items())


def _less(kinds: Mapping[Kind, int], others: Mapping[Kind, int]) -> dict[Kind, int]:
    return {kind: there - others.get(kind, 0) for kind, there in kinds.items()}


def _spans(read: Read) -> list[tuple[float, float]]:
    return [(share.since, share.until) for share in read.shares]


def _whole(read: Read) -> _Told:
    return _Told(read, (read.since, read.until), read.n, read.amount)


def _shown(n: int, amount: int) -> str:
    return f"{n:,} events, sum {format_amount(amount)}"
