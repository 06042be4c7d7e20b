"""Where the marks are seen: the simulated ports, the oracle, and some functions of the core, each
watched from outside for the time of one simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

import tallyroll.ingest.transactions
import tallyroll.ingest.writer
from tallyroll import limits
from tallyroll.ingest.fates import Disposition
from tallyroll.model.states import Status
from tallyroll.operations.letter_events import LetterOutcome
from tallyroll.operations.redrive import Redriver
from tallyroll.ports.store import Answer, Verdict
from tallyroll.reads.reader import PortReader
from tallyroll.reasons import Reason
from tests.simulation.deaths import KINDS
from tests.simulation.lasting_faults import ILL
from tests.simulation.liveness import PARTS
from tests.simulation.marking_heat import watch_heat
from tests.simulation.marking_retractions import watch_retractions
from tests.simulation.marking_windows import watch_windows
from tests.simulation.watching import watched

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

Perform = Callable[..., Any]
TRIES = 5
VERDICTS = {
    Verdict.UNKNOWN: "commit-unknown",
    Verdict.GATE_SHUT: "gate-shut",
    Verdict.GATE_MISSING: "gate-missing",
}
HANDED_BACK = {
    "the writer failed on it: UsageError": "handed-back-by-before",
    "not made yet": "awaits-window",
    "no calendar yet": "awaits-calendar",
    "calendar has changed": "calendar-cached",
    "did not take it": "letter-refused",
    "is undecided": "follower-undecided",
    "leaves no room": "held-by-rate",
    "is closing": "closing-behind-gate",
    "is creating": "open-behind-gate",
}
REASONS = {
    reason: f"rejected-{reason}"
    for reason in (
        Reason.TOO_LATE,
        Reason.TOO_FAR_AHEAD,
        Reason.NOT_OPEN_WHEN_SENT,
        Reason.TS_REQUIRED,
        Reason.PACKET_MIXED_WINDOWS,
        Reason.WINDOW_SEALED,
        Reason.ID_CONFLICT,
        Reason.CRASHES_WRITER,
        Reason.BAD_RETRACTION,
        Reason.RETRACTION_OFF,
        Reason.RETRACTION_NOT_AUTHORIZED,
        Reason.RETRACTION_UNPROVEN,
        Reason.NOTHING_TO_RETRACT,
    )
}
LIES = {
    "flight is full": "flight-full",
    "a cohort comes again": "cohort",
    "a transaction is seen in part": "seen-in-part",
    "a description is old": "old-description",
    "identities are missing": "identities-missing",
    "identities are throttled": "identities-throttled",
    "an identity is deleted": "identity-deleted",
    "an id counts again": "identity-used-again",
}
LEFT = {
    "being closed": "redrive-while-closing",
    "unverified": "redrive-unverified",
    "not sent": "redrive-not-sent",
    "not deleted": "redrive-not-deleted",
}


def watch(system: System, patch: pytest.MonkeyPatch) -> None:
    """Count the marks of a simulation from now on, until the patch is undone."""
    commits, batches, queue = _Commits(system), _Batches(system), _Queue(system)
    redrives, reads = _Redrives(system), _Reads(system)
    watched(patch, tallyroll.ingest.transactions, commits, "after")
    watched(patch, tallyroll.ingest.transactions, commits, "_measure")
    watched(patch, tallyroll.ingest.writer, batches, "_sum_up")
    watched(patch, system.queue, queue, "deliver", "delete")
    watched(patch, system.oracle, queue, "on_dead")
    watched(patch, system.world, queue, "note")
    watched(patch, system.oracle, redrives, "on_redriven")
    watched(patch, system.catalog, redrives, "claim", "move")
    watched(patch, system.oracle, reads, "on_read", "on_looked_up")
    patch.setattr(Redriver, "redrive", redrives.around(Redriver.redrive))
    known = redrives.known(Redriver._counted_beyond)
    patch.setattr(Redriver, "_counted_beyond", known)
    patch.setattr(PortReader, "counts", reads.around(PortReader.counts))
    watch_windows(system, patch)
    watch_retractions(system, patch)
    if system.plan.heat.heats:
        watch_heat(system, patch)


class _Commits:
    """Marks of what a store answers, and of what follows."""

    def __init__(self, system: System) -> None:
        self._hit = system.marks.hit
        self._leases = system.leases

    def after(self, after: Perform, commit: Any, outcome: Any, *rest: Any) -> Any:
        step = after(commit, outcome, *rest)
        if name := VERDICTS.get(outcome.verdict):
            self._hit(name)
        if commit.attempt == TRIES:
            self._hit("commit-stubborn")
        if any(record.attachments for record in commit.records):
            if outcome.verdict is Verdict.COMMITTED:
                self._hit("chunks-committed")
            if any(record.attachments for again in step.commits for record in again.records):
                self._hit("chunks-again")
        if outcome.verdict is Verdict.INVALID and step.commits:
            self._hit("commit-bisected")
        if outcome.verdict is Verdict.THROTTLED and len(step.commits) > 1:
            self._hit("throttled-by-key")
        if any(fate.kind is Disposition.HANDED_BACK for _, fate in step.settled):
            self._hit("no-time-left")
        if outcome.verdict in (Verdict.CANCELLED, Verdict.BY_RECORD):
            self._cancelled(commit, outcome, step)
        return step

    def _measure(self, measure: Perform, done: Any, commit: Any, *rest: Any) -> None:
        measure(done, commit, *rest)
        self._leases.on_spent(commit, rest[-1])

    def _cancelled(self, commit: Any, outcome: Any, step: Any) -> None:
        answers = [element.answer for element in (*outcome.records, *outcome.increments)]
        if Answer.CONTENDED in answers:
            self._hit("commit-contended")
        apart = [one for one in step.commits if len(one.records) == 1 and one.records[0].identities]
        if Answer.CONTENDED in answers and len(commit.records) > 1 and apart:
            self._hit("identity-contended")
        if Answer.THROTTLED in answers and len(step.commits) > 1:
            self._hit("throttled-apart")
        for record, element in zip(commit.puts, outcome.records, strict=True):
            if element.answer is not Answer.DUPLICATE:
                continue
            if element.digest != record.digest:
                self._hit("rival-met")
            elif commit.attempt:
                self._hit("own-record-met")


class _Batches:
    """Marks of the outcomes of a batch's messages."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._hit = system.marks.hit

    def _sum_up(self, sum_up: Perform, report: Any, cases: Sequence[Any], *rest: Any) -> None:
        sum_up(report, cases, *rest)
        placed = [each for case in cases if (each := case.placed)]
        contents: dict[Any, list[bytes]] = {}
        for each in placed:
            contents.setdefault(each.identity, []).append(each.record.digest)
        for digests in contents.values():
            if len(digests) > 1:
                same = len(dict.fromkeys(digests)) == 1
                self._hit("twice-in-batch" if same else "rivals-in-batch")
        if len(dict.fromkeys(each.spec.window for each in placed)) > 1:
            self._hit("windows-in-batch")
        for case in cases:
            self._message(case)

    def _known_by_id(self, case: Any) -> None:
        """Marks of a message that counts, by its id, where its own record does not tell."""
        oracle = self._system.oracle
        sent = oracle.sent[case.message.id]
        own = oracle.identity_of(sent)
        state = self._system.catalog.window(own[0])
        if state and state.status in (Status.DROPPING, Status.DROPPED):
            self._hit("duplicate-of-dropped")
        if own not in oracle.stored and oracle.book.has_counted(sent):
            self._hit("duplicate-elsewhere")
            if state and state.status.sealed:
                self._hit("duplicate-behind-seal")

    def _message(self, case: Any) -> None:
        kind, receives = case.fate.kind, case.message.receives
        if receives >= limits.RECEIVES_ALONE:
            self._hit("runs-alone")
        if kind is Disposition.COUNTED and receives > 1:
            self._hit("counted-later")
        if kind is Disposition.DUPLICATE and not case.placed:
            self._hit("remembered")
        if kind is Disposition.DUPLICATE and case.span and not case.retraction:
            self._known_by_id(case)
        if kind is Disposition.DUPLICATE and case.placed:
            state = self._system.catalog.window(case.placed.spec.window)
            if state and state.status.sealed:
                self._hit("duplicate-of-sealed")
        if case.message.redrive and kind in (Disposition.COUNTED, Disposition.DUPLICATE):
            self._hit("redriven-counted" if kind is Disposition.COUNTED else "redriven-duplicate")
        if kind is Disposition.HANDED_BACK:
            for name in (name for text, name in HANDED_BACK.items() if text in case.fate.detail):
                self._hit(name)


