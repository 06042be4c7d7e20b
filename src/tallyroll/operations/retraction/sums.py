"""Computes the sums of corrections anew from the corrections themselves, after items of the totals
were lost or put back one by one.

The month's revision is read first, and each change is made only if nothing was corrected since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from tallyroll.archive.corrections import corrections_copied, listed_corrections
from tallyroll.archive.layout import superseded_by
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.periods import Period, PeriodName, day_of, month_of
from tallyroll.model.states import Window
from tallyroll.model.totals import NO_CORRECTIONS, Corrections
from tallyroll.model.windows import WindowId, window_id, window_start
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Answer
from tallyroll.ports.totals import Totals

KEYS_AT_ONCE = 100
QUERIES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class SumChange:
    """A key whose sums of corrections in a window, day or month were others."""

    key: str
    name: WindowId | PeriodName
    before: Corrections
    after: Corrections


@dataclass(frozen=True, eq=False)
class SumsAnew:
    """The sums of the corrections of sealed windows, as they should be. With `dry_run` nothing is
    changed.
    """

    totals: Totals
    effects: Effects
    windows: Sequence[Window]
    dry_run: bool = False
    _right: dict[tuple[str, WindowId], Corrections] = field(default_factory=dict, init=False)

    def put_back(self, bucket: Bucket) -> int:
        """Put those corrections back that only the copies beside archives have; their number.

        Raises ProofMismatch and StoreError.
        """
        back = 0
        for window in self.windows:
            if window.attempt.archive and not self.dry_run:
                prefix = window.attempt.archive
                prefix = superseded_by(bucket, prefix) or prefix
                copied = list(corrections_copied(bucket, prefix, window.id))
                answers = self.totals.correct(copied)
                back += sum(each.answer is Answer.FINE for each in answers)
        return back

    def changes(self) -> Iterator[SumChange]:
        """Each sum that is not that of its corrections, after it is changed: those of all windows
        first, then those of their days and months. What was retracted before the seal stays as the
        window's sums or its listing have it.

        Reads the totals of all keys of the windows, and has a query for each key of each window;
        holds the sums of all keys in memory. Raises StateConflict if an event is retracted
        meanwhile: start again then.
        """
        for each in self.windows:
            yield from self._of_window(each)
        done: set[tuple[str, PeriodName]] = set()
        for key, window in self._right:
            day = day_of(window_start(window))
            if (key, day.name) not in done:
                done.add((key, day.name))
                yield from self._of_periods(key, window, day)

    def _of_window(self, window: Window) -> Iterator[SumChange]:
        revision = self.totals.revision(month_of(window.start).name)
        listed = listed_corrections(self.totals, window.id)
        stored, made = self._read(window.id)
        for key in sorted({*listed, *stored, *made}):
            by_key, in_list = stored.get(key, NO_CORRECTIONS), listed.get(key, NO_CORRECTIONS)
            noted = by_key.before if any(by_key.before) else in_list.before
            right = self._right[key, window.id] = Corrections(*made.get(key, (0, 0)), noted)
            if by_key == in_list == right:
                continue
            if not self.dry_run:
                _, day, month, _ = self.totals.sums(key, window.id)
                self.totals.put_sums(key, window.id, (right, day, month, right), revision)
                revision += 1
            yield SumChange(key, window.id, in_list if by_key == right else by_key, right)

    def _of_periods(self, key: str, window: WindowId, day: Period) -> Iterator[SumChange]:
        month = month_of(day.start)
        revision = self.totals.revision(month.name)
        found = self.totals.of_key(key, window_id(month.start), window_id(month.end))
        made = {each.window: each.corrections for each in found}
        made |= {name: self._right.get((key, name), sums) for name, sums in made.items()}
        of_day = _added([each for name, each in made.items() if window_start(name) in day])
        of_month = _added([*made.values()])
        stored = self.totals.sums(key, window)
        right = (stored[0], of_day, of_month, stored[3])
        if stored != right and not self.dry_run:
            self.totals.put_sums(key, window, right, revision)
        for place, period in enumerate((day, month), 1):
            if stored[place] != right[place]:
                yield SumChange(key, period.name, stored[place], right[place])

    def _read(
        self, window: WindowId
    ) -> tuple[Mapping[str, Corrections], Mapping[str, tuple[int, int]]]:
        """The stored sums of the window's keys that have any, and those of their corrections."""
        stored: dict[str, Corrections] = {}
        events, amounts = Counter[str](), Counter[str]()
        for keys in self._keys(window):
            found = self.totals.of_window(window, keys, corrected=True)
            stored |= {
                key: it.corrections for key, it in found.items() if it.corrections != NO_CORRECTIONS
            }
            asked = [partial(self.totals.corrections, key, window) for key in keys]
            for each in chain.from_iterable(self.effects.together(asked, QUERIES_AT_ONCE)):
                for its in each.keys:
                    events[its] += each.n
                    amounts[its] += each.amount
        return stored, {key: (events[key], amounts[key]) for key in events}

    def _keys(self, window: WindowId) -> Iterator[list[str]]:
        for bucket in range(1, LISTING_BUCKETS + 1):
            for page in self.totals.listing(window, bucket, "", KEYS_AT_ONCE):
                if page:
                    yield [row.key for row in page]


def _added(each: Sequence[Corrections]) -> Corrections:
    before = sum(one.before[0] for one in each), sum(one.before[1] for one in each)
    return Corrections(sum(one.n for one in each), sum(one.amount for one in each), before)
