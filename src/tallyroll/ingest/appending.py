"""Puts entries into logs: reads their slots, puts leaves at the first free positions, and reads on
where another writer was faster.

What is to be done is decided by `tallyroll.logs.slots`. A leaf is put as a record is, in the same
transactions. Of one slot one position at a time is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from tallyroll import limits
from tallyroll.errors import Missing, Refused, StoreError
from tallyroll.ingest.cost import LogCounts
from tallyroll.ingest.fates import Disposition, Fate, beside_stored, handed_back
from tallyroll.ingest.placement import Placed
from tallyroll.ingest.transactions import CommitRun, plan
from tallyroll.logs.entries import LogEntry, SlotName, leaf_record, slot_of
from tallyroll.logs.reading import read_on, read_slots
from tallyroll.logs.slots import Slot, SlotStep, next_step
from tallyroll.model.ids import Identity
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.ports.backoff import COMMIT_CONFLICT
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.reasons import Reason

Run = Callable[..., CommitRun]


@dataclass(slots=True)
class Appended:
    """The result for entries. `fates` has the fate of each message by its identity; a message that
    needs a record has none. `run` has the commits of the leaves.
    """

    fates: dict[Identity, Fate] = field(default_factory=dict)
    run: CommitRun = field(default_factory=CommitRun)
    counts: LogCounts = field(default_factory=LogCounts)


@dataclass(slots=True)
class _Work:
    """A slot, and the messages of those of its entries whose fates are open; at most `most` are put
    at once. `step` is what was decided last, and `leaf` what it puts.
    """

    name: SlotName
    spec: Spec
    slot: Slot
    waiting: dict[LogEntry, Placed]
    done: Appended
    most: int
    step: SlotStep = field(default_factory=SlotStep)

    def decide(self) -> None:
        """Decide on the next step, and settle what needs no leaf."""
        self.step = step = next_step(self.slot, [*self.waiting], self.most)
        for entry in step.stored:
            self.settle(entry, Fate(Disposition.DUPLICATE, self.waiting[entry].record.digest))
        for entry in step.taken:
            self.settle(entry, beside_stored(self.waiting[entry].record, b""))
        self.done.counts.full += bool(step.records)
        for entry in step.records:
            del self.waiting[entry]

    def settle(self, entry: LogEntry, fate: Fate) -> None:
        """Note the fate of an entry."""
        self.done.fates[self.waiting.pop(entry).identity] = fate

    def give_up(self, fate: Fate) -> None:
        """Give all entries this fate."""
        for entry in [*self.waiting]:
            self.settle(entry, fate)

    def leaf(self) -> Record:
        """The leaf that the step puts."""
        step, free = self.step, self.slot.free
        return leaf_record(self.spec, self.name, free, step.appended, ends=step.ends)

    def after(self, leaf: Record, fate: Fate) -> bool:
        """Settle what the fate of the leaf decides; whether its position was lost."""
        appended, counts = self.step.appended, self.done.counts
        match fate.kind:
            case Disposition.COUNTED | Disposition.DUPLICATE:
                counts.leaves += 1
                counts.entries += len(appended)
                counts.ended += self.step.ends
                self.slot = self.slot.after([leaf])
                for entry in appended:
                    self.settle(entry, Fate(fate.kind, self.waiting[entry].record.digest))
            case Disposition.UNCOMPARED:
                return True
            case Disposition.REJECTED if fate.reason is Reason.ID_CONFLICT:
                return True
            case Disposition.REJECTED if len(appended) > 1:
                self.most = len(appended) // 2  # until what the store refuses is alone
            case Disposition.REJECTED:
                self.settle(appended[0], fate)
                self.most = limits.LOG_ENTRIES_MAX
            case _:
                self.give_up(fate)
        return False


@dataclass(eq=False)
class Appender:
    """Puts the entries of batches into logs."""

    store: Store
    effects: Effects
    at_once: int

    def append(self, placed: Iterable[Placed], run: Run, deadline: int) -> Appended:
        """Put the entries of distinct messages of any windows, as far as there is time until
        `deadline` (ms); `run` carries commits out. Entries whose slots cannot be read are handed
        back.
        """
        done = Appended()
        waiting: dict[tuple[str, SlotName], dict[LogEntry, Placed]] = {}
        specs: dict[str, Spec] = {}
        for each in placed:
            assert each.entry
            spec = specs.setdefault(each.spec.window, each.spec)
            slot = slot_of(spec, each.record.key, each.entry.sent)
            waiting.setdefault((spec.window, slot), {})[each.entry] = each
        for window, spec in specs.items():
            works = [
                _Work(name, spec, Slot(), entries, done, limits.LOG_ENTRIES_MAX)
                for (of, name), entries in waiting.items()
                if of == window
            ]
            self._append(spec, works, run, deadline, done)
        return done

    def _append(
        self, spec: Spec, works: list[_Work], run: Run, deadline: int, done: Appended
    ) -> None:
        self._read(spec, works, done)
        for attempt in count():
            for work in works:
                work.decide()
            works = [work for work in works if work.waiting]
            if not works:
                return
            leaves = [work.leaf() for work in works]
            commits = plan(spec, leaves, self.store.metering_of(spec.table))
            part = run(self.store, commits, self.effects, deadline, self.at_once)
            fates = [part.fates.pop((spec.window, each.key, each.id)) for each in leaves]
            done.run.add(part)
            settled = zip(works, leaves, fates, strict=True)
            lost = [work for work, leaf, fate in settled if work.after(leaf, fate)]
            if lost:
                done.counts.lost += len(lost)
                self.effects.sleep(COMMIT_CONFLICT.wait_ms(attempt, self.effects.chance))
                self._reading(spec, lost, self._read_on)
            works = [work for work in works if work.waiting]

    def _read(self, spec: Spec, works: Sequence[_Work], done: Appended) -> None:
        done.counts.slots += len(works)
        self._reading(spec, works, self._read_all)

    def _read_all(self, spec: Spec, works: Sequence[_Work]) -> None:
        names = [work.name for work in works]
        slots = read_slots(self.store, spec, names, self.effects, self.at_once)
        for work in works:
            work.slot = slots[work.name]

    def _read_on(self, spec: Spec, works: Sequence[_Work]) -> None:
        jobs = [partial(read_on, self.store, spec, work.name, work.slot) for work in works]
        for work, slot in zip(works, self.effects.together(jobs, self.at_once), strict=True):
            work.slot = slot

    @staticmethod
    def _reading(
        spec: Spec, works: Sequence[_Work], read: Callable[[Spec, Sequence[_Work]], None]
    ) -> None:
        """Read slots; what waits for one that cannot be read is handed back, or if its table is
        gone, the window's state decides.
        """
        try:
            read(spec, works)
        except StoreError as error:
            if isinstance(error, Refused) and len(works) > 1:  # a damaged leaf is of one slot
                for work in works:
                    Appender._reading(spec, [work], read)
                return
            gone = Fate(Disposition.SHUT_OUT, detail=str(error))
            for work in works:
                work.give_up(gone if isinstance(error, Missing) else handed_back(str(error)))
