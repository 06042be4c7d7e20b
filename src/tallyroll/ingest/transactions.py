"""Planning and running transactions: `plan` divides records into commits, `after` decides what
follows from an outcome, `run` carries commits out.

`plan` and `after` are pure functions. Nothing here depends on a particular store.

The records of an event of several keys and what is stored beside them are a group. Only the first
record is handled here, and has all the rest: so nothing can divide a group, and all of it has one
fate. Next on the reading path: `ports/store.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice
from operator import attrgetter

from tallyroll.errors import StoreError
from tallyroll.ingest.cost import WriteCost, commit_cost
from tallyroll.ingest.fates import Disposition, Fate, beside_stored, handed_back, rejected
from tallyroll.model.ids import Identity
from tallyroll.model.items import sized
from tallyroll.model.records import Increment, Record, all_records, increments_of
from tallyroll.model.sharding import Chance
from tallyroll.model.specs import Spec
from tallyroll.ports.backoff import COMMIT_CONFLICT, COMMIT_THROTTLED, Backoff
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import (
    LIMIT_OF_IDENTITIES,
    LIMIT_UNKNOWN,
    Answer,
    Element,
    Metering,
    Outcome,
    Store,
    Verdict,
)
from tallyroll.reasons import Reason

Pay = Callable[[float], bool]
"""Pays an attempt of this cost; False if it must not be sent."""


_OTHERS = attrgetter("others")
_DECIDING = (Disposition.DUPLICATE, Disposition.REJECTED, Disposition.UNCOMPARED)


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction to run, not before `not_before` (ms): records of one window, and what they add
    to tallies. `puts` are the records with the others of their groups.
    """

    spec: Spec
    records: tuple[Record, ...]
    attempt: int = 0
    not_before: int = 0
    puts: tuple[Record, ...] = field(init=False)
    increments: tuple[Increment, ...] = field(init=False)

    def __post_init__(self) -> None:
        grouped = any(map(_OTHERS, self.records))
        object.__setattr__(self, "puts", all_records(self.records) if grouped else self.records)
        object.__setattr__(self, "increments", increments_of(self.puts))


@dataclass(frozen=True, slots=True)
class Continuation:
    """What follows from an outcome: records whose fates are known, and commits still to run."""

    settled: tuple[tuple[Record, Fate], ...] = ()
    commits: tuple[Commit, ...] = ()


def plan(spec: Spec, records: Iterable[Record], metering: Metering) -> list[Commit]:
    """Divide distinct records of one window into commits that are as large as the store takes.

    Records are sorted by key and shard, so that a commit touches few tallies and partitions. A
    group is never divided.
    """
    commits: list[Commit] = []
    chosen: list[Record] = []
    keys: set[str] = set()
    elements, size = 0, 0
    for record in sorted(
        map(sized, records), key=lambda record: (record.key, record.shard, record.id)
    ):
        if record.others or record.attachments or record.identities:
            more, record_bytes = _elements(record, keys, metering), record.group_size
        else:
            more = 1 + (metering.tallied and record.key not in keys)
            record_bytes = record.size
        grown = record_bytes + more * metering.element_bytes
        if chosen and (
            elements + more > metering.elements_max or size + grown > metering.bytes_max
        ):
            commits.append(Commit(spec, tuple(chosen)))
            chosen, keys, elements, size = [], set(), 0, 0
            more = _elements(record, keys, metering)
            grown = record_bytes + more * metering.element_bytes
        chosen.append(record)
        keys.add(record.key)
        if record.others:
            keys.update(_keys(record))
        elements += more
        size += grown
    if chosen:
        commits.append(Commit(spec, tuple(chosen)))
    return commits


def _elements(record: Record, keys: set[str], metering: Metering) -> int:
    """How many items and increments a group adds to a commit of these keys."""
    new_keys = sum(each.key not in keys for each in record.group) if metering.tallied else 0
    return len(record.group) + len(record.attachments) + len(record.identities) + new_keys


def after(
    commit: Commit, outcome: Outcome, now: int, deadline: int, chance: Chance
) -> Continuation:
    """What follows from a commit's outcome. Nothing is retried at or after `deadline` (ms)."""
    match outcome.verdict:
        case Verdict.COMMITTED:
            return _settle(commit.records, lambda record: Fate(Disposition.COUNTED, record.digest))
        case Verdict.GATE_SHUT | Verdict.GATE_MISSING:
            return _settle(
                commit.records, lambda _: Fate(Disposition.SHUT_OUT, detail=outcome.verdict)
            )
        case Verdict.INVALID:
            return _bisected(commit, outcome.detail)
        case Verdict.CANCELLED | Verdict.BY_RECORD:
            return _sorted_out(commit, outcome, now, deadline, chance)
        case Verdict.UNKNOWN:
            return _again([_later(commit, COMMIT_THROTTLED, now, chance)], deadline, outcome.detail)
        case Verdict.THROTTLED:
            parts = _by_key(commit, commit.records, ())
            again = [_later(part, COMMIT_THROTTLED, now, chance) for part in parts]
            return _again(again, deadline, outcome.detail)


