"""What writers do with the retractions of their batches, as actions of the model: where they look
for an event, and what they read of it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from tallyroll.errors import Missing, StoreError
from tallyroll.limits import SPEC_ABSENT_CACHED_MS
from tallyroll.settings.common import RETRACTION_OFF, RETRACTION_OPERATOR, RETRACTION_QUEUE
from tests.model import retraction as r
from tests.model import state
from tests.model.state import NOWHERE, Writer
from tests.model.writer import ACK, PLACE
from tests.simulation.abstraction import OWN, At, Subject, View, delivered, moves
from tests.simulation.model_steps import Judge, Learn, Perform, all_of, at_steps, there
from tests.simulation.retraction_truth import ANY, Retracting, RetractionTruth
from tests.simulation.writer_steps import REMEMBERED, WriterSteps

if TYPE_CHECKING:
    from tests.simulation.pipeline import System


class RetractionReads(WriterSteps):
    """What the writer of one sandbox reads, also for retractions."""

    mapped: ClassVar[Sequence[str]] = (*WriterSteps.mapped, "authorizations", "tombstones")

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._retracted = RetractionTruth(system)
        self._asking: list[Retracting] = []
        self._by_whom = RETRACTION_OFF
        self._is_needed = False
        self._cached: Any = None
        self._calendar: Any = None

    def begin(self, writer: Any) -> None:
        super().begin(writer)
        self._by_whom = writer.settings.retraction
        self._cached = writer._placer.cached

    @property
    def _by_operators(self) -> bool:
        return self._by_whom == RETRACTION_OPERATOR

    def _write(self, write: Perform, messages: Sequence[Any], time_left_ms: int) -> Any:
        self._asking = []
        self._calendar = self._cached._calendar
        return super()._write(write, messages, time_left_ms)

    def _deliver(self, message: Any) -> None:
        name = f"message {message.id}, received {message.receives} times"
        subject = self._retracted.retracting(name, message.id, message.body)
        if subject is None:
            super()._deliver(message)
            return
        for other in self._asking:
            if other.id == subject.id:
                other.twin = subject.twin = True
        self._by_receipt[message.receipt] = subject
        self._asking.append(subject)
        if self._by_whom == RETRACTION_QUEUE:
            subject.at.append(delivered(ANY, NOWHERE))
        subject.path.append(("deliver", OWN, NOWHERE, ""))
        self._hit("deliver")
        if message.id in self._remembered:
            subject.at.append(REMEMBERED)

    def _in(self, window: str) -> list[tuple[Retracting, int]]:
        """The retractions that a window concerns, with the model's number of it."""
        asking = [each for each in self._asking if window in each.windows]
        return [(each, each.windows.index(window)) for each in asking]

    def _take(
        self,
        subject: Retracting,
        action: tuple[str, int, str],
        at: Sequence[At],
        *,
        stays: bool = False,
    ) -> Learn:
        call, place, answer = action
        whole = call, OWN, place, answer
        return self._step(subject, self._retracted.view(subject), whole, at, stays=stays)

    def _view(self, subject: Subject) -> View:
        if isinstance(subject, Retracting):
            return self._retracted.view(subject)
        return super()._view(subject)

    def _or(self, judge: Judge, found: Any, learns: Sequence[Learn], *, needed: bool) -> Learn:
        """What messages of events learn from a call, too; one of the two must need it."""
        self._is_needed = needed
        try:
            learn = judge(found)
        finally:
            self._is_needed = False
        return all_of([*learns, *([learn] if learn else [])])

    def _needless(self, what: str, subjects: Sequence[Subject]) -> None:
        if not self._is_needed and not (self._asking and self._has_old_calendar()):
            asking = [each for each in self._asking if each not in subjects]
            super()._needless(what, [*subjects, *asking])

    def _has_old_calendar(self) -> bool:
        """Whether its writer had a calendar, or has, that leads to windows that are none."""
        stands = self._system.catalog.calendar()
        known = [each.grid for each in (self._calendar, self._cached._calendar) if each]
        return stands is not None and any(grid != stands.grid for grid in known)

    # --- where to look

    def _authorizations(self, targets: Sequence[Any]) -> Judge:
        asked = dict.fromkeys(targets)

        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError):
                return None
            of = [each for each in self._settled() if each.target in asked]
            learns: list[Learn] = [partial(self._told, each, found.get(each.target)) for each in of]
            if not self._by_operators:
                learns += [learn for each in of for learn in self._item_read(each)]
            if not learns:
                self._needless(f"authorizations of {targets}", self._asking)
            return all_of(learns)

        return judge

    def _settled(self) -> list[Retracting]:
        """The retractions of the batch, of the windows that the calendar has now."""
        for each in self._asking:
            self._retracted.settle(each)
        return self._asking

    def _told(self, subject: Retracting, item: Any) -> None:
        subject.told(item)
        if self._by_operators and all(each == REMEMBERED for each in subject.at):
            subject.refused = item is None
            subject.at += [] if item is None else [delivered(ANY, NOWHERE)]

    def _item_read(self, subject: Retracting) -> list[Learn]:
        """The item is read once the window is dropped."""
        found, learns = self._system.catalog._authorized.get(subject.target), []
        for at in at_steps(subject, r.ITEM):
            proven = found and found.proven and found.at >= subject.claimed_at
            answer = "proven in the archive" if proven else "not proven"
            learns.append(self._take(subject, ("read item", at.place, answer), [at]))
        return learns

    def _claims(self, identities: Sequence[Any]) -> Judge:
        asked = dict.fromkeys(identities)
        of_events = super()._claims(identities)

        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError):
                return None
            learns: list[Learn] = []
            # It may be the claim of a redriven event of the batch that is read.
            stays = any(at_steps(each, PLACE) for each in self._batch)
            for subject in self._settled():
                own = [each for each in subject.identities if each in asked]
                if own:
                    self._item_known(subject)
                    stored = next((found[each] for each in own if each in found), None)
                    learns += self._placed(subject, stored, stays=stays)
            needed = bool(learns) or not identities
            return self._or(of_events, found, learns, needed=needed)

        return judge

    def _may_be_anothers(self, identities: Container[Any]) -> bool:
        """A retraction of the batch may ask for the claim of a redriven event that comes later."""
        return any(
            at_steps(each, r.IDENTITY, r.CLAIM, r.CLAIM_AGAIN)
            for each in self._asking
            if any(one in identities for one in each.identities)
        )

    def _placed(self, subject: Retracting, claim: Any, *, stays: bool) -> list[Learn]:
        place = subject.number(claim.target) if claim else NOWHERE
        learns: list[Learn] = []
        if first := at_steps(subject, r.IDENTITY, r.CLAIM):
            learns.append(self._take(subject, ("read claim", place, ""), first, stays=stays))
            learns.append(partial(setattr, subject, "claimed_at", claim.at if claim else 0))
        if again := at_steps(subject, r.CLAIM_AGAIN):
            learns.append(self._take(subject, ("read claim", place, "again"), again))
        return learns

    def _item_known(self, subject: Retracting) -> None:
        """Where only operators may retract, their word was read before all else."""
        if not self._by_operators or not (at := at_steps(subject, r.ITEM)):
            return
        answer = "proven in the archive" if subject.is_proven else "not proven"
        view = self._retracted.view(subject)
        for each in at:
            wanted = "read item", OWN, each.place, answer
            found = there(after for action, after in moves(view, each) if action == wanted)
            subject.at += [after for after in found if after not in subject.at]

    # --- what is there

    def _window(self, name: str) -> Judge:
        of_events = super()._window(name)

        def judge(found: Any) -> Learn | None:
            status = self._retracted.status(name, found)
            concerned = []
            for subject, place in self._in(name):
                self._unmade(subject, place)
                steps = at_steps(subject, r.RECORD, r.STATE, r.AGAIN)
                if at := [each for each in steps if each.place == place]:
                    concerned.append((subject, place, at))
            stays = len(concerned) > 1  # whose state it is that is read is not known
            learns = [
                self._take(
                    subject, ("read state", place, _state_told(status, each)), [each], stays=stays
                )
                for subject, place, at in concerned
                for each in at
            ]
            return self._or(of_events, found, learns, needed=bool(learns))

        return judge

    def _unmade(self, subject: Retracting, place: int) -> None:
        """Of a window without a spec no record is read. That it has none may be remembered."""
        window = subject.windows[place]
        since = subject.began - SPEC_ABSENT_CACHED_MS
        if self._truth.spec(window) and not self._truth.is_ruled_since(window, since):
            return
        view = self._retracted.view(subject)
        for each in [each for each in at_steps(subject, r.RECORD) if each.place == place]:
            found = there(
                after
                for (call, *_, answer), after in moves(view, each)
                if call == "read record" and answer != "found"
            )
            subject.at += [after for after in found if after not in subject.at]

    def _lookup(self, spec: Any, names: Sequence[tuple[str, str]]) -> Judge:
        asked = dict.fromkeys(names)
        of_events = super()._lookup(spec, names)

        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError) and not isinstance(found, Missing):
                return None
            learns: list[Learn] = []
            needed = False
            for subject, place in self._in(spec.window):
                needed |= self._reads_more(subject, place, asked)
                steps = at_steps(subject, r.RECORD, r.SEALED_RECORD)
                at = [each for each in steps if each.place == place]
                # It looks under the least key that it knows.
                name = subject.keys[0], subject.id
                if at and name in asked:
                    answer = _answer(found, name, subject)
                    learns.append(self._take(subject, ("read record", place, answer), at))
            return self._or(of_events, found, learns, needed=needed or bool(learns))

        return judge

    def _reads_more(self, subject: Retracting, place: int, asked: Any) -> bool:
        """Whether a writer that found the event may read the records under its other keys; or one
        that found its tombstone the record, since it asks for those of all events of a window.
        """
        if at_steps(subject, ACK) and (subject.keys[0], subject.id) in asked:
            return True
        found = [each for each in at_steps(subject, r.PUT, r.CORRECT) if each.place == place]
        return bool(found) and all(name[1] == subject.id for name in asked)

    def _record(self, spec: Any, key: str, record_id: str) -> Judge:
        of_events = super()._record(spec, key, record_id)

        def judge(found: Any) -> Learn | None:
            name = {(key, record_id): None}
            needed = any(self._reads_more(*each, name) for each in self._in(spec.window))
            return self._or(of_events, found, (), needed=needed)

        return judge

    def _tombstones(self, spec: Any, names: Sequence[Any]) -> Judge:
        asked = dict.fromkeys(names)

        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError) and not isinstance(found, Missing):
                return None
            learns: list[Learn] = []
            for subject, place in self._in(spec.window):
                at = [each for each in at_steps(subject, r.TOMBSTONE) if each.place == place]
                name = subject.keys[0], subject.id, subject.index
                if at and name in asked:
                    answer = _answer(found, name, subject)
                    learns.append(self._take(subject, ("read tombstone", place, answer), at))
            if not learns:
                self._needless(f"tombstones of {spec.window}: {names}", self._asking)
            return all_of(learns)

        return judge


def _answer(found: Any, name: Any, subject: Retracting) -> str:
    """The model's answer to a read of records or tombstones."""
    if isinstance(found, Missing):
        return "no table"
    stored = found.get(name)
    return "found" if stored is not None and subject.means(stored.ts) else "absent"


def _state_told(status: int, at: At) -> str:
    """The model's answer to a read of the state; whether a retraction whose event is absent has
    waited long enough is seen by what follows.
    """
    absent = at.step == r.STATE and isinstance(at, Writer) and not at.saw
    waited = ", waited long enough" if absent and status < state.SEALED else ""
    return state.STATUS_NAMES[status] + waited
