"""The doctor's check of sealed totals against the tallies of their windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice

from tallyroll.errors import Missing
from tallyroll.model.sharding import stable_hash
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.tallies import retracted_of
from tallyroll.model.windows import WindowId
from tallyroll.operations.doctor.archive_checks import SIGNS_PER_WINDOW
from tallyroll.operations.doctor.checkup import Checkup, Sign, finding_of, fine
from tallyroll.ports.paging import listed_tallies

SAMPLED_WINDOWS = 5
SAMPLED_KEYS = 100  # one read each of tallies and of totals
KEYS_HELD = 250_000  # sums in memory, some 60 MB
KEYS_PER_READ = 100
_SEALED = (Status.SEALED, Status.EXPORTING, Status.PROVEN)
_BY_TALLIES = "(events, amount) by tallies"
_KEEP = (
    "Leave table, totals and archive as they are, and find out who else wrote to them"
    " (docs/operations.md, proof-mismatch)."
)

_Sums = dict[str, tuple[int, int]]


def totals(case: Checkup) -> Iterator[Sign]:
    """Totals of sealed windows equal their tallies, while the tables exist, and what was retracted
    before the seal is noted beside them.

    Compares some keys of the newest windows, or all keys of all windows if `deep`.
    """
    sealed = [window for window in case.windows.values() if window.status in _SEALED]
    chosen = sealed if case.deep else sealed[-SAMPLED_WINDOWS:]
    keys = 0
    for window in chosen:
        spec = case.catalog.specs([window.id]).get(window.id)
        if spec is None:
            yield finding_of(window.id, f"it is {window.status}, and has no spec", _KEEP)
            continue
        try:
            compared, texts = (_all_keys if case.deep else _some_keys)(case, window, spec)
        except Missing:
            continue  # dropped meanwhile, or missing, which another check reports
        keys += compared
        if texts and _lives_on(case, window):
            yield from (finding_of(window.id, text, _KEEP) for text in texts)
    what = "all" if case.deep else "a sample"
    yield fine(f"keys of sealed windows ({what}) with the totals of their tallies: {keys:,}")


def _some_keys(case: Checkup, window: Window, spec: Spec) -> tuple[int, list[str]]:
    """How many keys of a random bucket were compared, and the differences."""
    number = int(case.effects.chance.random() * spec.buckets) + 1
    listed = listed_tallies(case.store, spec, number)
    keys = list(dict.fromkeys(tally.key for tally in listed))[:SAMPLED_KEYS]
    tallies = case.store.tallies(spec, keys)
    sums = {key: (tally.n, tally.amount) for key, tally in tallies.items()}
    taken = {key: tally.retracted for key, tally in tallies.items() if any(tally.retracted)}
    texts = [
        *unlike_totals(case, window.id, sums, _BY_TALLIES),
        *_unlike_noted(case, window, taken),
    ]
    return len(sums), texts


def _all_keys(case: Checkup, window: Window, spec: Spec) -> tuple[int, list[str]]:
    """How many keys there are, and the differences; in several passes, to bound memory."""
    passes = max(1, -(-(window.keys or 0) // KEYS_HELD))
    keys = events = amount = 0
    texts: list[str] = []
    for part in range(passes):
        sums, taken = _sums(case, spec, part, passes)
        keys += len(sums)
        events += sum(n for n, _ in sums.values())
        amount += sum(each for _, each in sums.values())
        unlike = chain(
            unlike_totals(case, window.id, sums, _BY_TALLIES), _unlike_noted(case, window, taken)
        )
        texts += islice(unlike, SIGNS_PER_WINDOW - len(texts))
    by_tallies, sealed = (keys, events, amount), (window.keys, window.events, window.amount)
    if by_tallies != sealed:
        texts.append(f"(keys, events, amount) by tallies {by_tallies}, when sealed {sealed}")
    return keys, texts


def _sums(case: Checkup, spec: Spec, part: int, passes: int) -> tuple[_Sums, _Sums]:
    """The (events, amount) of keys by their tallies, and those that were retracted."""
    sums: _Sums = {}
    taken: _Sums = {}
    for number in range(1, spec.buckets + 1):
        for stripe in listed_tallies(case.store, spec, number):
            if stable_hash(stripe.key) % passes == part:
                n, amount = sums.get(stripe.key, (0, 0))
                sums[stripe.key] = (n + stripe.n, amount + stripe.amount)
                if any(stripe.retracted):
                    before = taken.get(stripe.key, (0, 0))
                    taken[stripe.key] = retracted_of((before, stripe.retracted))
    return sums, taken


def unlike_totals(
    case: Checkup, window: WindowId, sums: Mapping[str, tuple[int, int]], what: str
) -> Iterator[str]:
    """The keys whose total is not their (events, amount) in `sums`; `what` says what those are."""
    keys = list(sums)
    for first in range(0, len(keys), KEYS_PER_READ):
        batch = keys[first : first + KEYS_PER_READ]
        stored = case.totals.of_window(window, batch)
        for key in batch:
            total = stored.get(key)
            by_total = (total.n, total.amount) if total else "none"
            if by_total != sums[key]:
                yield f"key {key!r}: {what} {sums[key]}, its total {by_total}"


def _unlike_noted(case: Checkup, window: Window, taken: _Sums) -> Iterator[str]:
    """The keys whose (events, amount) noted as retracted before the seal are not those by tallies.
    The note may be missing until the proof: a roller of an earlier release leaves it out.
    """
    proven = window.status is Status.PROVEN
    keys = list(taken)
    for first in range(0, len(keys), KEYS_PER_READ):
        batch = keys[first : first + KEYS_PER_READ]
        stored = case.totals.of_window(window.id, batch, corrected=True)
        for key, total in stored.items():
            noted = total.corrections.before
            if noted != taken[key] and (proven or any(noted)):
                yield f"key {key!r}: retracted by tallies {taken[key]}, as noted {noted}"


def _lives_on(case: Checkup, window: Window) -> bool:
    """Whether a window still has its table. While a table is deleted, its items disappear."""
    now = case.catalog.window(window.id)
    return now is not None and now.status in _SEALED
