"""The doctor's check of the sums of corrections against the corrections themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice

from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.periods import month_of
from tallyroll.model.states import Window
from tallyroll.model.totals import Corrections
from tallyroll.model.windows import window_id
from tallyroll.operations.doctor.archive_checks import SIGNS_PER_WINDOW
from tallyroll.operations.doctor.checkup import Checkup, Sign, finding_of, fine, restoring

CORRECTED_WINDOWS = 5
CORRECTED_KEYS = 500  # of a window, unless `deep`; two queries each
ROWS_PER_PAGE = 1_000
_REMEDY = (
    "Find out who else wrote to the totals, and put them back as they were: {restoring}. The"
    " corrections stand under `~r#{name}#`; the sums under `{name}#r`, and in `~c.{name}.*`."
)


def corrections(case: Checkup) -> Iterator[Sign]:
    """The sums of corrections, by key and listed, are those of the corrections.

    Checks the newest sealed windows, or all if `deep`.
    """
    sealed = [window for window in case.windows.values() if window.status.sealed]
    looked = 0
    for window in sealed if case.deep else sealed[-CORRECTED_WINDOWS:]:
        month = month_of(window.start).name
        revision = case.totals.revision(month)
        if not revision:
            continue
        listed = _listed(case, window)
        if len(listed) > CORRECTED_KEYS and not case.deep:
            continue
        looked += 1
        texts = list(islice(_unlike(case, window, listed), SIGNS_PER_WINDOW))
        if texts and case.totals.revision(month) == revision:  # else they may have grown meanwhile
            remedy = _REMEDY.format(name=window.id, restoring=restoring(case.resources.totals.name))
            yield from (finding_of(window.id, text, remedy) for text in texts)
    which = "all" if case.deep else "the newest"
    yield fine(f"sealed windows ({which}) with the sums of their corrections: {looked:,}")


def _listed(case: Checkup, window: Window) -> dict[str, Corrections]:
    pages = chain.from_iterable(
        case.totals.corrected(window.id, bucket, "", ROWS_PER_PAGE)
        for bucket in range(1, LISTING_BUCKETS + 1)
    )
    return {row.key: row.corrections for row in chain.from_iterable(pages)}


def _unlike(case: Checkup, window: Window, listed: dict[str, Corrections]) -> Iterator[str]:
    events, amounts = Counter[str](), Counter[str]()
    for key in listed:
        for each in case.totals.corrections(key, window.id):
            for its in each.keys:
                events[its] += each.n
                amounts[its] += each.amount
    for key in sorted({*listed, *events}):
        totals = case.totals.of_key(key, window.id, window_id(window.end))
        by_key = totals[0].corrections if totals else None
        row = listed.get(key)
        made = events[key], amounts[key]
        if by_key != row or row is None or row[:2] != made:
            yield f"key {key!r}: corrected by {made}; by its sums {by_key}, as listed {row}"