class _Queue:
    """Marks of the queue and its dead letters."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._hit = system.marks.hit

    def deliver(self, deliver: Perform, held: Any) -> Any:
        if held.visible_at > self._system.world.now and held.receives:
            self._hit("delivered-while-hidden")
        return deliver(held)

    def delete(self, delete: Perform, receipt: str) -> None:
        held = self._system.queue.of(receipt.partition("#")[0])
        if held and held.receipt != receipt:
            self._hit("deleted-in-vain")
        delete(receipt)

    def on_dead(self, on_dead: Perform, letter: Any, *rest: Any) -> None:
        on_dead(letter, *rest)
        oracle = self._system.oracle
        sent = oracle.sent[letter.message.id]
        if letter.reason is Reason.ID_CONFLICT and oracle.book.is_rival_elsewhere(sent):
            self._hit("conflict-elsewhere")
        if letter.reason is None:
            self._hit("fuse-moved")
        elif letter.reason in REASONS:
            self._hit(REASONS[letter.reason])
            if "unverified" in letter.detail:
                self._hit("rejected-unverified")
        elif letter.reason is not Reason.NOT_CLAIMED:
            self._hit("rejected-malformed")

    def note(self, note: Perform, text: str) -> None:
        note(text)
        if text == "backlog misread as empty":
            self._hit("backlog-misread")
        if text.endswith(" at last"):
            self._hit("tardy-write")
        if text in LIES:
            self._hit(LIES[text])
        if text.startswith(ILL) and text.removeprefix(ILL) in (*PARTS, *KINDS):
            self._hit(f"ill-{text.removeprefix(ILL)}")


class _Redrives:
    """Marks of redrives and of their ledger."""

    def __init__(self, system: System) -> None:
        self._oracle = system.oracle
        self._hit = system.marks.hit

    def around(self, redrive: Perform) -> Perform:
        """`Redriver.redrive`, watched."""

        def redriven(redriver: Any, letters: Any) -> Any:
            decisions = redrive(redriver, letters)
            for decision in decisions:
                if decision.course is LetterOutcome.COUNTED:
                    self._hit("redrive-found-counted")
                if name := LEFT.get(str(decision.why)):
                    self._hit(name)
            return decisions

        return redriven

    def known(self, counted_beyond: Perform) -> Perform:
        """`Redriver._counted_beyond`, watched."""

        def found(redriver: Any, *args: Any) -> Any:
            window = counted_beyond(redriver, *args)
            if window:
                self._hit("redrive-known-by-id")
            return window

        return found

    def on_redriven(self, on_redriven: Perform, message_id: str, redrive: Any) -> None:
        on_redriven(message_id, redrive)
        home = self._oracle.window_of(self._oracle.sent[message_id].time)
        self._hit("redriven-home" if redrive.target == home else "redriven-elsewhere")

    def claim(self, claim: Perform, identity: Any, wanted: Any) -> Any:
        stands = claim(identity, wanted)
        self._hit("claimed" if stands == wanted else "claim-lost")
        return stands

    def move(self, move: Perform, identity: Any, read: Any, wanted: Any) -> Any:
        stands = move(identity, read, wanted)
        self._hit("claim-moved" if stands == wanted else "claim-lost")
        return stands


class _Reads:
    """Marks of what the aggregator answers."""

    def __init__(self, system: System) -> None:
        self._hit = system.marks.hit

    def around(self, counts: Perform) -> Perform:
        """`PortReader.counts`, watched."""

        def counted(aggregator: Any, *args: Any, **named: Any) -> Any:
            began = aggregator._effects.now()
            found = counts(aggregator, *args, **named)
            if any(count.as_of < began for count in found):
                self._hit("read-from-cache")
            return found

        return counted

    def on_read(self, on_read: Perform, read: Any, answer: Any) -> None:
        on_read(read, answer)
        if not answer["complete"]:
            self._hit("read-incomplete")
        if answer.get("rolled_up"):
            self._hit("read-rolled-up")

    def on_looked_up(
        self, look: Perform, identity: Any, answer: str, *rest: Any, **more: Any
    ) -> None:
        look(identity, answer, *rest, **more)
        if answer in ("Absent", "Archived"):
            self._hit(f"looked-up-{answer.lower()}")
