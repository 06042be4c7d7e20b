"""The doctor's check of the sums of corrections against the corrections themselves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tallyroll.archive.corrections import listed_corrections, revised, sums_unlike_corrections
from tallyroll.operations.doctor.archive_checks import SIGNS_PER_WINDOW
from tallyroll.operations.doctor.checkup import Checkup, Sign, finding_of, fine, restoring

CORRECTED_WINDOWS = 5
CORRECTED_KEYS = 500  # of a window, unless `deep`; two queries each
_REMEDY = (
    "Find out who else wrote to the totals, and put them back as they were: {restoring}. The"
    " corrections stand under `~r#{name}#`; the sums under `{name}#r`, and in `~c.{name}.*`, which"
    " `tallyroll windows recompute` makes those of the corrections."
)


def corrections(case: Checkup) -> Iterator[Sign]:
    """The sums of corrections, by key and listed, are those of the corrections.

    Checks the newest sealed windows, or all if `deep`.
    """
    sealed = [window for window in case.windows.values() if window.status.sealed]
    looked = 0
    for window in sealed if case.deep else sealed[-CORRECTED_WINDOWS:]:
        month = revised(window.id)
        revision = case.totals.revision(month)
        if not revision:
            continue
        listed = listed_corrections(case.totals, window.id)
        if len(listed) > CORRECTED_KEYS and not case.deep:
            continue
        looked += 1
        unlike = sums_unlike_corrections(case.totals, window.id, listed)
        texts = list(islice(unlike, SIGNS_PER_WINDOW))
        if texts and case.totals.revision(month) == revision:  # else they may have grown meanwhile
            remedy = _REMEDY.format(name=window.id, restoring=restoring(case.resources.totals.name))
            yield from (finding_of(window.id, text, remedy) for text in texts)
    which = "all" if case.deep else "the newest"
    yield fine(f"sealed windows ({which}) with the sums of their corrections: {looked:,}")