def _settle(records: Sequence[Record], fate: Callable[[Record], Fate]) -> Continuation:
    return Continuation(tuple((record, fate(record)) for record in records))


def _bisected(commit: Commit, detail: str) -> Continuation:
    """Halve a commit that holds an invalid record, until that record fails alone."""
    half = len(commit.records) // 2
    if not half:
        return Continuation(((commit.records[0], _refused(detail)),))
    parts = (commit.records[:half], commit.records[half:])
    return Continuation(commits=tuple(replace(commit, records=part) for part in parts))


def _sorted_out(
    commit: Commit, outcome: Outcome, now: int, deadline: int, chance: Chance
) -> Continuation:
    """Settle duplicates, invalid records, and those that count already, and retry the rest, each
    throttled key on its own.
    """
    by_record = outcome.verdict is Verdict.BY_RECORD
    answers = (*outcome.records, *outcome.increments)
    whole = all(each.answer is Answer.CONTENDED for each in answers)  # nobody says which of them
    settled: list[tuple[Record, Fate]] = []
    left: list[Record] = []
    alone: list[Record] = []
    for record, elements in zip(commit.records, _by_group(commit, outcome), strict=True):
        if fate := _fate(record, elements):
            settled.append((record, fate))
        elif elements[0].answer is Answer.CONTENDED and record.logged and not whole:
            settled.append((record, Fate(Disposition.UNCOMPARED)))  # another leaf is on its way
        elif by_record and all(each.answer is Answer.FINE for each in elements):
            settled.append((record, Fate(Disposition.COUNTED, record.digest)))
        elif record.identities and any(each.answer is Answer.CONTENDED for each in elements):
            alone.append(record)  # another copy of it is on its way, which may hold it up again
        else:
            left.append(record)
    if invalid := [each for each in outcome.increments if each.answer is Answer.INVALID]:
        if len(commit.records) == 1:
            return Continuation(((commit.records[0], _refused(invalid[0].detail)),))
        if not settled:
            return _bisected(commit, "a tally could not be added to")
    contended, unknown = _contended(outcome), _unknown(outcome)
    slow_keys = frozenset(key for key, _ in _throttled(commit, outcome))
    slow = [record for record in left if slow_keys.intersection(_keys(record))]
    swift = [record for record in left if slow_keys.isdisjoint(_keys(record))]
    parts = _by_key(commit, slow, slow_keys)
    again = [_later(part, COMMIT_THROTTLED, now, chance) for part in parts]
    apart = (replace(commit, records=(record,)) for record in alone)
    again += [_later(part, COMMIT_CONFLICT, now, chance) for part in apart]
    if swift:
        rest = replace(commit, records=tuple(swift))
        progress = bool(settled or slow) and not contended and not unknown
        again.append(rest if progress else _later(rest, COMMIT_CONFLICT, now, chance))
    why = "contended" if contended else "its outcome is unknown" if unknown else "throttled"
    step = _again(again, deadline, why)
    return Continuation((*settled, *step.settled), step.commits)


def _by_group(commit: Commit, outcome: Outcome) -> Iterable[Sequence[Element]]:
    """The answers for each record with the others of its group."""
    if commit.puts is commit.records:
        return zip(outcome.records)
    assert len(outcome.records) == len(commit.puts)
    answers = iter(outcome.records)
    return [list(islice(answers, len(record.group))) for record in commit.records]


def _fate(record: Record, elements: Sequence[Element]) -> Fate | None:
    """The fate of a record by the answers for its group, if they decide it.

    A stored record of the same content proves that the group is stored: its digest is that of all
    keys of the event, and groups are stored as wholes. So such an answer comes first.
    """
    fates = [
        beside_stored(record, element.digest, element.window)
        for element in elements
        if element.answer is Answer.DUPLICATE
    ]
    if fates:
        return min(fates, key=lambda fate: _DECIDING.index(fate.kind))
    invalid = [element for element in elements if element.answer is Answer.INVALID]
    return _refused(invalid[0].detail) if invalid else None


def _refused(detail: str) -> Fate:
    return rejected(Reason.REFUSED_BY_STORE, detail)


def _by_key(commit: Commit, records: Sequence[Record], slow: Collection[str]) -> list[Commit]:
    """Commits of one key each; for a group, of the first of its keys that is `slow`."""

    def key_of(record: Record) -> str:
        return next((key for key in _keys(record) if key in slow), record.key)

    groups = groupby(sorted(records, key=key_of), key=key_of)
    return [replace(commit, records=tuple(group)) for _, group in groups]


def _keys(record: Record) -> Sequence[str]:
    return [each.key for each in record.group] if record.others else (record.key,)


def _later(commit: Commit, backoff: Backoff, now: int, chance: Chance) -> Commit:
    """The commit, to retry after a wait."""
    not_before = now + 1 + int(backoff.wait_ms(commit.attempt, chance))
    return replace(commit, attempt=commit.attempt + 1, not_before=not_before)


def _again(commits: Sequence[Commit], deadline: int, why: str) -> Continuation:
    """Retry the commits that are due before `deadline`, and hand the others' records back."""
    late = [commit for commit in commits if commit.not_before >= deadline]
    fate = handed_back(why)
    return Continuation(
        tuple((record, fate) for commit in late for record in commit.records),
        tuple(commit for commit in commits if commit.not_before < deadline),
    )


