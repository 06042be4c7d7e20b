"""The doctor's checks of totals against tallies, and of archives against what their proofs say."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tallyroll.archive.inventory import Archive, ArchiveReading, detailed
from tallyroll.archive.layout import find_summary, parse_prefix
from tallyroll.archive.proof import check_place, check_stands
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.model.sharding import stable_hash
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.operations.doctor.checkup import Case, Level, Sign, fine
from tallyroll.ports.bucket import Bucket

SAMPLED_WINDOWS = 5
SAMPLED_KEYS = 100  # one read each of tallies and of totals
KEYS_HELD = 250_000  # sums in memory at once: some 60 MB
KEYS_PER_READ = 100
SIGNS_PER_WINDOW = 10
READS_AT_ONCE = 16
_SEALED = (Status.SEALED, Status.EXPORTING, Status.PROVEN)
_PROVEN = (Status.PROVEN, Status.DROPPING, Status.DROPPED)
_KEEP = (
    "Leave table, totals and archive as they are, and find out who else wrote to them"
    " (docs/operations.md, proof-mismatch)."
)
_RESTORE = (
    "The bucket keeps what was overwritten or deleted for 90 days: restore the version that was"
    " proven (`aws s3api list-object-versions`)."
)


def totals(case: Case) -> Iterator[Sign]:
    """Totals of sealed windows equal their tallies, as long as their tables live: of all keys if
    `deep`, else of some keys of the newest windows.
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
            continue  # dropped meanwhile; or gone, which another check says
        keys += signs.keys
        if found and _lives_on(case, window):
            yield from found
    what = "all" if case.deep else "a sample"
    yield fine(f"{keys:,} keys of {len(chosen):,} sealed windows ({what}) as by their tallies")


def _lives_on(case: Case, window: Window) -> bool:
    """Whether a window has still its table, by its state: while one is deleted, items go."""
    now = case.catalog.window(window.id)
    return now is not None and now.status in _SEALED


class _Sealed:
    """The comparison of one sealed window."""

    def __init__(self, case: Case, window: Window, spec: Spec) -> None:
        self._case = case
        self._window = window
        self._spec = spec
        self.keys = 0

    def some_keys(self) -> Iterator[Sign]:
        """Compare some keys of one bucket, drawn at random."""
        number = int(self._case.effects.chance.random() * self._spec.buckets) + 1
        listed = self._case.store.bucket(self._spec, number)
        keys = list(dict.fromkeys(tally.key for tally in listed))[:SAMPLED_KEYS]
        tallies = self._case.store.tallies(self._spec, keys)
        sums = {key: (tally.n, tally.amount) for key, tally in tallies.items()}
        yield from self._compared(sums)

    def all_keys(self) -> Iterator[Sign]:
        """Compare all keys, in as many passes over the buckets as keep memory bounded."""
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
            for stripe in self._case.store.bucket(self._spec, number):
                if passes == 1 or stable_hash(stripe.key) % passes == part:
                    n, amount = sums.get(stripe.key, (0, 0))
                    sums[stripe.key] = (n + stripe.n, amount + stripe.amount)
        return sums

    def _compared(self, sums: dict[str, tuple[int, int]]) -> Iterator[Sign]:
        keys = list(sums)
        self.keys += len(keys)
        window = self._window.id
        for first in range(0, len(keys), KEYS_PER_READ):
            some = keys[first : first + KEYS_PER_READ]
            stand = self._case.totals.of_window(window, some)
            for key in some:
                total = stand.get(key)
                if total is None or (total.n, total.amount) != sums[key]:
                    by_total = (total.n, total.amount) if total else "none"
                    text = f"{window}: key {key!r}: (events, amount) by tallies {sums[key]}"
                    yield Sign(Level.FINDING, f"{text}, its total {by_total}", _KEEP, window)


def archives(case: Case) -> Iterator[Sign]:
    """Every window that is proven, or was dropped, has its archive and proof as they were then; if
    `deep`, every archive is read to its end and verified.
    """
    proven = [window for window in case.windows.values() if window.status in _PROVEN]
    if proven and case.bucket is None:
        text = f"archives of {len(proven):,} windows could not be looked at: no bucket is known"
        yield Sign(Level.UNCHECKED, text, "Give --bucket, or set TALLYROLL_BUCKET.")
        return
    bucket = case.bucket
    if bucket:
        jobs = [partial(_standing, case, window) for window in proven]
        for signs in case.effects.together(jobs, READS_AT_ONCE):
            yield from signs
        if case.deep:
            for window in proven:
                yield from _verified(case, bucket, window)
    what = "are whole by checksums and recount" if case.deep else "and proofs stand"
    yield fine(f"{len(proven):,} archives {what}")


def _standing(case: Case, window: Window) -> list[Sign]:
    assert case.bucket
    try:
        check_place(window, case.settings.name)
        check_stands(window, case.bucket)
    except ProofMismatch as mismatch:
        text = "; ".join(mismatch.findings)
        unproven = text.startswith("not proven")
        if window.status is Status.DROPPED and unproven:
            text = f"DROPPED WITHOUT A PROOF: {text}"
        return [Sign(Level.FINDING, f"{window.id}: {text}", _RESTORE, window.id)]
    return []


def _verified(case: Case, bucket: Bucket, window: Window) -> Iterator[Sign]:
    prefix = window.archive or ""
    place = parse_prefix(prefix)
    if place is None:  # which was said above
        return
    summary = find_summary(prefix, bucket.list(f"{prefix}/AWSDynamoDB/"))
    archive = detailed(bucket, Archive(prefix, place, 0, summary))
    findings = ArchiveReading(bucket, archive, case.totals).verified().findings
    for finding in findings.first[:SIGNS_PER_WINDOW]:
        yield Sign(Level.FINDING, f"{window.id}: {finding}", _RESTORE, window.id)
