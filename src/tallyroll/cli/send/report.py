"""What `tallyroll send` and `tallyroll load` say at their end: what was sent, counted and rejected,
and what was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallyroll.cli.screen import Cell, Screen, known, number_of
from tallyroll.client.bulk import BulkSender
from tallyroll.client.jsonlines import LineSource
from tallyroll.model.dead_letters import UNDELIVERED
from tallyroll.operations.arrivals import Arrivals
from tallyroll.reasons import Reason

LISTED_MAX = 20
REDRIVEN = {
    *(Reason.TOO_LATE, Reason.NOT_OPEN_WHEN_SENT, Reason.WINDOW_SEALED, Reason.EXPIRING),
    *(Reason.CRASHES_WRITER, Reason.REFUSED_BY_STORE, Reason.UNKNOWN_VERSION, UNDELIVERED),
}
"""Reasons for which a redrive may count the events."""


@dataclass(frozen=True, slots=True)
class SendReport:
    """The report of a run that sent `source`, or one event."""

    producer: BulkSender
    arrivals: Arrivals | None
    source: LineSource | None
    unsent_file: str | None
    screen: Screen

    @property
    def sent_as(self) -> str:
        """What the events that the queue took are called."""
        return "events sent"

    def show(self) -> None:
        """Tell what needs attention, then show the numbers."""
        sent = self.producer.sent
        self.tell_sending()
        for warning in self.warnings():
            self.screen.tell(warning)
        if self.arrivals:
            self._tell_arrivals(self.arrivals)
        if self.screen.json:
            self.screen.emit(self._json())
            return
        rows: list[tuple[str, Cell]] = [
            ("lines", sent.lines),
            (self.sent_as, sent.events),
            ("messages", sent.messages),
        ]
        rows[:0] = self.more_rows()
        found = sorted(self.rejections().items())
        rows += [(f"rejected: {reason}", count) for reason, count in found]
        if sent.refused:
            rows.append(("events that no window takes", sent.refused))
        if unsent := sent.unsent:
            lost = sum(message.events for message in unsent)
            rows += [("events not sent", lost), ("messages not sent", len(unsent))]
        if savings := self._savings():
            rows += [
                ("events packed", savings["events"]),
                ("in packets", savings["messages"]),
                ("write units each, about", f"{savings['units_each']:.3f}"),
                ("if sent singly, about", f"{savings['units_each_alone']:.3f}"),
            ]
        if self.arrivals:
            rows.append(("events counted", self.arrivals.counted))
        self.screen.table(("", "count"), rows)

    def _json(self) -> dict[str, Any]:
        sent, arrivals = self.producer.sent, self.arrivals
        unsent = sent.unsent
        lost = sum(message.events for message in unsent)
        return (
            self.more_json()
            | {
                "lines": sent.lines,
                "events": sent.events,
                "messages": sent.messages,
                "rejected": dict(self.rejections()),
                "unsent": {"events": lost, "messages": len(unsent)},
                "refused": {"events": sent.refused, "messages": sent.refused_messages},
            }
            | known(
                packed=self._savings() or None,
                counted=arrivals and arrivals.counted,
                rejected_later=arrivals and dict(arrivals.rejected),
                pending=arrivals and {"events": arrivals.events, "messages": arrivals.messages},
            )
        )

    def _savings(self) -> dict[str, Any]:
        """What packing saved; nothing if no packet has several events."""
        savings = self.producer.sent.savings
        if savings.packed.events == savings.packets:
            return {}
        return {
            "events": savings.packed.events,
            "messages": savings.packets,
            "units_each": round(savings.packed.each, 4),
            "units_each_alone": round(savings.alone.each, 4),
        }

    def warnings(self) -> list[str]:
        """What to tell of events that no window takes."""
        return self.producer.warnings()

    def rejections(self) -> Mapping[str, int]:
        """The lines that were not sent, by their reasons."""
        return {str(reason): count for reason, count in self.producer.sent.rejected.items()}

    def more_rows(self) -> list[tuple[str, Cell]]:
        """Rows that another command has first."""
        return []

    def more_json(self) -> dict[str, Any]:
        """Fields that another command has."""
        return {}

    def tell_lost(self) -> None:
        """Tell which messages were not sent, and what was sent before an interrupt."""
        sent, tell = self.producer.sent, self.screen.tell
        for message, why in sent.lost[:LISTED_MAX]:
            tell(f"not sent: {message.origin}: {why}")
        if (more := len(sent.lost) - LISTED_MAX) > 0:
            tell(f"... and {more} more messages not sent")
        if sent.interrupted:
            messages = number_of(sent.messages, "message")
            tell(f"interrupted: sent so far: {number_of(sent.events, 'event')}, {messages}")

    def tell_sending(self) -> None:
        """Tell what was left out, what was not sent, and what sending it again would do."""
        sent, tell = self.producer.sent, self.screen.tell
        if (more := sent.rejected.total() - LISTED_MAX) > 0:
            tell(f"... and {more} more bad lines")
        self.tell_lost()
        again = sent.interrupted or sent.stopped
        if self.source and self.source.repeatable:
            self._tell_of_file(self.source, again=again)
        elif again and sent.read_to:
            tell(f"no line after {sent.read_to} was read")
        if self.unsent_file and (sent.unsent or sent.refused):
            what = "what may not have been taken" if sent.unsent else "what no window took"
            tell(f"`tallyroll send {self.unsent_file}` sends again {what}")

    def _tell_of_file(self, source: LineSource, *, again: bool) -> None:
        """Tell what sending the file again would do, where that is not obvious."""
        sent, tell = self.producer.sent, self.screen.tell
        name = source.name
        if source.changed:
            tell(f"{name} changed while it was read: sent again, events without ids count again")
        elif again:
            tell(f"send {name} again, with the same options: what was sent counts once")
        elif self.producer.named:
            tell(
                f"events without ids are named after the content of {name}: sent again unchanged"
                " and with the same options they count once; after any change they are new"
            )
        if sent.undated:
            they = "1 event has" if sent.undated == 1 else f"{sent.undated:,} events have"
            tell(f"{they} neither an id nor a time: sent again they count again")

    def _tell_arrivals(self, arrivals: Arrivals) -> None:
        for reason, events in arrivals.rejected.most_common():
            they = "1 event was" if events == 1 else f"{events:,} events were"
            self.screen.tell(
                f"{they} rejected after sending, {reason}: {arrivals.details[reason]};"
                f" {_remedy(reason)}"
            )
        if arrivals.messages:
            queued = arrivals.queued()
            known_ = "" if queued is None else f"; the queue has about {queued:,} messages"
            they = "1 event is" if arrivals.events == 1 else f"{arrivals.events:,} events are"
            self.screen.tell(
                f"{they} not counted yet, nor found among the dead letters{known_}; `tallyroll"
                " doctor` looks for the cause"
            )


def _remedy(reason: str) -> str:
    if reason in REDRIVEN:
        return f"`tallyroll dlq redrive --reason {reason}` has them counted"
    if reason == Reason.TOO_FAR_AHEAD:
        return f"redrive them when their time has come: `tallyroll dlq redrive --reason {reason}`"
    if reason == Reason.ID_CONFLICT:
        return "if both events are real, send these under ids of their own"
    return f"correct them and send them anew: `tallyroll dlq show --reason {reason}`"
