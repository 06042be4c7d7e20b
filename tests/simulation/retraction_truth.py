"""The simulation's truth as it concerns a message that retracts: what it means, where that is, and
whether it is retracted. In the model the message is number 0, the event that it means number 1, and
any other that has the name, of another window, number 2. All keys of the event are one name: that
they are retracted together is looked at where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallyroll.adapters.dynamodb.items import tombstone_key
from tallyroll.errors import Missing, Rejected
from tallyroll.model.retractions import Authorization, RetractionTarget, parse_retraction
from tallyroll.model.retractions import retraction_in as found_in
from tallyroll.model.windows import window_start
from tallyroll.reasons import Reason
from tests.model import state
from tests.model.state import NOWHERE
from tests.model.world import WINDOW
from tests.simulation.abstraction import FOREIGN, MEANT, NONE, Kind, Subject, View
from tests.simulation.holdings import Identity, archive_items
from tests.simulation.model_steps import ANY as ANY_OF_EVENT
from tests.simulation.truth import window_name

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

ANY = ANY_OF_EVENT._replace(kind=Kind(1, (0, 0, 0), late=False, retracts=True))
"""For actions that look at nothing but the writer or operator."""


@dataclass(eq=False, slots=True, kw_only=True)
class Retracting(Subject):
    """A message that retracts the event of this id (and index, in a packet), which happened in the
    `span` [since, until) (ms) and has these `keys`, as far as they are known, ascending.

    `item` is what its writer read of the operator's word, `claimed_at` (ms) when the claim was put
    that it read. `refused`: no operator has said a word.
    """

    id: str
    index: int | None
    key: str
    keys: list[str]
    span: tuple[int, int]
    ts: int | None = None
    item: Authorization | None = None
    claimed_at: int = 0
    refused: bool = False

    @property
    def target(self) -> RetractionTarget:
        """What an operator may have authorized."""
        return self.windows[0], self.key, self.id, self.index

    @property
    def identities(self) -> list[Identity]:
        """Those of the event, by which it may be claimed."""
        return [(self.windows[0], key, self.id) for key in self.keys]

    @property
    def is_proven(self) -> bool:
        """Whether its writer has read that the event was proven, since it was claimed."""
        return bool(self.item and self.item.proven and self.item.at >= self.claimed_at)

    def means(self, ts: int) -> bool:
        """Whether an event of this time (ms) is meant, if it has the name."""
        return self.span[0] <= ts < self.span[1]

    def told(self, item: Authorization | None) -> None:
        """Take the operator's word, whose keys are those that count."""
        self.item = item
        if item:
            self.keys = sorted({self.key, *item.keys})


