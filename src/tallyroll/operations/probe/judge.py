"""Judges histories of sends and reads by what a read promises.

`docs/exactness.md`, "What a read promises", gives the rules and the reasons for them. The same
judge runs on the simulation, on DynamoDB Local, and on deployments (`tallyroll probe --live`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from tallyroll.model.amounts import format_amount
from tallyroll.model.windows import iso, window_id
from tallyroll.operations.probe.history import (
    Finding,
    History,
    Identity,
    Kind,
    ProbeRead,
    ProbeVerdict,
    ReadRule,
)

STEPS_MAX = 20_000  # of one search for a set of records; a longer search is undecided


def judge(history: History) -> ProbeVerdict:
    """Judge all reads of a history. Raises ValueError if a record was counted before sent."""
    return _Judge(history).verdict()


class _Records:
    """The records of a key in some windows: how many of each kind were sent, and how many were
    certainly counted, by a time.
    """

    def __init__(self) -> None:
        self._sent: dict[Kind, list[float]] = defaultdict(list)
        self._counted: dict[Kind, list[float]] = defaultdict(list)

    def add(self, kind: Kind, sent: float, counted: float) -> None:
        insort(self._sent[kind], sent)
        insort(self._counted[kind], counted)

    def possible(self, until: int) -> dict[Kind, int]:
        """Those sent at or before `until`: no others can be in an answer of that time."""
        return {kind: bisect_right(times, until) for kind, times in self._sent.items()}

    def sure(self, before: int) -> dict[Kind, int]:
        """Those certainly counted before a time."""
        return {kind: bisect_left(times, before) for kind, times in self._counted.items()}


@dataclass(frozen=True, slots=True)
class _ReadCount:
    """One number of a read: of a span of windows, or of its whole range."""

    read: ProbeRead
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
        self._verdict = ProbeVerdict()
        self._atoms: dict[str, dict[tuple[Identity, Kind], tuple[float, float]]] = {}
        self._records: dict[tuple[str, tuple[float, float]], _Records] = {}
        for sent in history.sent:
            atoms = self._atoms.setdefault(sent.identity[1], {})
            atom = sent.identity, (sent.n, sent.amount)
            first, _ = atoms.get(atom, (inf, inf))
            atoms[atom] = (min(first, sent.at), inf)
        for fact in history.counted:
            atoms = self._atoms.get(fact.identity[1], {})
            atom = fact.identity, (fact.n, fact.amount)
            at, known = atoms.get(atom, (inf, inf))
            if fact.at < at:
                raise ValueError(f"{fact} was not sent by then")
            atoms[atom] = (at, min(known, fact.at))
        self._windows = {
            key: sorted({identity[0] for identity, _ in atoms})
            for key, atoms in self._atoms.items()
        }

    def verdict(self) -> ProbeVerdict:
        counted: dict[tuple[str, tuple[float, float]], list[_ReadCount]] = {}
        for read in self._history.reads:
            self._judge_parts(read)
            self._judge_time(read)
            for one in self._counts(read):
                counted.setdefault((read.key, one.span), []).append(one)
                self._judge_sums(one, complete=True)
            if not read.complete:
                self._judge_sums(_whole(read), complete=False)
        for series in counted.values():
            self._judge_order(series)
        return self._verdict

    def _counts(self, read: ProbeRead) -> Iterator[_ReadCount]:
        """The complete numbers of a read: its shares, the windows that it says are empty, and its
        whole range if nothing is missing.
        """
        for share in read.shares:
            yield _ReadCount(read, (share.since, share.until), share.n, share.amount)
        if read.parted:
            for start in self._windows.get(read.key, ()):
                counted = any(share.since <= start < share.until for share in read.shares)
                if read.since <= start < read.until and start not in read.missing and not counted:
                    yield _ReadCount(read, (start, start + 1), 0, 0)
        spans = [(share.since, share.until) for share in read.shares]
        if read.complete and (read.since, read.until) not in spans:
            yield _whole(read)

    def _of(self, key: str, span: tuple[float, float]) -> _Records:
        found = self._records.get((key, span))
        if found is None:
            found = self._records[key, span] = _Records()
            for (identity, kind), (sent, counted) in self._atoms.get(key, {}).items():
                if span[0] <= identity[0] < span[1]:
                    found.add(kind, sent, counted)
        return found

    def _judge_parts(self, read: ProbeRead) -> None:
        """Each window is listed once, within the range, or missing; the parts make the whole."""
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
        self._judge(ReadRule.PARTS, _whole(read), fault, holds=not fault)

    def _judge_time(self, read: ProbeRead) -> None:
        if read.as_of is not None:
            holds = read.since_when <= read.as_of <= read.ended
            detail = f"as of {iso(read.as_of)}; it may be {read.cache_ms} ms old"
            self._judge(ReadRule.STALE, _whole(read), detail, holds=holds)

    def _judge_sums(self, counted: _ReadCount, *, complete: bool) -> None:
        """At most what was sent before the read ended, at least what was certainly counted before
        it began, and a set of whole records in between. If windows are missing from the sums, what
        was counted may be in them.
        """
        read, records = counted.read, self._of(counted.read.key, counted.span)
        possible = records.possible(read.ended)
        sure = records.sure(read.since_when) if complete else {}
        (most, _), (least, least_amount) = _sum(possible), _sum(sure)
        self._judge(
            ReadRule.ABOVE, counted, f"sent by then: {most:,} events", holds=counted.n <= most
        )
        if complete:
            below = ReadRule.STALE if read.cache_ms else ReadRule.BELOW
            detail = f"surely counted before {iso(read.since_when)}: {least:,} events"
            self._judge(below, counted, detail, holds=counted.n >= least)
        if least <= counted.n <= most:
            made = make(_less(possible, sure), counted.n - least, counted.amount - least_amount)
            detail = "no set of records that were sent by then has this sum"
            self._judge(ReadRule.TORN, counted, detail, holds=made)

    def _judge_order(self, series: Sequence[_ReadCount]) -> None:
        """A read that began after another one ended holds all that the other one held."""
        later = sorted(series, key=lambda counted: counted.read.since_when)
        ended = [(counted.read.ended, number) for number, counted in enumerate(later)]
        heapq.heapify(ended)
        before: list[_ReadCount] = []  # those after which none of the others comes
        for counted in later:
            while ended and ended[0][0] < counted.read.since_when:
                one = later[heapq.heappop(ended)[1]]
                begun = one.read.since_when
                before = [each for each in before if each.read.ended >= begun] + [one]
            for earlier in before:
                rule = ReadRule.STALE if counted.read.cache_ms else ReadRule.BACKWARDS
                self._judge_growth(rule, earlier, counted)
        self._judge_clients(series)

    def _judge_clients(self, series: Sequence[_ReadCount]) -> None:
        """A client's complete answers to one question never shrink, cached or not."""
        last: dict[tuple[str, str], _ReadCount] = {}
        for counted in sorted(series, key=lambda counted: counted.read.began):
            read = counted.read
            if not read.complete or counted.span != (read.since, read.until):
                continue
            earlier = last.get((read.client, read.asked))
            last[read.client, read.asked] = counted
            if earlier and earlier.read.ended <= read.began and read.cache_ms:
                self._judge_growth(ReadRule.BACKWARDS, earlier, counted)

    def _judge_growth(self, rule: ReadRule, earlier: _ReadCount, later: _ReadCount) -> None:
        records = self._of(later.read.key, later.span)
        possible = records.possible(later.read.ended)
        left = _less(possible, records.sure(earlier.read.since_when))
        n, amount = later.n - earlier.n, later.amount - earlier.amount
        self._judge(rule, later, "", holds=n >= 0 and make(left, n, amount), earlier=earlier)

    def _judge(
        self,
        rule: ReadRule,
        counted: _ReadCount,
        detail: str,
        *,
        holds: bool | None,
        earlier: _ReadCount | None = None,
    ) -> None:
        """Note whether a rule holds for one number, or for two; None if that is not decided."""
        self._verdict.judged[rule] += 1
        if holds is None:
            self._verdict.undecided[rule] += 1
        elif not holds:
            text = f"{counted.text}; " + (f"before that {earlier.text}" if earlier else detail)
            first, reads = (earlier.read, 2) if earlier else (counted.read, 1)
            finding = Finding(rule, text, first.began, counted.read.ended, reads)
            self._verdict.findings.append(finding)


