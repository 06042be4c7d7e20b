"""The oracle's book of retractions: which events count, which of them were taken back, and how."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallyroll.adapters.memory import DeadLetter, MemoryBucket, MemoryCatalog
from tallyroll.model.records import Record
from tallyroll.model.retractions import Authorization, RetractionTarget, Tombstone
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.totals import Correction
from tallyroll.model.windows import window_start
from tallyroll.operations.retraction.desk import Retractable
from tallyroll.reasons import Reason
from tallyroll.settings.common import RETRACTION_OFF, RETRACTION_OPERATOR
from tests.simulation.holdings import Found, Identity, Name
from tests.simulation.sent import Asked, Sent
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.oracle import Oracle

CORRECTIONS, CORRECTED, PROOF, ALONE = "/corrections/", "/corrected-", "/proof.json", "/alone.json"
DROPPED = (Status.DROPPING, Status.DROPPED)
ONCE_MORE = (None, Reason.CRASHES_WRITER)  # which the oracle judges for all messages alike


@dataclass(frozen=True, slots=True)
class Counted:
    """An event or packet that counts: its keys, the window in which it happened, its content, the
    amounts of a packet's events, and since when (ms) it counts.
    """

    keys: tuple[str, ...]
    home: str
    record: Record
    amounts: tuple[int, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Retracted:
    """That an event was taken back under one key: how, when (ms), by whom, and what it was."""

    how: str
    at: int
    word: tuple[str, str]
    n: int
    amount: int
    first_asked: int


class RetractionBook:
    """Takes note of what is asked and done, and checks that only events that count are taken back,
    once, under all of their keys, as somebody asked who may.
    """

    def __init__(self, oracle: Oracle, world: World) -> None:
        self._oracle = oracle
        self._world = world
        self.counted: dict[Identity, Counted] = {}
        self.retracted: dict[Name, Retracted] = {}
        self.corrections: dict[Name, Correction] = {}
        self._asked: dict[str, list[Asked]] = {}
        self._windows: dict[tuple[str, str], list[str]] = {}
        self._words: dict[RetractionTarget, list[tuple[int, Authorization]]] = {}

    # --- what is said

    def on_asked(self, asked: Asked) -> None:
        """Take note of a message."""
        self._asked.setdefault(asked.id, []).append(asked)

    def on_authorized(self, given: Authorization) -> None:
        """Take note of an operator's word."""
        self._words.setdefault(given.target, []).append((self._world.now, given))

    def is_authorized(self, asked: Asked) -> bool:
        """Whether operators have authorized what a message asks."""
        return (self.home_of(asked), asked.key, asked.id, asked.index) in self._words

    def home_of(self, asked: Asked) -> str:
        """The window in which the event happened that a message names."""
        return asked.window or self._oracle.window_of(asked.ts or 0)

    # --- what is done

    def on_counted(self, window: str, record: Record, brought: Sent) -> None:
        """Take note of a record."""
        keys = tuple(sorted(key for _, key, _ in self._oracle.identities_of(brought)))
        home = self._oracle.window_of(record.ts)
        counted = Counted(keys, home, record, brought.amounts, self._world.now)
        self.counted[window, record.key, record.id] = counted
        self._windows.setdefault((record.key, record.id), []).append(window)

    def on_retracted(self, spec: Spec, tombstones: Sequence[Tombstone]) -> None:
        """Check the tombstones of one transaction that was carried out."""
        if spec.window in self._oracle.sealed:
            self._world.fail(f"4: something was retracted in the sealed window {spec.window}")
        groups: dict[tuple[Any, ...], list[Tombstone]] = {}
        for each in tombstones:  # an id may be of several events, each of another key
            counted = self.counted.get((spec.window, each.key, each.id))
            keys = counted.keys if counted else ()
            groups.setdefault((each.id, each.index, keys), []).append(each)
        for group in groups.values():
            first, keys = group[0], tuple(each.key for each in group)
            for each in group:
                said = (each.n, each.amount, each.digest, (each.by, each.why))
                self._take("tombstone", (spec.window, *each.name), keys, said)
            self._check_keys((spec.window, *first.name), keys)

    def on_corrected(self, each: Correction) -> None:
        """Check a correction that was added."""
        if each.window not in self._oracle.sealed:
            self._world.fail(f"7: {each} is of a window that is not sealed")
        said = (each.n, each.amount, each.digest, (each.by, each.why))
        for key in each.keys:
            name = (each.window, key, each.id, each.index)
            self._take("correction", name, each.keys, said)
            self.corrections[name] = each
        self._check_keys((each.window, each.keys[0], each.id, each.index), each.keys)

    def _take(
        self, how: str, name: Name, keys: tuple[str, ...], said: tuple[int, int, bytes, Any]
    ) -> None:
        window, key, record_id, index = name
        counted = self.counted.get((window, key, record_id))
        if counted is None:
            self._world.fail(f"7: {name} was retracted, which never counted")
            return
        record = counted.record
        true = (record.n, record.amount, record.digest)
        if index is not None:
            amounts = dict(enumerate(counted.amounts))
            true = (1, amounts.get(index, 0), record.digest)
            if index not in amounts:
                self._world.fail(f"7: {name} was retracted, which is no event of a packet")
        elif counted.amounts:
            self._world.fail(f"7: the whole packet {name} was retracted")
        if said[:3] != true:
            self._world.fail(f"7: {how} of {name} says {said}, the event has {true}")
        if name in self.retracted:
            before = self.retracted[name]
            self._world.fail(f"7: {name} is retracted by a {how} after {before}")
        words = self._words_of(counted, record_id, index)
        by = [at for word, at in words if word == said[3]]
        if not by:
            self._world.fail(f"7: {name} was retracted by {said[3]}, which nobody asked: {words}")
        self.retracted[name] = Retracted(how, self._world.now, said[3], *true[:2], min(by))
        self._oracle.truth.on_retracted(self._world.now, window, key, *true[:2])

    def _words_of(
        self, counted: Counted, record_id: str, index: int | None
    ) -> list[tuple[tuple[str, str], int]]:
        """By whom and why the event may be taken back, and since when (ms) that was said."""
        given = [
            ((word.by, word.why), at)
            for key in counted.keys
            for at, word in self._words.get((counted.home, key, record_id, index), ())
        ]
        modes = {each.retraction for each in self._oracle.deployed}
        if modes <= {RETRACTION_OFF, RETRACTION_OPERATOR}:
            return given
        asked = [each for each in self._asked.get(record_id, ()) if self._means(each, counted)]
        return given + [((each.by, each.why), each.sent) for each in asked if each.index == index]

    def _means(self, asked: Asked, counted: Counted) -> bool:
        """Whether a message names this event, or one in this packet."""
        return asked.key in counted.keys and self.home_of(asked) == counted.home

    def _check_keys(self, name: Name, keys: tuple[str, ...]) -> None:
        window, key, record_id, _ = name
        if (counted := self.counted[window, key, record_id]).keys != tuple(sorted(keys)):
            self._world.fail(f"7: {name} was retracted under {keys}, its keys are {counted.keys}")

    # --- how messages ended

    def named_by(self, asked: Asked) -> list[tuple[Identity, Counted]]:
        """What counts of the event that a message names: at most one record."""
        home, found = self.home_of(asked), []
        for window in self._windows.get((asked.key, asked.id), ()):
            identity = (window, asked.key, asked.id)
            if self.counted[identity].home == home:
                found.append((identity, self.counted[identity]))
        return found

    def effect_of(self, asked: Asked) -> dict[Name, Retracted]:
        """What was done of what a message asks; nothing if its event is not retracted."""
        names = [(*identity, asked.index) for identity, _ in self.named_by(asked)]
        return {name: self.retracted[name] for name in names if name in self.retracted}

    def check_acknowledged(self, asked: Asked) -> None:
        """Check that a message that is deleted from the queue had its effect."""
        if not self.effect_of(asked):
            self._world.fail(f"2: {asked} was acknowledged, and its event is not retracted")

    def judge(self, asked: Asked, letters: Sequence[DeadLetter], *, waits: bool) -> None:
        """Check in the end that a message is not lost."""
        if not (self.effect_of(asked) or letters or waits):
            self._world.fail(f"2: {asked} has no effect, and is no dead letter")

    def check_letter(self, asked: Asked, letter: DeadLetter, catalog: MemoryCatalog) -> None:
        """Check that a message was rejected for what was so when its last delivery began."""
        begun = self._oracle.book.began(letter.message)
        if letter.reason not in ONCE_MORE and not self._deserved(asked, letter, begun, catalog):
            self._world.fail(f"2: {asked} was wrongly rejected: {letter}")

    def _deserved(
        self, asked: Asked, letter: DeadLetter, begun: int, catalog: MemoryCatalog
    ) -> bool:
        named = [counted for _, counted in self.named_by(asked)]
        known = [counted for counted in named if counted.at < begun]
        modes = [each.retraction for each in self._oracle.deployed]
        target = (self.home_of(asked), asked.key, asked.id, asked.index)
        words: list[Authorization] = []
        later: list[Authorization] = []
        for at, word in self._words.get(target, ()):
            (words if at < begun else later).append(word)
        proven = bool(words) and all(word.proven for word in (words[-1], *later))
        match letter.reason:
            case Reason.RETRACTION_OFF:
                return RETRACTION_OFF in modes
            case Reason.TOO_FAR_AHEAD:
                ahead_ms = min(each.skew_ms for each in self._oracle.deployed)
                begins = window_start(asked.window) if asked.window else asked.ts or 0
                return begins > asked.sent + ahead_ms
            case Reason.BAD_RETRACTION:
                # A packet that came after the delivery is read by it, or not.
                met = [each for each in named if each.at <= letter.at]
                return asked.is_malformed or any(each.amounts for each in met)
            case Reason.RETRACTION_NOT_AUTHORIZED:
                return RETRACTION_OPERATOR in modes and not words
            case Reason.NOTHING_TO_RETRACT:
                return not any(self._has(each, asked.index) for each in known)
            case Reason.RETRACTION_UNPROVEN:
                home = self.home_of(asked)
                claim = catalog.claims([it := (home, asked.key, asked.id)]).get(it)
                state = catalog.window(claim.target if claim else home)
                dropped = state is not None and state.status in DROPPED
                return dropped and (claim is not None or not proven)
            case _:
                return False

    def _has(self, counted: Counted, index: int | None) -> bool:
        """Whether a record has an event of this index, or is an event if there is none."""
        return index in range(len(counted.amounts)) if index is not None else not counted.amounts

    def check_found(self, named: Asked, found: Retractable, began: int) -> None:
        """Check what the command found, which began at `began` (ms), of the event that it named."""
        counted = [each for _, each in self.named_by(named)]
        if found.found and not counted:
            self._world.fail(f"7: {found} is found, and never counted")
        if found.hopeless and any(
            each.at < began and self._has(each, named.index) for each in counted
        ):
            self._world.fail(f"7: {found} is said never to come, and counts")
        if found.note and not self.effect_of(named):
            self._world.fail(f"7: {found} is said to be retracted")

    # --- what is there

    def check_copy(self, window: Window, bucket: MemoryBucket) -> None:
        """Check that the corrections that a window had when its archive was proven are beside it,
        before its table may go.
        """
        archive = window.attempt.archive
        if RETRACTION_OFF in [each.retraction for each in self._oracle.deployed]:
            return  # such a cleanup copies nothing
        there = _copied(bucket, f"{archive}{CORRECTIONS}")
        if len({*there}) < len(there) and window.status is not Status.DROPPED:
            self._world.fail(f"7: a correction of {window.id} is copied twice: {there}")
        for (of, key, record_id, index), made in self.corrections.items():
            if of != window.id or key != made.keys[0]:
                continue
            at = self.retracted[of, key, record_id, index].at
            before = at < self._oracle.archives.proven_at.get(archive, 0)
            if before and (key, record_id, index) not in there:
                self._world.fail(f"3: {made} is not beside the archive of {window.id}")

    def check_later_copies(
        self, catalog: MemoryCatalog, bucket: MemoryBucket, seen_until: int
    ) -> None:
        """Check that the corrections of dropped windows are beside each proven archive that stays,
        of those months that a pass of cleanup has seen to the end: what was corrected before it
        began. Cleanup knows of all corrections until `seen_until`.
        """
        if RETRACTION_OFF in [each.retraction for each in self._oracle.deployed]:
            return
        passes = {
            key.partition(CORRECTED)[2][:7]: json.loads(bucket.get(key))
            for key in bucket.list("archive/")
            if CORRECTED in key
        }
        for (of, key, record_id, index), made in self.corrections.items():
            at = self.retracted[of, key, record_id, index].at
            noted, window = passes.get(f"{of[:4]}-{of[4:6]}"), catalog.window(of)
            if noted is None and at < seen_until:
                self._world.fail(f"3: there is no note of {made}")
            over = noted and noted["after"] is None and noted["revision"] and at < noted["begun"]
            if not over or not window or window.status is not Status.DROPPED or key != made.keys[0]:
                continue
            for prefix in _staying(bucket, window.attempt.archive):
                if (key, record_id, index) not in _copied(bucket, f"{prefix}{CORRECTIONS}"):
                    self._world.fail(f"3: {made} is not beside {prefix}, and the window is dropped")

    def check(self, found: Found, noted: Mapping[Any, Any], made: Iterable[Correction]) -> None:
        """Check all tombstones, corrections and their sums: `noted` are those by key, and by window
        or period.
        """
        stones = {name: (one.n, one.amount) for name, one in self._by("tombstone").items()}
        if found.tombstones != stones:
            self._world.fail(f"7: there are {found.tombstones}, retracted were {stones}")
        before, after = _sums(stones), _sums(self._by("correction"))
        if found.retracted != before:
            self._world.fail(f"7: retracted are {before}, tallies say {found.retracted}")
        by_name = {(each.window, each.keys[0], each.id, each.index): each for each in made}
        mine = {
            (each.window, each.keys[0], each.id, each.index): each
            for each in self.corrections.values()
        }
        if by_name != mine:
            self._world.fail(f"7: corrections are {by_name}, made were {mine}")
        for (window, key), total in self._oracle.totals.items():
            if window not in self._oracle.sealed:
                continue
            sums = noted.get((key, window), (0, 0, (0, 0)))
            true = (*after.get((window, key), (0, 0)), before.get((window, key), (0, 0)))
            if tuple(sums) != true:
                self._world.fail(f"7: {total} is corrected by {sums}, and should be by {true}")

    def _by(self, how: str) -> dict[Name, Retracted]:
        return {name: one for name, one in self.retracted.items() if one.how == how}


def _sums(names: Mapping[Name, Any]) -> dict[tuple[str, str], tuple[int, int]]:
    """Events and amounts, by window and key."""
    events, amounts = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (window, key, _, _), one in names.items():
        n, amount = one if isinstance(one, tuple) else (one.n, one.amount)
        events[window, key] += n
        amounts[window, key] += amount
    return {place: (events[place], amounts[place]) for place in events}


def _staying(bucket: MemoryBucket, source: str) -> set[str]:
    """The prefixes of proven archives of a window, without one in whose place another is read."""
    keys = {*bucket.list(source)}
    proven = {key.removesuffix(PROOF) for key in keys if key.endswith(PROOF)}
    return proven - {source} if any(key.endswith(ALONE) for key in keys) else proven


def _copied(bucket: MemoryBucket, prefix: str) -> list[tuple[str, str, int | None]]:
    """Key, id and index of the copies of corrections under a prefix."""
    lines = [
        json.loads(line)
        for key in bucket.list(prefix)
        if CORRECTIONS in key
        for line in bucket.get(key).splitlines()
    ]
    return [(line["keys"][0], line["id"], line["index"]) for line in lines]
