"""What producers sent, what it should count as, and which past windows were opened for it."""

from __future__ import annotations

from dataclasses import dataclass

from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar
from tallyroll.reasons import Reason
from tests.simulation.holdings import MICROS


@dataclass(frozen=True, slots=True)
class Sent:
    """What a producer sent: what it should count as, or the reason for which it can never count."""

    key: str = ""
    record_id: str | None = None
    ts: int | None = None
    n: int = 1
    amount: int = MICROS
    bad: Reason | None = None
    message_id: str = ""
    sent: int = 0
    times: tuple[int, ...] = ()
    """When the events of a packet happened, which may not all lie in one window."""
    amounts: tuple[int, ...] = ()
    """Their amounts."""
    first_id: str = ""
    first_sent: int = 0
    target: str = ""
    """Of one that was redriven: what it was at first, and the window where it is to count."""

    @property
    def time(self) -> int:
        """The instant by which its window is chosen."""
        return (self.first_sent or self.sent) if self.ts is None else self.ts

    @property
    def id(self) -> str:
        """The id of its record."""
        return self.record_id or self.first_id or self.message_id


@dataclass(frozen=True, slots=True)
class Asked(Sent):
    """A message that asks to take an event back: that of the id `record_id` under `key`, which
    happened at `ts`, or else in `window`. It never counts, so it is `bad` where events are counted.
    """

    bad: Reason | None = Reason.BAD_RETRACTION
    index: int | None = None
    window: str = ""
    by: str = ""
    why: str = ""
    is_malformed: bool = False

    @property
    def what(self) -> tuple[str, str, int | None]:
        """The key, id and index that it names."""
        return self.key, self.id, self.index


@dataclass(frozen=True, slots=True)
class Opened:
    """A past window that was opened on purpose: what it accepts, and when that stood (ms)."""

    accept_from: int
    accept_until: int
    at: int


def too_late(
    sent: Sent, spec: Spec | None, opened: Opened | None, calendar: Calendar | None
) -> bool:
    """Whether a message may be rejected as sent after its window, of which `spec` and `opened` are,
    stopped accepting.
    """
    if spec is not None and sent.sent > spec.accept_until:
        return True
    if calendar is None or sent.target or sent.time >= calendar.genesis:
        return False
    return opened is None or sent.sent <= opened.at
