"""Proof before drop: an archive is whole if its files, its records, its tallies and the totals all
agree.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tallyroll.archive import proof_key, read_items, read_manifests
from tallyroll.errors import ProofMismatch
from tallyroll.items import Gate, parse_item
from tallyroll.ports import Bucket, Tally, Totals, Window
from tallyroll.records import Record
from tallyroll.specs import Spec
from tallyroll.windows import iso

KEYS_PER_READ = 100


@dataclass(slots=True)
class Recount:
    """What an archive holds: per key (events, amount) by its records and by its tallies, and its
    gates.
    """

    records: dict[str, tuple[int, int]] = field(default_factory=dict)
    tallies: dict[str, tuple[int, int]] = field(default_factory=dict)
    gates_shut: int = 0
    gates_open: int = 0
    items: int = 0

    def add(self, found: Record | Tally | Gate) -> None:
        """Count one item."""
        self.items += 1
        if isinstance(found, Gate):
            self.gates_open += found.open
            self.gates_shut += not found.open
            return
        sums = self.records if isinstance(found, Record) else self.tallies
        n, amount = sums.get(found.key, (0, 0))
        sums[found.key] = (n + found.n, amount + found.amount)


def recount(bucket: Bucket, prefix: str) -> Recount:
    """Stream an archive once, checking files against manifests. Raises ProofMismatch."""
    expected, files = read_manifests(bucket, prefix)
    counted = Recount()
    for file in files:
        for item in read_items(bucket, file):
            try:
                counted.add(parse_item(item))
            except ValueError as error:
                raise ProofMismatch([f"{file.key}: {error}"]) from None
    if counted.items != expected:
        raise ProofMismatch([f"{counted.items} items in the files, the summary says {expected}"])
    return counted


def compare(window: Window, spec: Spec, counted: Recount, totals: Totals) -> list[str]:
    """Every difference between an archive and what its sealed window and the totals say; empty if
    there is none.
    """
    findings = []
    if counted.gates_open or counted.gates_shut != spec.gates:
        findings.append(
            f"gates: {counted.gates_shut} shut and {counted.gates_open} open in the archive,"
            f" {spec.gates} shut expected: was it taken before the window was sealed?"
        )
    sealed = (window.keys, window.events, window.amount)
    by_records = (
        len(counted.records),
        sum(n for n, _ in counted.records.values()),
        sum(amount for _, amount in counted.records.values()),
    )
    if by_records != sealed:
        findings.append(f"(keys, events, amount) by records {by_records}, when sealed {sealed}")
    keys = sorted(counted.records.keys() | counted.tallies.keys())
    for first in range(0, len(keys), KEYS_PER_READ):
        some = keys[first : first + KEYS_PER_READ]
        stand = totals.of_window(window.id, some)
        for key in some:
            total = stand.get(key)
            of = {
                "records": counted.records.get(key),
                "tallies": counted.tallies.get(key),
                "total": (total.n, total.amount) if total else None,
            }
            if len(set(of.values())) > 1:
                findings.append(f"key {key!r}: (events, amount) {of}")
    return findings


def prove(window: Window, spec: Spec, bucket: Bucket, totals: Totals, at: int) -> int:
    """Verify the current attempt's archive and write its proof; give its items. Raises
    ProofMismatch.
    """
    assert window.archive
    counted = recount(bucket, window.archive)
    if findings := compare(window, spec, counted, totals):
        raise ProofMismatch(findings)
    proof = {
        "window": window.id,
        "table": window.table,
        "attempt": window.attempt,
        "provenAt": iso(at),
        "items": counted.items,
        "keys": window.keys,
        "events": window.events,
        "amountMillionths": str(window.amount),
    }
    bucket.put(proof_key(window.archive), json.dumps(proof, indent=1).encode())
    return counted.items
