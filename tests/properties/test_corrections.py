"""Every range's count is net: its totals less the corrections of its windows, however it is read.

Windows are sealed with totals, some events were retracted before; days and months are rolled up,
events are retracted, windows of the past come and roll-ups begin anew, in any order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tallyroll.lifecycle.rollups import RollUps
from tallyroll.lifecycle.runner import Rolled
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.states import Status, Window
from tallyroll.model.totals import Correction, Total
from tallyroll.model.windows import table_name, window_id, window_start
from tallyroll.ports.store import Answer
from tallyroll.reads.counts import Count
from tallyroll.reads.reader import PortReader
from tests.harness.pipeline import HOUR, SMALL, TIME_LEFT, Pipeline, StillEffects
from tests.tiers import examples

FIRST = window_start("20261129T000000Z")  # the last two days of a month, and the first of the next
LENGTH, SLOTS = 6 * HOUR, 12
KEYS = ("a", "a.1", "b")
SETTINGS = replace(SMALL, cache_live_ms=0, window_seconds=LENGTH // 1000)
KEY_SETS = st.sets(st.sampled_from(KEYS), min_size=1).map(lambda keys: tuple(sorted(keys)))

Place = tuple[str, int]
Sums = tuple[int, int]


class Retracting(RuleBasedStateMachine):
    """What windows hold by the test's own books, beside what counts say."""

    def __init__(self) -> None:
        super().__init__()
        self.pipeline = Pipeline(SETTINGS, StillEffects(FIRST + SLOTS * LENGTH))
        self.totals = self.pipeline.totals
        self.gross: dict[Place, Sums] = {}
        self.taken: dict[Place, list[Sums]] = defaultdict(list)
        self.before: dict[Place, Sums] = {}
        self.ids: set[tuple[int, tuple[str, ...], str]] = set()

    @rule(slot=st.integers(0, SLOTS - 1), n=st.integers(5, 9), amount=st.integers(-9, 9))
    def seal(self, slot: int, n: int, amount: int) -> None:
        """A window comes, perhaps of the past, and is sealed with so many events of each key."""
        start = FIRST + slot * LENGTH
        id_ = window_id(start)
        catalog = self.pipeline.catalog
        if not catalog.create(Window(id_, table_name("t", id_), start, start + LENGTH)):
            return
        retracted = dict.fromkeys(KEYS[: n % 3], (n - 4, -amount))
        self.totals.put_retracted(id_, retracted)
        self.totals.put([Total(key, id_, n, amount) for key in KEYS])
        [state] = catalog.windows(start, start + LENGTH)
        catalog.advance(replace(state, status=Status.SEALED, listed=LISTING_BUCKETS))
        for key in KEYS:
            self.gross[key, slot] = (n, amount)
            self.before[key, slot] = retracted.get(key, (0, 0))

    @rule()
    def roll(self) -> None:
        """Days and months are rolled up, if all their windows are sealed."""
        rolled = Rolled()
        alive = self.pipeline.catalog.windows(0, 10**14)
        ports = (self.pipeline.catalog, self.totals, self.pipeline.effects)
        RollUps(*ports).run(alive, 10**15, rolled)
        assert not rolled.problems

    @precondition(lambda self: self.gross)
    @rule(data=st.data(), keys=KEY_SETS, id_=st.sampled_from("xyz"), amount=st.integers(-9, 9))
    def correct(self, data: st.DataObject, keys: tuple[str, ...], id_: str, amount: int) -> None:
        """An event of one key or several is retracted, perhaps not for the first time."""
        slot = data.draw(st.sampled_from(sorted({slot for _, slot in self.gross})))
        window = window_id(FIRST + slot * LENGTH)
        name = (slot, keys[:1], id_)
        [answer] = self.totals.correct([Correction(window, id_, keys, 1, amount, b"", FIRST)])
        assert (answer.answer is Answer.DUPLICATE) == (name in self.ids)
        if name not in self.ids:
            self.ids.add(name)
            for key in keys:
                self.taken[key, slot].append((1, amount))

    @invariant()
    def counts_are_net_in_every_range(self) -> None:
        """By windows and by days, and in what was retracted."""
        for begin, end in ((0, SLOTS), (0, 8), (2, 8), (4, SLOTS), (8, 11)):
            for key in KEYS:
                for by_window in (False, True):
                    answer = self._count(key, begin, end, by_window=by_window)
                    assert (answer.events, answer.amount) == self._net(key, begin, end)
                    assert answer.retracted == self._retracted(key, begin, end)

    def _count(self, key: str, begin: int, end: int, *, by_window: bool) -> Count:
        pipeline = self.pipeline
        reader = PortReader(
            SETTINGS, pipeline.store, pipeline.catalog, self.totals, pipeline.effects
        )
        bounds = FIRST + begin * LENGTH, FIRST + end * LENGTH
        answer = reader.count(key, *bounds, TIME_LEFT, consistent=True, by_window=by_window)
        assert answer.complete
        return answer

    def _net(self, key: str, begin: int, end: int) -> Sums:
        places = [(key, slot) for slot in range(begin, end)]
        sums = [self.gross.get(place, (0, 0)) for place in places]
        taken = [each for place in places for each in self.taken.get(place, ())]
        return _sum([*sums, *((-n, -amount) for n, amount in taken)])

    def _retracted(self, key: str, begin: int, end: int) -> Sums:
        places = [(key, slot) for slot in range(begin, end)]
        taken = [each for place in places for each in self.taken.get(place, ())]
        return _sum([*taken, *(self.before.get(place, (0, 0)) for place in places)])


def _sum(parts: list[Sums]) -> Sums:
    return sum(n for n, _ in parts), sum(amount for _, amount in parts)


TestRetracting = Retracting.TestCase
TestRetracting.settings = settings(max_examples=examples(100), stateful_step_count=15)
