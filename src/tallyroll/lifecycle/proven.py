"""What cleanup and the dropper both check before a proven window's table may go.

The proof and the archive's files must be in the bucket, as the state says. Then cleanup tags the
table, and only a table with that tag may be deleted. The reading path of docs/architecture.md ends
here.
"""

from __future__ import annotations

from dataclasses import replace

from tallyroll.archive.proof import check_place, check_proof
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.lifecycle.state_machine import WindowFacts
from tallyroll.model.states import Window
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.store import Store
from tallyroll.ports.table_listing import TableStatus
from tallyroll.resources import TAG_PROVEN
from tallyroll.settings import Settings


def confirm(window: Window, settings: Settings, bucket: ArchiveBucket, catalog: Catalog) -> None:
    """Check the archive's proof and files themselves, not only the state.

    Raises ProofMismatch, which it also notes in the window's state.
    """
    try:
        check_place(window, settings.name)
        check_proof(window, bucket)
    except ProofMismatch as mismatch:
        if window.attempt.problem != str(mismatch):
            attempt = replace(window.attempt, problem=str(mismatch))
            catalog.advance(replace(window, attempt=attempt))
        raise


def facts_of_drop(window: Window, store: Store) -> WindowFacts:
    """What next_step must know of a window that is being dropped."""
    table = store.describe_table(window.table)
    if table is None or table.status is not TableStatus.ACTIVE:
        return WindowFacts(table=table.status if table else None)
    try:
        tags = store.tags(window.table)
    except Missing:
        return WindowFacts()
    untagged = tags is not None and tags.get(TAG_PROVEN) != window.attempt.id
    return WindowFacts(table=table.status, untagged=untagged)
