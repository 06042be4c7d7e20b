"""Puts entries into logs: reads their slots, puts leaves at the first free positions, and reads on
where another writer was faster.

What is to be done is decided by `tallyroll.logs.slots`. A leaf is put as a record is, in the same
transactions. Of one slot one position at a time is undecided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tallyroll import limits
from tallyroll.errors import Missing
from tallyroll.ingest.batch_messages import Placed
from tallyroll.ingest.cost import LogCounts
from tallyroll.ingest.fates import Disposition, Fate, beside_stored, handed_back
from tallyroll.ingest.transactions import Commit, CommitRun, plan
from tallyroll.logs.entries import LogEntry, SlotName, leaf_record, slot_of
from tallyroll.logs.reading import ReadSlots, read_newer, read_on
from tallyroll.logs.slots import FEW_ENTRIES, Slot, SlotStep, next_step
from tallyroll.model.ids import Identity
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.windows import WindowId
from tallyroll.ports.backoff import POSITION_LOST
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.reasons import Reason

Run = Callable[..., CommitRun]
OLD_MS = 60_000  # a slot that is so old gets no larger leaves any more
ENTRIES_KEPT = 64_000  # of the slots that are kept: some 30 MB
SLOTS_AT_ONCE = 256  # a batch with more is done in parts; the memory of each is free after it
SLOT_ENTRIES = 8  # what a slot takes without its entries is counted as that of so many


@dataclass(slots=True)
class Appended:
    """The result for entries. `fates` has the fate of each message by its identity; a message that
    needs a record has none. `run` has the commits of the leaves.
    """

    fates: dict[Identity, Fate] = field(default_factory=dict)
    run: CommitRun = field(default_factory=CommitRun)
    counts: LogCounts = field(default_factory=LogCounts)

    @property
    def counted(self) -> int:
        """How many messages were counted in logs."""
        return sum(fate.kind is Disposition.COUNTED for fate in self.fates.values())


@dataclass(slots=True)
class _Work:
    """A slot, and by their ids the messages of those of its entries whose fates are open; at most
    `most` are put at once. It `may_end` if the batch is scattered over many slots of the window.
    `step` is what was decided last, and `leaf` what it puts.
    """

    name: SlotName
    spec: Spec
    slot: Slot
    waiting: dict[str, Placed]
    done: Appended
    may_end: bool
    most: int
    step: SlotStep = field(default_factory=SlotStep)

    def decide(self, now: int) -> None:
        """Decide on the next step, and settle what needs no leaf. Only an old slot is ended, of a
        backlog in random order: what comes for another one may be a small first part.
        """
        entries = [each.entry for each in self.waiting.values() if each.entry]
        step = next_step(self.slot, entries, self.most)
        end = (self.name.number + 1) * self.spec.logs[self.name.key].slot_ms
        ends = step.ends and self.may_end and now - end >= OLD_MS
        self.step = step = replace(step, ends=ends)
        self.settle(step.stored, Fate(Disposition.DUPLICATE))
        for entry in step.taken:
            self.settle([entry], beside_stored(self.waiting[entry.message].record, b""))
        self.done.counts.full += bool(step.records)
        for entry in step.records:
            del self.waiting[entry.message]

    def settle(self, entries: Iterable[LogEntry], fate: Fate) -> None:
        """Note the fate of entries."""
        fates, waiting = self.done.fates, self.waiting
        for entry in entries:
            fates[waiting.pop(entry.message).identity] = fate

    def give_up(self, fate: Fate) -> None:
        """Give all entries this fate."""
        self.done.fates.update((each.identity, fate) for each in self.waiting.values())
        self.waiting.clear()

    def leaf(self) -> Record:
        """The leaf that the step puts."""
        step, free = self.step, self.slot.free
        return leaf_record(self.spec, self.name, free, step.appended, ends=step.ends)

    def after(self, fate: Fate) -> bool:
        """Settle what the fate of the leaf decides; whether its position was lost."""
        appended, counts = self.step.appended, self.done.counts
        match fate.kind:
            case Disposition.COUNTED | Disposition.DUPLICATE:
                counts.leaves += 1
                counts.entries += len(appended)
                counts.ended += self.step.ends
                self.slot = self.slot.with_leaf(appended, ends=self.step.ends)
                self.settle(appended, Fate(fate.kind))
            case Disposition.UNCOMPARED:
                return True
            case Disposition.REJECTED if fate.reason is Reason.ID_CONFLICT:
                return True
            case Disposition.REJECTED if len(appended) > 1:
                self.most = len(appended) // 2  # until what the store refuses is alone
            case Disposition.REJECTED:
                self.settle(appended, fate)
                self.most = limits.LOG_ENTRIES_MAX
            case _:
                self.give_up(fate)
        return False


@dataclass(eq=False)
class Appender:
    """Puts the entries of batches into logs; one per writer. It keeps the last slots, since leaves
    never change: only what follows is read, and of full slots nothing.
    """

    store: Store
    effects: Effects
    at_once: int
    _kept: dict[tuple[str, SlotName], Slot] = field(default_factory=dict, init=False)
    _entries: int = field(default=0, init=False)

    def append(self, placed: Iterable[Placed], run: Run, deadline: int) -> Appended:
        """Put the entries of distinct messages of any windows, as far as there is time until
        `deadline` (ms); `run` carries commits out. Entries whose slots cannot be read in time are
        handed back, and those of a table that is gone are shut out.
        """
        done = Appended()
        slots: dict[tuple[str, SlotName], tuple[Spec, dict[str, Placed]]] = {}
        for each in placed:
            spec, entry = each.spec, each.entry
            assert entry
            name = spec.window, slot_of(spec, each.identity[1], entry.sent)
            if not (found := slots.get(name)):
                found = slots[name] = spec, {}
            found[1][entry.message] = each
        more = Counter[str]()  # entries of a window, less those that its slots should have
        for (window, _), (_, entries) in slots.items():
            more[window] += len(entries) - FEW_ENTRIES
        names = sorted(slots)  # so that those of a window share commits, and those of a group reads
        most, waited = limits.LOG_ENTRIES_MAX, False
        for first in range(0, len(names), SLOTS_AT_ONCE):
            works = [
                _Work(name, spec, self._known(window, name), entries, done, more[window] < 0, most)
                for window, name in names[first : first + SLOTS_AT_ONCE]
                for spec, entries in (slots[window, name],)
            ]
            waited = self._append(works, run, deadline, done, waited=waited)
            self._keep(works)
        return done

    def _known(self, window: str, name: SlotName) -> Slot:
        return self._kept.get((window, name), Slot())

    def _keep(self, works: Iterable[_Work]) -> None:
        """Keep the slots, and of the others those that were kept last."""
        for work in works:
            name = work.spec.window, work.name
            self._forget(name)
            self._kept[name] = work.slot
            self._entries += SLOT_ENTRIES + len(work.slot.entries)
        while self._entries > ENTRIES_KEPT:
            self._forget(next(iter(self._kept)))

    def _forget(self, name: tuple[str, SlotName]) -> None:
        if slot := self._kept.pop(name, None):
            self._entries -= SLOT_ENTRIES + len(slot.entries)

    def _append(
        self, works: list[_Work], run: Run, deadline: int, done: Appended, *, waited: bool
    ) -> bool:
        """Put what waits for these slots; whether it has waited, or had `waited` before."""
        done.counts.slots += len(works)
        self._read(works, read_newer, deadline)
        attempt = 0
        while True:
            for work in works:
                work.decide(self.effects.now())
            works = [work for work in works if work.waiting]
            if not works:
                return waited
            # Others may be about to end the same slots: who waits first finds them ended.
            to_read = [work for work in works if work.step.ends and not waited]
            puts = [work for work in works if waited or not work.step.ends]
            commits, put = list[Commit](), list[tuple[_Work, Identity]]()
            for spec, of in _by_window(puts):
                leaves = [work.leaf() for work in of]
                commits += plan(spec, leaves, self.store.metering_of(spec.table))
                names = [(spec.window, leaf.key, leaf.id) for leaf in leaves]
                put += zip(of, names, strict=True)
            part = run(self.store, commits, self.effects, deadline, self.at_once)
            beaten = [work for work, name in put if work.after(part.fates.pop(name))]
            done.run.add(part)
            done.counts.lost += len(beaten)
            if to_read := to_read + beaten:
                left = max(0, deadline - self.effects.now())
                wait = POSITION_LOST.wait_ms(attempt, self.effects.chance)
                self.effects.sleep(min(wait, left if beaten else left // 2))
                attempt, waited = attempt + 1, True
                self._read(to_read, read_on, deadline)
            works = [work for work in works if work.waiting]

    def _read(self, works: Sequence[_Work], read: ReadSlots, deadline: int) -> None:
        """Read slots; what waits for one that cannot be read in time is handed back, or if its
        table is gone, the window's state decides.
        """
        for spec, of in _by_window(works):
            known = {work.name: work.slot for work in of}
            late = self.effects.now() >= deadline
            seen = {} if late else read(self.store, spec, known, self.effects, self.at_once)
            for work in of:
                slot = seen.get(work.name)
                if slot is None:
                    work.give_up(handed_back("no time left"))
                elif isinstance(slot, Slot):
                    work.slot = slot
                elif isinstance(slot, Missing):
                    work.give_up(Fate(Disposition.SHUT_OUT, detail=str(slot)))
                else:
                    work.give_up(handed_back(str(slot)))


def _by_window(works: Iterable[_Work]) -> list[tuple[Spec, list[_Work]]]:
    groups: dict[WindowId, tuple[Spec, list[_Work]]] = {}
    for work in works:
        groups.setdefault(work.spec.window, (work.spec, []))[1].append(work)
    return [*groups.values()]