class RetractionTruth:
    """Looks at the truth, and changes nothing."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._oracle = system.oracle
        self._truth = system.truth

    def retracting(self, name: str, message_id: str, body: str) -> Retracting | None:
        """A message that is a retraction, of which nothing is known yet."""
        given = found_in(body)
        try:
            asked = None if given is None else parse_retraction(given)
        except Rejected:
            return None
        if asked is None:
            return None
        since, until = self._span(asked.window, asked.ts)
        home = asked.window or window_name(since)
        return Retracting(
            *(name, self._oracle.sent[message_id], [home, ""], True, self._system.world.now),
            id=asked.id,
            index=asked.index,
            key=asked.key,
            keys=[*asked.keys],
            span=(since, until),
            ts=None if asked.window else asked.ts,
        )

    def meant_by(self, target: RetractionTarget, keys: Sequence[str]) -> Retracting:
        """The same of what an operator authorizes."""
        window, key, record_id, index = target
        sent = next(iter(self._oracle.sent.values()))
        return Retracting(
            *("an operator's item", sent, [window, ""], True, self._system.world.now),
            id=record_id,
            index=index,
            key=key,
            keys=sorted({key, *keys}),
            span=self._span(window, None),
        )

    def settle(self, subject: Retracting) -> None:
        """Let a retraction by time mean the window of its time, as the calendar is now: it may have
        been delivered before there was any.
        """
        if subject.ts is not None:
            subject.span = self._span(None, subject.ts)
            subject.windows[0] = window_name(subject.span[0])

    def _span(self, window: str | None, ts: int | None) -> tuple[int, int]:
        at = window_start(window) if window else ts
        assert at is not None
        since, until = self._oracle.spans.at(at)
        return (since, until) if window in (None, window_name(since)) else (at, until)

    def view(self, subject: Retracting) -> View:
        """The truth as it concerns a retraction."""
        self.settle(subject)
        claim = self.claim(subject)
        windows = tuple([self._window(subject, name) for name in subject.windows])
        return View(
            ANY.kind._replace(rules=(WINDOW,) * len(windows)),
            windows,
            (),
            (claim, NOWHERE),
            self._proof(subject, windows),
        )

    def view_of_archives(self, subject: Retracting, window: str) -> View:
        """The same, with what the proven archive of a window holds of the event."""
        place, state_of = subject.number(window), self._truth.state_of(window)
        view = self.view(subject)
        if state_of is None or self._truth.status(window, state_of) < state.PROVEN:
            return view
        names = {f"r#{subject.id}", f"p#{subject.id}#{subject.index}"}
        items = archive_items(self._system.bucket, state_of)
        retracted = any(
            item["sk"]["S"] in names and item["pk"]["S"].rpartition(".")[0] in subject.keys
            for item in items
        )
        changed = [*view.windows]
        records, _ = changed[place].archive
        changed[place] = changed[place]._replace(archive=(records, (int(retracted),)))
        return view._replace(windows=tuple(changed))

    def claim(self, subject: Retracting) -> int:
        """The model's number of the window for which the event is claimed: by its first key."""
        claims = self._system.catalog._claims
        found = next((claims[each] for each in subject.identities if each in claims), None)
        return subject.number(found.target) if found else NOWHERE

    def group(self, subject: Retracting, window: str) -> tuple[str, ...]:
        """All keys of the event that has the name in a window; none if there is none."""
        for key in subject.keys:
            if contents := self._oracle.book.contents_of((window, key, subject.id)):
                keys = contents[0][0]
                return (keys,) if isinstance(keys, str) else tuple(keys)
        return ()

    def hopeless(self, subject: Retracting) -> Reason | None:
        """Why what has the name cannot be retracted, wherever it is."""
        for window in filter(None, subject.windows):
            for key in subject.keys:
                identity = (window, key, subject.id)
                contents = self._oracle.book.contents_of(identity)
                if contents and subject.means(self._oracle.book.time_of(identity)):
                    return self._refusal(subject, window, contents[0])
        return None

    def _refusal(self, subject: Retracting, window: str, content: Any) -> Reason | None:
        *_, times = content
        if {*subject.keys} - {*self.group(subject, window)}:
            return Reason.BAD_RETRACTION
        if subject.index is None:
            return Reason.BAD_RETRACTION if times else None
        return None if subject.index < len(times) else Reason.NOTHING_TO_RETRACT

    def status(self, name: str, found: Any) -> int:
        """The model's number of a state. What was never made, or is not yet, is waited for."""
        return state.OPEN if found is None else self._truth.status(name, found)

    def _proof(self, subject: Retracting, windows: Sequence[state.Window]) -> int:
        """Of an event that is in one window at most, a proof is of that window."""
        item = self._system.catalog._authorized.get(subject.target)
        if not any(each and each.proven for each in (item, subject.item)):
            return 0
        proven = (n for n, window in enumerate(windows) if window.records[0] == 1 + MEANT)
        return 1 + next(proven, -1)

    def _window(self, subject: Retracting, name: str) -> state.Window:
        if not name:
            return NONE
        stored = [*self._stored(subject, name)]
        record = 0
        if stored:
            is_meant = subject.means(self._oracle.book.time_of(stored[0]))
            record = 1 + (MEANT if is_meant else FOREIGN)
        status = self.status(name, self._truth.state_of(name))
        table, gates = self._truth.table(name, stored)
        tomb = record and any(self._has_tombstone(subject, each) for each in stored)
        entry = record and self._is_corrected(subject, name)
        made = state.Window(status, table, gates, (record,), (int(tomb),), (int(entry),))
        if status < state.PROVEN:
            return made
        return made._replace(archive=((record,), made.tombs), proven=True)

    def _stored(self, subject: Retracting, window: str) -> Iterator[Identity]:
        for key in subject.keys:
            identity = (window, key, subject.id)
            if identity in self._oracle.stored:
                yield identity

    def _has_tombstone(self, subject: Retracting, identity: Identity) -> bool:
        window, key, record_id = identity
        spec = self._truth.spec(window)
        shard = self._oracle.stored[identity]
        place = tombstone_key(key, shard, record_id, subject.index)
        try:
            items = self._system.store.items(spec.table) if spec else {}
        except Missing:
            return False
        return (place["pk"]["S"], place["sk"]["S"]) in items

    def _is_corrected(self, subject: Retracting, window: str) -> bool:
        corrections = self._system.totals._corrections
        keys = {*subject.keys, *self.group(subject, window)}
        return any((key, window, subject.id, subject.index) in corrections for key in keys)
