"""What fails and stays so: a function, some calls of it, the deletion of one table.

Weather strikes one call by chance. A lasting fault strikes every call that it names, from one
moment until another, or for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from tallyroll.errors import Refused, Throttled
from tallyroll.ports.store import Outcome, Verdict

if TYPE_CHECKING:
    from tests.simulation.world import World

ILL = "ill from now on: "
DENIED = "AccessDeniedException"
# The function whose role alone allows it, as in src/tallyroll/cdk/permissions.py.
ONLY = {"make_table": "roller", "tag_table": "cleanup", "drop_table": "dropper"}


@dataclass(frozen=True, slots=True)
class LastingFault:
    """What is ill from `since` until `until` (ms).

    `functions` names whose invocations are struck; none stands for all. `how` it strikes them:

    - `dies`: every invocation raises before it does anything
    - `held`: the function has no concurrency, every invocation is refused
    - `away`: nobody invokes it: its schedule or event source is disabled
    - `denied`, `throttled`: calls of the port's `verbs` are refused (none: all of them), for the
      `table` alone if one is named

    With `one_sandbox` it strikes one sandbox of the function alone, for good.
    """

    name: str
    how: str
    functions: tuple[str, ...] = ()
    port: str = ""
    verbs: tuple[str, ...] = ()
    since: float = 0
    until: float = inf
    table: str = ""
    one_sandbox: bool = False

    def strikes(self, function: str, now: float) -> bool:
        """Whether it strikes this function now."""
        return self.since <= now < self.until and function in (self.functions or (function,))


@dataclass(slots=True)
class LastingFaults:
    """The lasting faults of one simulation, and what they struck."""

    world: World
    all: list[LastingFault] = field(default_factory=list)
    struck: dict[str, int] = field(default_factory=dict)
    _sandboxes: dict[str, int] = field(default_factory=dict)

    def has(self, how: str, function: str, sandbox: int | None = None) -> bool:
        """Whether invocations of a function (in a sandbox of this number) are struck in this way
        now.
        """
        for fault in self.all:
            if fault.how != how or not fault.strikes(function, self.world.now):
                continue
            if fault.one_sandbox and sandbox != self._chosen(fault, sandbox):
                continue
            self._note(fault)
            return True
        return False

    def is_alone(self, function: str, sandbox: int) -> bool:
        """Whether this sandbox of a function is ill, and others are not."""
        known = [name for name, number in self._sandboxes.items() if number == sandbox]
        ill = [one for one in self.all if one.name in known]
        return any(one.strikes(function, self.world.now) for one in ill)

    def _chosen(self, fault: LastingFault, sandbox: int | None) -> int | None:
        """The sandbox that a lasting fault of one alone strikes: the first that comes along."""
        if sandbox is None:
            return -1
        return self._sandboxes.setdefault(fault.name, sandbox)

    def check(self, function: str, port: str, verb: str, named: Iterable[Any]) -> None:
        """Raise Refused or Throttled if a call of a port fails; `named` are its arguments."""
        if function != ONLY.get(verb, function):
            raise Refused(f"{verb}: the role of {function} does not allow it", DENIED)
        for fault in self.all:
            if fault.how not in ("denied", "throttled") or fault.port != port:
                continue
            if not fault.strikes(function, self.world.now):
                continue
            if fault.verbs and verb not in fault.verbs:
                continue
            if fault.table and fault.table not in [_table_of(each) for each in named]:
                continue
            self._note(fault)
            if fault.how == "throttled":
                raise Throttled(f"{verb}: {fault.name}", "ThrottlingException")
            raise Refused(f"{verb}: {fault.name}", DENIED)

    def _note(self, fault: LastingFault) -> None:
        if fault.name not in self.struck:
            self.world.note(f"{ILL}{fault.name}")
        self.struck[fault.name] = self.struck.get(fault.name, 0) + 1


def _table_of(argument: Any) -> str:
    """The table that an argument of a store's verb names: a name, or a spec."""
    return argument if isinstance(argument, str) else getattr(argument, "table", "")


class Ailing:
    """A port as one function has it: its calls fail while a lasting fault strikes them."""

    def __init__(self, lasting_faults: LastingFaults, function: str, name: str, port: Any) -> None:
        self._lasting_faults = lasting_faults
        self._function = function
        self._name = name
        self._port = port

    def seen(self, verb: str) -> Any:
        """The port as a read by this verb may see it: with old data, or a transaction in part."""
        seen = getattr(self._port, "seen", None)
        if seen is None:
            return self
        return Ailing(self._lasting_faults, self._function, self._name, seen(verb))

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._port, verb)
        if not callable(found):
            return found
        if verb in ("commit", "retract"):
            return partial(self._transacted, verb, found)
        return self._checked(verb, found)

    def _checked(self, verb: str, perform: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            self._lasting_faults.check(self._function, self._name, verb, [*args, *named.values()])
            return perform(*args, **named)

        return call

    def _transacted(self, verb: str, perform: Callable[..., Outcome], *args: Any) -> Outcome:
        """A transaction never raises: its outcome says what the adapter makes of the error."""
        try:
            self._lasting_faults.check(self._function, self._name, verb, args[:1])
        except Throttled as error:
            return Outcome(Verdict.THROTTLED, detail=str(error))
        except Refused as error:
            return Outcome(Verdict.UNKNOWN, detail=str(error))
        return perform(*args)
