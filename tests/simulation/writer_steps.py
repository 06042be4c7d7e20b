"""What writers do with the messages of their batches, as actions of the model."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from tallyroll.errors import Missing, StoreError
from tallyroll.limits import SPEC_ABSENT_CACHED_MS
from tallyroll.model.states import Status
from tallyroll.model.windows import window_start
from tallyroll.ports.store import Verdict
from tallyroll.reasons import Reason
from tests.model import state
from tests.model.state import NOWHERE, Writer
from tests.model.writer import ACK, AFTER, COMMIT, IDENTITY, PLACE, RECORD, REJECT, STATE
from tests.simulation.abstraction import GATES, OWN, Subject, View, delivered, moves
from tests.simulation.model_calls import DONE, answer_of
from tests.simulation.model_steps import ANY, Judge, Learn, Perform, Steps, all_of, at_steps, there

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

ANY_LATE = ANY._replace(kind=ANY.kind._replace(late=True))
REASONS = {
    Reason.WINDOW_SEALED: state.WINDOW_SEALED,
    Reason.ID_CONFLICT: state.ID_CONFLICT,
    Reason.NOT_CLAIMED: state.NOT_CLAIMED,
    Reason.EXPIRING: state.EXPIRING,
    Reason.TOO_LATE: state.TOO_LATE,
    Reason.NOT_OPEN_WHEN_SENT: state.TOO_LATE,
}
"""The model's reasons. The others are those of messages that no window takes whenever they are
sent, that cannot be read, or that kill writers. The model has no such messages: the oracle judges
their reasons.
"""
NEVER_TAKEN = (
    *(Reason.TOO_LATE, Reason.NOT_OPEN_WHEN_SENT),
    *(Reason.TOO_FAR_AHEAD, Reason.TS_REQUIRED, Reason.PACKET_MIXED_WINDOWS),
)
"""Reasons by which a window never takes a message: only its identities are read."""
REMEMBERED = Writer(OWN, NOWHERE, 0, 0, ACK)
"""A sandbox that counted a message remembers it: that writer acknowledges it at last."""


class WriterSteps(Steps):
    """What the writer of one sandbox does."""

    mapped: ClassVar[Sequence[str]] = (
        *("claims", "lookup", "commit", "window", "record", "identities"),
        *("reject", "acknowledge"),
    )

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._batch: list[Subject] = []
        self._by_id: dict[str, list[Subject]] = {}
        self._by_receipt: dict[str, Subject] = {}
        self._sent: dict[Any, list[Subject]] = {}
        self._remembered: dict[str, None] = {}

    def begin(self, writer: Any) -> None:
        """Look at the batches of a writer that has these ports."""
        writer.write = partial(self._write, writer.write)

    def _write(self, write: Perform, messages: Sequence[Any], time_left_ms: int) -> Any:
        """What is not to come again when a batch has ended is acknowledged."""
        self._batch, self._by_id = [], {}
        for message in messages:
            self._deliver(message)
        for subjects in self._by_id.values():
            for subject in subjects:
                subject.twin = len(subjects) > 1
        report = write(messages, time_left_ms)
        back = dict.fromkeys(report.failures)
        for message in messages:
            if message.id in back:
                self._hit("hand back")
            else:
                self._acknowledged(message.receipt)
        return report

    def _deliver(self, message: Any) -> None:
        sent = self._system.oracle.sent[message.id]
        name = f"message {message.id}, received {message.receives} times"
        subject = self._truth.subject(name, sent, redriven=bool(sent.target))
        self._by_receipt[message.receipt] = subject
        self._batch.append(subject)
        if not sent.bad:
            target = subject.number(sent.target) if sent.target else NOWHERE
            subject.at.append(delivered(ANY, target))
            subject.path.append(("deliver", OWN, target, ""))
            self._leave_unread(subject)
            self._by_id.setdefault(sent.id, []).append(subject)
            self._hit("deliver")
        if message.id in self._remembered:
            subject.at.append(REMEMBERED)

    def _acknowledged(self, receipt: str) -> None:
        subject = self._by_receipt[receipt]
        if subject.acknowledged:
            return
        subject.acknowledged = True
        self._step(subject, ANY, ("ack", OWN, NOWHERE, ""), at_steps(subject, ACK))
        if not subject.rejected:
            self._remembered[subject.sent.message_id] = None

    def _acknowledge(self, receipts: Sequence[str]) -> Judge:
        for receipt in receipts:
            self._acknowledged(receipt)
        return lambda _: None

    def _place(self, subject: Subject) -> int:
        return subject.number(subject.sent.target) if subject.sent.target else 0

    def _window_of(self, subject: Subject) -> str:
        return subject.sent.target or self._system.oracle.window_of(subject.sent.time)

    def _named(self, window: str, key: str, record_id: str) -> list[Subject]:
        """The messages of the batch, but for those that ended, whose record has this name."""
        return [
            each
            for each in self._by_id.get(record_id, ())
            if self._window_of(each) == window and key in self._truth.keys(each)
            if not each.acknowledged
        ]

    # --- claims

    def _claims(self, identities: Sequence[Any]) -> Judge:
        asked = dict.fromkeys(identities)

        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError):
                return None
            learns = []
            for subject in self._batch:
                at = at_steps(subject, PLACE)
                if not at or not all(each in asked for each in self._truth.claimed(subject)):
                    continue
                view = self._truth.view(subject, late=self._is_never_taken(subject))
                action = ("read claim", OWN, self._truth.claim(subject, found), "")
                stays = self._may_be_anothers(asked)
                learns.append(self._step(subject, view, action, at, stays=stays))
            if not learns:
                self._needless(f"the claims of {identities}", self._batch)
            return all_of(learns)

        return judge

    def _may_be_anothers(self, _identities: Container[Any]) -> bool:
        """Whether another message may have asked for these claims."""
        return False

    def _is_never_taken(self, subject: Subject) -> bool:
        deserved, catalog = self._system.oracle.deserved, self._system.catalog
        return any(deserved(subject.sent, reason, catalog) for reason in NEVER_TAKEN)

    # --- the transaction

    def asked(self, verb: str, args: Sequence[Any]) -> None:
        """Keep the messages of a transaction: it may be carried out when their batch is over. A
        letter may be put when the window that its message came too late for was opened.
        """
        if verb == "reject":
            for rejection in args[0]:
                self._decided_to_reject(self._by_receipt[rejection.message.receipt], rejection)
        if verb != "commit":
            return
        spec, records, _ = args
        for record in records:
            self._sent[_name(spec.window, record)] = self._of_record(spec.window, record)

    def _of_record(self, window: str, record: Any) -> list[Subject]:
        """The messages of the batch that have this very record; equal ones have one fate."""
        content = record.ts, record.n, record.amount
        found = [
            each
            for each in self._named(window, record.key, record.id)
            if (each.sent.time, each.sent.n, each.sent.amount) == content
        ]
        if not found:
            self._world.fail(f"model: no message of the batch has {record} in {window}")
        return [each for each in found if not each.rejected] or found

    def _commit(self, spec: Any, records: Sequence[Any], _: Any) -> Judge:
        late = self._world.current.group.name == "late"
        concerned: dict[Subject, list[int]] = {}
        for index, record in enumerate(records):
            for subject in self._sent[_name(spec.window, record)]:
                concerned.setdefault(subject, []).append(index)
        before = {subject: self._truth.view(subject) for subject in concerned}

        def judge(outcome: Any) -> Learn | None:
            learns = []
            missing = outcome.verdict is Verdict.GATE_MISSING and self._may_miss(spec, records)
            gates = state.NO_GATE if missing else None
            for subject, indices in concerned.items():
                view = self._truth.view(subject, gates=gates) if missing else before[subject]
                if answer := answer_of(outcome, records, indices):
                    learns.append(self._decided(subject, view, answer, late=late))
            return all_of([*learns, self._settle([*concerned], gates=gates)])

        return judge

    def _decided(self, subject: Subject, view: View, answer: str, *, late: bool) -> Learn:
        """A message whose record's transaction is answered, or carried out without an answer."""
        place, at = self._place(subject), at_steps(subject, COMMIT)
        if late:  # as by a writer that slept before it sent the transaction
            at = [Writer(OWN, place if subject.sent.target else NOWHERE, 0, place, COMMIT)]
        action = ("commit", OWN, place, answer)
        learn = self._step(subject, view, action, at)
        if answer == DONE:
            subject.path[-1] = (*action[:3], "committed, no answer")

        def learned() -> None:
            subject.path[-1] = action
            learn()

        return learned

    def _may_miss(self, spec: Any, records: Sequence[Any]) -> bool:
        """Whether a transaction may lack a gate that others find: they are being put, or the table
        of identities is away, which counts for as much.
        """
        window = self._truth.state_of(spec.window)
        making = window is None or window.status is Status.CREATING
        since_start = self._world.now - self._world.start
        away = bool(self._system.plan.identities.away(since_start))
        return making or (away and any(record.identities for record in records))

    def _settle(self, concerned: Sequence[Subject], *, gates: int | None = None) -> Learn:
        """Another message of the batch that has the id of one of these may be settled with it, as
        by a transaction of its own right afterwards.
        """
        ids = dict.fromkeys(each.sent.id for each in concerned)
        named = [each for name in ids for each in self._by_id.get(name, ())]
        others = [each for each in named if each not in concerned]
        views = [self._truth.view(each, gates=gates, kept=True) for each in others]

        def learn() -> None:
            for other, view in zip(others, views, strict=True):
                for at in at_steps(other, COMMIT):
                    found = there(after for action, after in moves(view, at) if action[3] != DONE)
                    other.at += [after for after in found if after not in other.at]

        return learn

    def _lookup(self, spec: Any, names: Sequence[tuple[str, str]]) -> Judge:
        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError):
                return None
            learns: list[Learn] = []
            for key, record_id in names:
                named = self._named(spec.window, key, record_id)
                subjects = [each for each in named if at_steps(each, COMMIT)]
                if not subjects:
                    self._needless(f"the record {record_id}", named)
                for subject in subjects if (key, record_id) in found else ():
                    # Only an equal record decides before the transaction does.
                    if self._truth.content(subject, (spec.window, key, record_id)) == OWN:
                        learns += self._known(subject)
            return all_of(learns)

        return judge

    def _known(self, subject: Subject) -> Sequence[Learn]:
        action, at = ("read record", OWN, self._place(subject), "equal"), at_steps(subject, COMMIT)
        learn = self._step(subject, self._truth.view(subject), action, at, stays=True)
        return learn, self._settle([subject]), self._settle([subject], gates=GATES)

    # --- behind a shut gate

    def _window(self, name: str) -> Judge:
        def judge(found: Any) -> Learn | None:
            learns = []
            for subject in self._batch:
                at = at_steps(subject, STATE, AFTER)
                if not at or self._window_of(subject) != name:
                    continue
                status = self._truth.status(name, found)
                answer = state.STATUS_NAMES[status]
                back = ", handed back" if status < state.SEALED else ""
                action = ("read state", OWN, self._place(subject), answer + back)
                learns.append(self._step(subject, self._truth.view(subject), action, at))
            calendar = self._system.catalog.calendar()
            if not learns and not (calendar and window_start(name) < calendar.genesis):
                # Of one before the first it is asked whether it was opened, and will be made.
                mine = [each for each in self._batch if self._window_of(each) == name]
                self._needless(f"the state of {name}", mine)
            return all_of(learns)

        return judge

    def _record(self, spec: Any, key: str, record_id: str) -> Judge:
        name = (spec.window, key, record_id)

        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError) and not isinstance(found, Missing):
                return None
            subjects, learns = self._named(*name), []
            if not any(at_steps(each, RECORD) for each in subjects):
                self._needless(f"the record {record_id} of {spec.window}", subjects)
            for subject in subjects:
                at = at_steps(subject, RECORD)
                if not at or (found is None and key != self._truth.keys(subject)[-1]):
                    continue  # its records under further keys are read next
                answer = "absent" if found is None else "no table"
                if found is not None and not isinstance(found, Missing):
                    mine = self._truth.content(subject, name) == OWN
                    answer = "equal" if mine else "another content"
                action = ("read record", OWN, self._place(subject), answer)
                learns.append(self._step(subject, self._truth.view(subject), action, at))
            return all_of(learns)

        return judge

    # --- letters

    def _identities(self, names: Sequence[str]) -> Judge:
        asked = dict.fromkeys(names)

        def judge(found: Any) -> Learn | None:
            if isinstance(found, StoreError):
                return None
            learns = []
            for subject in self._batch:
                mine = self._item_names(subject)
                if not mine or not all(name in asked for name in mine):
                    continue
                self._add_never_taken(subject)
                if at := at_steps(subject, IDENTITY):
                    answer = self._truth.told_by(subject, mine, found)
                    action = ("read identity", OWN, self._place(subject), answer)
                    learns.append(self._step(subject, self._truth.view(subject), action, at))
            if not learns:
                known = [each for each in self._batch if asked.keys() & self._item_names(each)]
                self._needless("identities", known)
            return all_of(learns)

        return judge

    def _item_names(self, subject: Subject) -> list[str]:
        if subject.sent.bad or subject.sent.record_id is None:
            return []
        return self._truth.item_names(subject, (0, self._place(subject)))

    def _may_be_known(self, subject: Subject) -> bool:
        """Whether a message has identities by rules that its writer knows. Of a window without a
        spec there is no rule, and that it has none may be remembered for a while.
        """
        since, window = subject.began - SPEC_ABSENT_CACHED_MS, self._window_of(subject)
        return bool(self._item_names(subject)) and not self._truth.is_ruled_since(window, since)

    def _add_never_taken(self, subject: Subject) -> None:
        """A message that its window never takes may have gone another way from the beginning."""
        began, sent = delivered(ANY_LATE, NOWHERE), subject.sent
        known = began in subject.at or began._replace(step=REJECT) in subject.at
        if not (known or sent.bad or sent.target) and self._is_never_taken(subject):
            subject.at.append(began)

    def _decided_to_reject(self, subject: Subject, rejection: Any) -> None:
        if rejection.reason in REASONS:
            self._leave_unread(subject)

    def _leave_unread(self, subject: Subject) -> None:
        """A message that its window does not take now has no identity that its writer could read,
        if there is no rule.
        """
        self._add_never_taken(subject)
        if at_steps(subject, IDENTITY) and not self._may_be_known(subject):
            self._silently(subject, self._truth.view(subject), ["read identity"])

    def _reject(self, rejections: Sequence[Any]) -> Judge:
        def judge(_: Any) -> Learn | None:
            for rejection in rejections:
                self._rejected(self._by_receipt[rejection.message.receipt], rejection)
            return None

        return judge

    def _rejected(self, subject: Subject, rejection: Any) -> None:
        """A message that is in the dead-letter queue now, whether its writer knows or not."""
        reason, oracle, catalog = rejection.reason, self._system.oracle, self._system.catalog
        subject.rejected = True
        if reason in REASONS:
            number = REASONS[reason]
            if reason is Reason.WINDOW_SEALED and "unverified" in rejection.detail:
                number = state.UNVERIFIED
            action = ("reject", OWN, NOWHERE, state.REASONS[number])
            self._step(subject, ANY, action, at_steps(subject, REJECT))()
        elif reason is Reason.CRASHES_WRITER or oracle.deserved(subject.sent, reason, catalog):
            subject.at = [REMEMBERED]
        else:
            self._fail(subject, ANY, ("reject", OWN, NOWHERE, str(reason)), subject.at)


def _name(window: str, record: Any) -> tuple[Any, ...]:
    return window, record.key, record.id, record.ts, record.n, record.amount
