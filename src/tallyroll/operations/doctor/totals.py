"""The doctor's check of sealed totals against the tallies of their windows."""

from __future__ import annotations

from collections.abc import Iterator

from tallyroll.errors import Missing
from tallyroll.model.sharding import stable_hash
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.operations.doctor.archives import SIGNS_PER_WINDOW
from tallyroll.operations.doctor.checkup import Checkup, Level, Sign, fine
from tallyroll.ports.paging import listed_tallies

SAMPLED_WINDOWS = 5
SAMPLED_KEYS = 100  # one read each of tallies and of totals
KEYS_HELD = 250_000  # sums in memory, some 60 MB
KEYS_PER_READ = 100
_SEALED = (Status.SEALED, Status.EXPORTING, Status.PROVEN)
_KEEP = (
    "Leave table, totals and archive as they are, and find out who else wrote to them"
    " (docs/operations.md, proof-mismatch)."
)


def totals(case: Checkup) -> Iterator[Sign]:
    """Totals of sealed windows equal their tallies, while the tables exist.

    Compares some keys of the newest windows, or all keys of all windows if `deep`.
    """
    sealed = [window for window in case.windows.values() if window.status in _SEALED]
    chosen = sealed if case.deep else sealed[-SAMPLED_WINDOWS:]
    keys = 0
    for window in chosen:
        spec = case.catalog.specs([window.id]).get(window.id)
        if spec is None:
            text = f"{window.id}: it is {window.status}, and has no spec"
            yield Sign(Level.FINDING, text, _KEEP, window.id)
            continue
        try:
            signs = _Sealed(case, window, spec)
            found = list(signs.all_keys() if case.deep else signs.some_keys())
        except Missing:
            continue  # dropped meanwhile, or missing, which another check reports
        keys += signs.keys
        if found and _lives_on(case, window):
            yield from found
    what = "all" if case.deep else "a sample"
    yield fine(f"{keys:,} keys of {len(chosen):,} sealed windows ({what}) as by their tallies")


class _Sealed:
    """Compares one sealed window; `keys` is the number of keys compared."""

    def __init__(self, case: Checkup, window: Window, spec: Spec) -> None:
        self._case = case
        self._window = window
        self._spec = spec
        self.keys = 0

    def some_keys(self) -> Iterator[Sign]:
        """Compare some keys of a random bucket."""
        number = int(self._case.effects.chance.random() * self._spec.buckets) + 1
        listed = listed_tallies(self._case.store, self._spec, number)
        keys = list(dict.fromkeys(tally.key for tally in listed))[:SAMPLED_KEYS]
        tallies = self._case.store.tallies(self._spec, keys)
        sums = {key: (tally.n, tally.amount) for key, tally in tallies.items()}
        yield from self._compared(sums)

    def all_keys(self) -> Iterator[Sign]:
        """Compare all keys, in several passes over the buckets, to bound memory."""
        passes = max(1, -(-(self._window.keys or 0) // KEYS_HELD))
        events = amount = signs = 0
        for part in range(passes):
            sums = self._sums(part, passes)
            events += sum(n for n, _ in sums.values())
            amount += sum(each for _, each in sums.values())
            for sign in self._compared(sums):
                signs += 1
                if signs <= SIGNS_PER_WINDOW:
                    yield sign
        window = self._window
        sealed = (window.keys, window.events, window.amount)
        if (self.keys, events, amount) != sealed:
            yield Sign(
                Level.FINDING,
                f"{window.id}: (keys, events, amount) by tallies {(self.keys, events, amount)},"
                f" when sealed {sealed}",
                _KEEP,
                window.id,
            )

    def _sums(self, part: int, passes: int) -> dict[str, tuple[int, int]]:
        sums: dict[str, tuple[int, int]] = {}
        for number in range(1, self._spec.buckets + 1):
            for stripe in listed_tallies(self._case.store, self._spec, number):
                if passes == 1 or stable_hash(stripe.key) % passes == part:
                    n, amount = sums.get(stripe.key, (0, 0))
                    sums[stripe.key] = (n + stripe.n, amount + stripe.amount)
        return sums

    def _compared(self, sums: dict[str, tuple[int, int]]) -> Iterator[Sign]:
        keys = list(sums)
        self.keys += len(keys)
        window = self._window.id
        for first in range(0, len(keys), KEYS_PER_READ):
            batch = keys[first : first + KEYS_PER_READ]
            stored = self._case.totals.of_window(window, batch)
            for key in batch:
                total = stored.get(key)
                if total is None or (total.n, total.amount) != sums[key]:
                    by_total = (total.n, total.amount) if total else "none"
                    text = f"{window}: key {key!r}: (events, amount) by tallies {sums[key]}"
                    yield Sign(Level.FINDING, f"{text}, its total {by_total}", _KEEP, window)


def _lives_on(case: Checkup, window: Window) -> bool:
    """Whether a window still has its table. While a table is deleted, its items disappear."""
    now = case.catalog.window(window.id)
    return now is not None and now.status in _SEALED