def make(kinds: Mapping[Kind, int], n: int, amount: int) -> bool | None:
    """Whether some of these records (kind: how many there are) have `n` events and this `amount`
    together. None if STEPS_MAX steps did not decide.

    Searches kind by kind, and prunes by what the remaining kinds can reach. It takes few steps if
    the values of each kind outweigh those of all smaller ones together, as a probe's do.
    """
    order = sorted(
        (kind for kind, there in kinds.items() if there),
        key=lambda kind: (-abs(Fraction(kind[1], kind[0])), -kind[0]),
    )
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
        fewest, many = max(0, -(-(n - events) // size)), min(kinds[order[at]], n // size)
        if value:
            low, high = (most, least) if value > 0 else (least, most)
            fewest = max(fewest, -(-(amount - low) // value))
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


def _sum(kinds: Mapping[Kind, int]) -> Kind:
    """The events of these records, and their amount."""
    return (
        sum(n * there for (n, _), there in kinds.items()),
        sum(amount * there for (_, amount), there in kinds.items()),
    )


def _less(kinds: Mapping[Kind, int], others: Mapping[Kind, int]) -> dict[Kind, int]:
    return {kind: there - others.get(kind, 0) for kind, there in kinds.items()}


def _whole(read: ProbeRead) -> _ReadCount:
    return _ReadCount(read, (read.since, read.until), read.n, read.amount)


def _shown(n: int, amount: int) -> str:
    return f"{n:,} events, sum {format_amount(amount)}"
