"""Looks up what is stored of messages that no transaction decided: those that met a shut gate,
whose content is to be compared, or that would be rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from tallyroll.errors import Missing, StoreError
from tallyroll.ingest.batch_messages import BatchMessage, Placed
from tallyroll.ingest.fates import Disposition, Fate, beside_stored, handed_back, rejected
from tallyroll.model.ids import IdentityItem
from tallyroll.model.records import Record, RecordName
from tallyroll.model.states import Status
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.reasons import Reason
from tallyroll.settings import Settings


@dataclass(frozen=True, eq=False)
class StoredEvents:
    """Reads windows' states, records and identities, strongly consistently."""

    settings: Settings
    store: Store
    catalog: Catalog
    effects: Effects

    def compared(self, placed: Sequence[Placed]) -> list[Fate]:
        """The fates of messages whose identities are stored with an unknown content."""
        return [
            known if isinstance(known, Fate) else handed_back(f"it was stored, but now {known}")
            for known in self._by_stored_records(placed)
        ]

    def behind_shut_gates(self, placed: Sequence[Placed], deadline: int) -> list[Fate]:
        """The fates of messages that met a shut or missing gate, by their windows' states."""
        if self.effects.now() >= deadline:
            return [handed_back("no time left to look behind the gate")] * len(placed)
        windows = dict.fromkeys(each.spec.window for each in placed)
        states = {window: self.catalog.window(window) for window in windows}
        sealed = {window for window, state in states.items() if state and state.status.sealed}
        stored = iter(
            self._by_stored_records([each for each in placed if each.spec.window in sealed])
        )
        fates = []
        for each in placed:
            window = each.spec.window
            state = states[window]
            what = f"window {window} is {state.status if state else 'not made yet'}"
            if window not in sealed:
                waits = state is None or state.status in (Status.CREATING, Status.OPEN)
                fates.append(handed_back(what, waits=waits))
                continue
            known = next(stored)
            if not isinstance(known, Fate):
                known = rejected(Reason.WINDOW_SEALED, f"{what}: {known}")
            fates.append(known)
        return fates

    def _by_stored_records(self, placed: Sequence[Placed]) -> list[Fate | str]:
        """For each message, its fate as a duplicate or a conflict; or what is known of it, if it
        has no stored record. If a lookup fails, the message is handed back.

        The states are read after the records: a table is certainly the original one, and not one
        that a late roller made again, only if its window is not being dropped.
        """
        logged = self._in_logs(placed)
        jobs = [partial(self._stored, *each) for each in zip(placed, logged, strict=True)]
        answers = self.effects.together(jobs, self.settings.transactions_at_once)
        state_of = cache(self.catalog.window)
        found: list[Fate | str] = []
        for each, answer in zip(placed, answers, strict=True):
            if isinstance(answer, Record):
                found.append(beside_stored(each.record, answer.digest))
                continue
            gone = answer is None or isinstance(answer, Missing)
            state = state_of(each.spec.window) if gone else None
            if state and state.status in (Status.DROPPING, Status.DROPPED):
                found.append("unverified whether it was counted, since the table is dropped")
            elif answer:
                found.append(handed_back(str(answer)))
            else:
                found.append("this record is not in it")
        return found

    def _in_logs(self, placed: Sequence[Placed]) -> list[Record | StoreError | None]:
        """What is stored of each message that has an entry: its record, if that or a log has it; or
        why that cannot be read.
        """
        of_windows: dict[WindowId, list[Placed]] = {}
        for each in placed:
            if each.entry:
                of_windows.setdefault(each.spec.window, []).append(each)
        if not of_windows:
            return [None] * len(placed)
        found = {window: iter(self._logged(some)) for window, some in of_windows.items()}
        return [next(found[each.spec.window]) if each.entry else None for each in placed]

    def _logged(self, placed: Sequence[Placed]) -> list[Record | StoreError | None]:
        """The same of messages of one window, all of which have entries. Slots and records are read
        together.
        """
        from tallyroll.logs.reading import stored_in_logs  # noqa: PLC0415

        spec, at_once = placed[0].spec, self.settings.transactions_at_once
        sought = [(each.record, each.entry) for each in placed if each.entry]
        answers = stored_in_logs(self.store, spec, sought, self.effects, at_once)
        asked = zip(sought, answers, strict=True)
        names = [(record.key, record.id) for (record, _), answer in asked if answer is None]
        found: Mapping[RecordName, Record | StoreError] = {}
        try:
            found = self.store.lookup(spec, names) if names else {}
        except StoreError as error:
            found = dict.fromkeys(names, error)
        named = [(record.key, record.id) for record, _ in sought]
        return [answer or found.get(name) for answer, name in zip(answers, named, strict=True)]

    def _stored(
        self, placed: Placed, logged: Record | StoreError | None
    ) -> Record | StoreError | None:
        """A stored record of the message's identity, or of one of its identities; of one that has
        an entry what is known already.
        """
        if placed.entry:
            return logged
        try:
            for record in placed.record.group:
                if stored := self.store.record(placed.spec, record.key, record.id):
                    return stored
        except StoreError as error:
            return error
        return None

    def beside_identities(self, cases: Sequence[BatchMessage]) -> list[BatchMessage]:
        """The cases; of those that would be rejected, some are duplicates: by their identities
        they count in another window, or in one that is dropped.

        They are read after the states, so that a message that counted before its window closed is
        found. If they cannot be read, the cases are handed back; but if the pipeline has given up
        its table of identities, they stay rejected: nobody would ever answer.
        """
        if not self.settings.has_identities:
            return [_unasked(case) for case in cases]
        asked = [case for case in cases if case.rejection and case.identities]
        names = dict.fromkeys(each.name for case in asked for each in case.identities)
        try:
            stored = self.store.identities([*names])
        except StoreError as error:
            return [
                case.handed_back(str(error)) if case.rejection and case.identities else case
                for case in cases
            ]
        return [_known_by(case, stored) if case.rejection else case for case in cases]


def _unasked(case: BatchMessage) -> BatchMessage:
    """The case; if it is rejected and has identities, it says that nobody can look them up."""
    if not (case.fate and case.rejection and case.identities):
        return case
    detail = (
        f"{case.fate.detail}; whether its id counted in another window is unknown: the pipeline"
    )
    detail += " has given up its table of identities"
    return case._replace(fate=replace(case.fate, detail=detail))


def _known_by(case: BatchMessage, stored: Mapping[str, IdentityItem]) -> BatchMessage:
    """The rejected case, which one of its stored identities may make a duplicate or a conflict."""
    known = [(each, found) for each in case.identities if (found := stored.get(each.name))]
    if any(found.digest == each.digest for each, found in known):
        return case._replace(fate=Fate(Disposition.DUPLICATE))
    if not known:
        return case
    detail = f"its id is taken by another content, in window {known[0][1].window}"
    return case.rejected(Reason.ID_CONFLICT, detail)
