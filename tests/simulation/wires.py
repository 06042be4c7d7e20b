"""What lies between a function and its ports: latency, crashes, stalls, lost calls and replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, ClassVar, TypeVar

from tallyroll.adapters.memory import MemoryStore
from tallyroll.errors import StoreError, TallyrollError, Throttled, Unknown
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.items import StoredItem
from tallyroll.model.messages import Rejection
from tallyroll.model.records import Increment, Record
from tallyroll.model.retractions import Tombstone, decrements_of
from tallyroll.model.specs import Spec
from tallyroll.model.totals import Correction, PeriodTotal
from tallyroll.model.totals import Total as SealedTotal
from tallyroll.ports.dead_letters import DeadLetters, Resend
from tallyroll.ports.queue import Backlog, Queue
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.ports.totals import Totals
from tests.simulation.world import Group, World

T = TypeVar("T")
FINE = Element(Answer.FINE)
POISON = "poison"
EXPORT_DIR = "/AWSDynamoDB/"
LAGGARD_MS_MAX = 900_000
TARDY_MS_MAX = 300_000
WRITES = frozenset(
    {
        *("open_gate", "shut_gate", "make_table", "tag_table", "drop_table"),
        *("recover_table", "reduce_capacity", "put", "roll"),
        *("append_mapping", "settle_mappings", "put_wishes"),
        *("found", "extend", "put_spec", "create", "advance", "advance_period", "move_live"),
        *("note_straggler", "note_hot", "mark", "note_received", "clear_received", "beat"),
        "take_turn",
        *("claim", "move", "reject", "delay", "acknowledge", "resend", "send"),
        *("authorize", "correct", "put_retracted", "put_sums"),
    }
)
ASKS_NOTHING = ("metering_of",)
ECLIPSE_MS = 60_000  # wrong counts stay wrong for a while


class Wire:
    """A port whose every call is a switch point before and after, and may fail either way; its
    `writes` may be carried out long after they were given up.
    """

    writes: ClassVar[AbstractSet[str]] = WRITES

    def __init__(self, world: World, port: Any) -> None:
        self._world = world
        self._port = port

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._port, verb)
        if not callable(found) or verb in ASKS_NOTHING:
            return found
        return lambda *args, **named: self._call(
            verb, lambda: getattr(self._seen(verb), verb)(*args, **named)
        )

    def _seen(self, verb: str) -> Any:
        """The port as this verb may see it: with old data, or a transaction in part."""
        seen = getattr(self._port, "seen", None)
        return seen(verb) if seen else self._port

    def _call(self, verb: str, perform: Callable[[], T]) -> T:
        world = self._world
        word = verb.partition(" ")[0]
        world.step(word)
        if word in self.writes and world.roll(world.weather.tardy, world.current.aside.random()):
            return self._tardy(verb, perform)
        if world.roll(world.weather.refused):
            world.note(f"{verb} refused")
            raise Throttled(f"{verb}: refused for load", "SimulatedThrottle")
        if world.roll(world.weather.unanswered):
            world.note(f"{verb} lost")
            raise Unknown(f"{verb}: never arrived", "SimulatedTimeout")
        self._seen(word)  # what stands before each verb, also one that writes, is the port's past
        try:
            result = perform()
        except TallyrollError as error:
            world.note(f"{verb} {type(error).__name__}")
            world.step()
            raise
        world.note(verb)
        world.step(word)
        if world.roll(world.weather.unanswered):
            world.note(f"{verb} unanswered")
            raise Unknown(f"{verb}: done, but the reply was lost", "SimulatedTimeout")
        if isinstance(result, Iterator):
            return self._paged(verb, result)  # type: ignore[return-value]
        return result

    def _tardy(self, verb: str, perform: Callable[[], T], most_ms: int = TARDY_MS_MAX) -> T:
        """A write that is carried out seconds to minutes after its caller gave it up."""
        world = self._world
        world.note(f"{verb} will be late")

        def late() -> None:
            world.pause(world.random.random() ** 2 * most_ms)
            with suppress(TallyrollError):  # nobody hears of it
                perform()
                world.note(f"{verb} at last")

        task = world.spawn(f"{world.current.name}-late", late, Group("late", mortal=False))
        world.under_way.append(task)
        raise Unknown(f"{verb}: still under way", "SimulatedTimeout")

    def _paged(self, verb: str, pages: Iterator[Any]) -> Iterator[Any]:
        for page in pages:
            yield page
            self._call(f"{verb} on", lambda: None)


class StoreWire(Wire):
    """The store: commits answer by their outcome, and gates are opened and shut one by one."""

    _port: MemoryStore

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        """A commit that may be refused, cancelled, lost, unanswered, or carried out much later."""
        carry_out = partial(self._port.commit, spec, records, increments)
        return self._transacted("commit", spec, records, len(increments), carry_out)

    def retract(self, spec: Spec, tombstones: Sequence[Tombstone]) -> Outcome:
        """The same of a transaction of tombstones."""
        carry_out = partial(self._port.retract, spec, tombstones)
        stripes = len(decrements_of(tombstones))
        return self._transacted("retract", spec, tombstones, stripes, carry_out)

    def _transacted(
        self,
        verb: str,
        spec: Spec,
        puts: Sequence[Record] | Sequence[Tombstone],
        stripes: int,
        carry_out: Callable[[], Outcome],
    ) -> Outcome:
        world, weather = self._world, self._world.weather
        names = ",".join(each.id[-6:] for each in puts)
        what = f"{verb} {spec.window[9:15]} {names}"

        def perform() -> Outcome:
            outcome = carry_out()
            world.note(f"{what} {outcome.verdict}")
            return outcome

        def belated() -> None:
            world.pause(world.random.random() ** 2 * TARDY_MS_MAX)
            perform()

        world.step(verb)
        if verb == "commit" and any(each.id.startswith(POISON) for each in puts):
            world.crash()
        if world.roll(weather.refused):
            world.note(f"{what} throttled")
            return Outcome(Verdict.THROTTLED, detail="simulated")
        if world.roll(weather.belated):
            world.note(f"{what} will be late")
            world.spawn(f"{world.current.name}-late", belated, Group("late", mortal=False))
            return Outcome(Verdict.UNKNOWN, detail="simulated: still under way")
        if world.roll(weather.unanswered):
            world.note(f"{what} lost")
            return Outcome(Verdict.UNKNOWN, detail="simulated: never arrived")
        if world.roll(weather.contended):
            world.note(f"{what} contended")
            return self._cancelled(puts, stripes)
        outcome = perform()
        world.step(verb)
        if world.roll(weather.unanswered):
            world.note(f"{what} unanswered")
            return Outcome(Verdict.UNKNOWN, detail="simulated: reply lost")
        return outcome

    def _cancelled(self, puts: Sequence[Record] | Sequence[Tombstone], stripes: int) -> Outcome:
        """A conflict or a hot shard; now and then a request that is invalid as a whole."""
        kind = self._world.random.random()
        if kind < 0.1 and len({each.id for each in puts}) > 1:  # else the event's own fault
            return Outcome(Verdict.INVALID, detail="simulated")
        answer = Element(Answer.CONTENDED if kind < 0.6 else Answer.THROTTLED)
        elements = [FINE] * (len(puts) + stripes)
        at, cut = int(self._world.random.random() * len(elements)), len(puts)
        crowded = self._world.weather.crowded
        if crowded and stripes and self._world.current.aside.random() < crowded:
            at = cut + at % stripes
        elements[at] = answer
        return Outcome(Verdict.CANCELLED, tuple(elements[:cut]), tuple(elements[cut:]))

    def open_gates(self, spec: Spec) -> None:
        """Open gate by gate, so that a crash may leave some."""
        for number in range(1, spec.gates + 1):
            self._gate("open_gate", self._port.open_gate, spec, number)

    def shut_gates(self, spec: Spec) -> None:
        """Shut gate by gate, so that a crash may leave some."""
        for number in range(1, spec.gates + 1):
            self._gate("shut_gate", self._port.shut_gate, spec, number)

    def fold(self, spec: Spec, progress: str) -> Iterator[str]:
        """No call: commits have settled all."""
        return self._port.fold(spec, progress)

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[StoredItem]]:
        """A segment's pages; one that comes out wrong lacks a page, has one twice or another's."""
        pages: Iterator[list[StoredItem]] = self._call(
            "scan", lambda: self._seen("scan").scan(table, segment, segments)
        )
        if not self._world.roll(self._world.weather.mangled):
            yield from pages
            return
        kind = self._world.random.random()
        if kind < 0.3:
            others = self._port.tables()
            table = others[int(self._world.random.random() * len(others))]
            yield from self._port.scan(table, segment, segments)
            return
        for page in pages:
            cut = int(self._world.random.random() * len(page))
            yield page[:cut] if kind < 0.6 else page[:cut] + page[cut + 1 :]
            if kind > 0.8:
                yield page

    def _gate(self, verb: str, act: Callable[[Spec, int], None], spec: Spec, number: int) -> None:
        self._call(f"{verb} {spec.window[9:15]}.{number}", lambda: act(spec, number))


class TotalsWire(Wire):
    """The totals: a put of many is as many puts."""

    _port: Totals

    def correct(self, corrections: Sequence[Correction]) -> list[Element]:
        """Correct one by one: if a call fails, some may be carried out."""
        return [self._correct_one(each) for each in corrections]

    def _correct_one(self, made: Correction) -> Element:
        what = f"correct {made.window[9:15]} {made.id[-6:]}"
        return self._call(what, lambda: self._port.correct([made]))[0]

    def put(self, totals: Sequence[SealedTotal]) -> None:
        """Put one by one."""
        for total in totals:
            self._put_one(total)

    def roll(self, totals: Sequence[PeriodTotal]) -> None:
        """Put sums of days and months one by one."""
        for total in totals:
            self._roll_one(total)

    def _roll_one(self, total: PeriodTotal) -> None:
        self._call(f"roll {total.key} {total.period}={total.n}", lambda: self._port.roll([total]))

    def _put_one(self, total: SealedTotal) -> None:
        self._call(
            f"put {total.key} {total.window[9:15]}={total.n}", lambda: self._port.put([total])
        )


class QueueWire(Wire):
    """The queue: rejections may half succeed, delays may be lost, counts may be wrong."""

    _port: Queue

    def reject(self, rejections: Sequence[Rejection]) -> list[bool]:
        """Send each; some may fail, and some may succeed without saying so."""
        world, weather = self._world, self._world.weather

        def send_one(rejection: Rejection) -> bool:
            if world.roll(2 * weather.unanswered):
                return False
            self._port.reject([rejection])
            world.note(f"rejected {rejection.message.id[:6]} {rejection.reason}")
            return not world.roll(weather.unanswered)

        return self._call("reject", lambda: [send_one(rejection) for rejection in rejections])

    def delay(self, receipts: Sequence[tuple[str, int]]) -> None:
        """Delay those that are not lost."""
        world = self._world
        kept = [receipt for receipt in receipts if not world.roll(world.weather.refused)]
        self._call("delay", lambda: self._port.delay(kept))

    def backlog(self, since: int, invocations_since: int | None = None) -> Backlog:
        """The counts, which are approximate: now and then the queue seems empty or without ages."""
        found = self._call("backlog", lambda: self._port.backlog(since, invocations_since))
        world = self._world
        eclipse = Random(f"{world.seed} {world.now // ECLIPSE_MS}").random()
        if eclipse < world.weather.misread:
            world.note("backlog misread as empty")
            found = replace(found, visible=0, in_flight=0, delayed=0)
        if Random(f"{world.seed} {world.now // ECLIPSE_MS} ages").random() < world.weather.hasty:
            world.note("backlog misread as new")
            found = replace(found, ages=tuple((world.now - n, 0) for n in (2, 1, 0)))
        return found


class LettersWire(Wire):
    """The dead letters: each is sent again, and deleted, by a call that may be lost."""

    _port: DeadLetters

    def resend(self, resends: Sequence[Resend]) -> list[str]:
        """Send one by one; why each is not surely there, or nothing."""
        why = []
        for resend in resends:
            try:
                why += self._call("resend", partial(self._port.resend, [resend]))
            except StoreError as error:
                why.append(str(error))
        return why

    def delete(self, letters: Sequence[ReceivedLetter]) -> list[bool]:
        """Delete one by one; True for those that are surely gone."""
        gone = []
        for letter in letters:
            try:
                gone += self._call("delete letter", partial(self._port.delete, [letter]))
            except StoreError:
                gone.append(False)
        return gone


@contextmanager
def judged(world: World) -> Iterator[None]:
    """What runs here may end with a port's error, never with a bug's, whoever still awaits it."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 (a bug's)
        world.fail(f"{world.current.group.name} raised {error!r}")