@dataclass(slots=True)
class CommitRun:
    """The result of a run of commits.

    `throttled` counts requests by the limit that they exceeded, `contended` and `unknown` those
    with such an outcome. `throttled_keys` are (window, key) pairs, without those that only the
    table of identities held up. `unpaid` commits were not sent.
    """

    fates: dict[Identity, Fate] = field(default_factory=dict)
    cost: WriteCost = field(default_factory=WriteCost)
    contended: int = 0
    throttled: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    throttled_keys: dict[tuple[str, str], None] = field(default_factory=dict)
    unpaid: list[Commit] = field(default_factory=list)

    def add(self, part: CommitRun) -> None:
        """Add the result of other commits."""
        self.fates.update(part.fates)
        self.cost += part.cost
        self.contended += part.contended
        self.throttled.update(part.throttled)
        self.unknown += part.unknown
        self.throttled_keys.update(part.throttled_keys)
        self.unpaid += part.unpaid


def run(
    store: Store,
    commits: Sequence[Commit],
    effects: Effects,
    deadline: int,
    at_once: int,
    pay: Pay | None = None,
) -> CommitRun:
    """Carry out commits, `at_once` concurrently, each with all its successors.

    With `pay`, each attempt is paid before it is sent; those that are not stay `unpaid`.
    """
    jobs = [partial(_lineage, store, commit, effects, deadline, pay) for commit in commits]
    done = CommitRun()
    for part in effects.together(jobs, at_once):
        done.add(part)
    return done


def _lineage(
    store: Store, commit: Commit, effects: Effects, deadline: int, pay: Pay | None
) -> CommitRun:
    """One planned commit and all its successors, the earliest due first."""
    done, due = CommitRun(), [commit]
    metering = store.metering_of(commit.spec.table)
    while due:
        due.sort(key=lambda commit: commit.not_before, reverse=True)
        current = due.pop()
        if (now := effects.now()) < current.not_before:
            effects.sleep(current.not_before - now)
        if effects.now() >= deadline:
            step = _again([replace(current, not_before=deadline)], deadline, "no time left")
        elif pay and not pay(commit_cost(current.puts, current.increments, metering).total):
            done.unpaid.append(current)
            continue
        else:
            outcome = store.commit(current.spec, current.puts, current.increments)
            _measure(done, current, outcome, metering)
            _widen(store, current, outcome)
            step = after(current, outcome, effects.now(), deadline, effects.chance)
        due.extend(step.commits)
        for record, fate in step.settled:
            done.fates[current.spec.window, record.key, record.id] = fate
    return done


def _measure(done: CommitRun, commit: Commit, outcome: Outcome, metering: Metering) -> None:
    done.cost += commit_cost(commit.puts, commit.increments, metering)
    done.contended += _contended(outcome)
    elements = (*outcome.records, *outcome.increments)
    limits = [element.limit for element in elements if element.answer is Answer.THROTTLED]
    if outcome.limit or outcome.verdict is Verdict.THROTTLED:
        limits = [outcome.limit or LIMIT_UNKNOWN]
    done.throttled.update(limits[:1])
    done.unknown += _unknown(outcome)
    for key, limit in _throttled(commit, outcome):
        if limit != LIMIT_OF_IDENTITIES:
            done.throttled_keys[commit.spec.window, key] = None


def _widen(store: Store, commit: Commit, outcome: Outcome) -> None:
    """Give stripes to the tallies on which commits met; one meeting may be chance."""
    spec, pairs = commit.spec, zip(commit.increments, outcome.increments, strict=False)
    for increment, element in pairs if commit.attempt else ():
        key, met = increment.key, element.answer is Answer.CONTENDED
        if met and spec.stripes_most(key) > spec.stripes_of(key):
            with suppress(StoreError):
                store.widen(spec, key)


def _contended(outcome: Outcome) -> bool:
    elements = (*outcome.records, *outcome.increments)
    return outcome.gate_contended or any(each.answer is Answer.CONTENDED for each in elements)


def _unknown(outcome: Outcome) -> bool:
    some = any(each.answer is Answer.UNKNOWN for each in outcome.records)
    return some or outcome.verdict is Verdict.UNKNOWN


def _throttled(commit: Commit, outcome: Outcome) -> list[tuple[str, str | None]]:
    """The keys that the store throttled, each with the limit that it exceeded; the only key, if the
    whole request was throttled.
    """
    keys = [record.key for record in commit.puts]
    if outcome.verdict is Verdict.THROTTLED:
        return [(keys[0], outcome.limit)] if len(set(keys)) == 1 else []
    if outcome.verdict not in (Verdict.CANCELLED, Verdict.BY_RECORD):
        return []
    if outcome.verdict is Verdict.CANCELLED:
        keys += [increment.key for increment in commit.increments]
    pairs = zip(keys, (*outcome.records, *outcome.increments), strict=True)
    return [(key, each.limit) for key, each in pairs if each.answer is Answer.THROTTLED]
