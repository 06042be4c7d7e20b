"""One run of `tallyroll load`: its files, its windows, its progress and its report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyroll.cli.screen import Cell, Screen, known, number_of, some
from tallyroll.cli.send import Awaiting
from tallyroll.cli.send.report import LISTED_MAX, SendReport
from tallyroll.client.checkpoint import Checkpoint
from tallyroll.client.loading import (
    BadFile,
    Load,
    LoadProgress,
    SourceLayout,
    are_bad_lines,
    pending,
    times,
)
from tallyroll.client.sources.places import BAD_LINES, CHECKPOINT, Place
from tallyroll.client.sources.records import BadRecord, SourceRecord
from tallyroll.errors import Rejected, StoreError, TallyrollError, UsageError
from tallyroll.limits import VALUE_DECIMALS_MAX
from tallyroll.model.amounts import shown
from tallyroll.model.states import Calendar, Status, Window, takes_events
from tallyroll.model.windows import Span, iso
from tallyroll.operations.backfill import absent_of, open_needed, past_of, wait_open
from tallyroll.reasons import Reason

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline


@dataclass(frozen=True)
class LoadFiles:
    """The two files that a load keeps."""

    checkpoint: Checkpoint
    bad_file: BadFile

    @classmethod
    def of(
        cls,
        given: Sequence[str],
        options: Mapping[str, str | None],
        checkpoint: str | None,
        bad: str | None,
        places: Sequence[Place],
        *,
        dry: bool = False,
    ) -> LoadFiles:
        """The files that were named, or those named after the queue and what is loaded. A `dry` run
        writes none. Raises UsageError.
        """
        identifying = "\n".join((str(options["queue"]), *given))
        name = blake2b(identifying.encode(), digest_size=5).hexdigest()
        path = Path(checkpoint or CHECKPOINT.format(name))
        bad_path = Path(bad or BAD_LINES.format(name))
        sources = {place.path.resolve() for place in places if place.path}
        for option, file in (("checkpoint", path), ("bad", bad_path)):
            if file.resolve() in sources:
                raise UsageError(f"--{option} {str(file)!r} is a file that is being loaded")
            if file.exists() and not file.is_file():
                raise UsageError(f"--{option} {str(file)!r} is no regular file")
            if not file.parent.is_dir():
                raise UsageError(f"--{option} {str(file)!r}: there is no such directory")
            if not os.access(file if file.exists() else file.parent, os.W_OK):
                raise UsageError(f"--{option} {str(file)!r} cannot be written")
        if path.resolve() == bad_path.resolve():
            raise UsageError(f"--checkpoint, --bad: {str(path)!r} cannot be both")
        if bad and not are_bad_lines(bad_path):
            raise UsageError(f"--bad {bad!r} is there already, and no load has made it")
        found = Checkpoint(path, options, dry=dry)
        if not (found.resumed or dry):
            bad_path.unlink(missing_ok=True)  # of an earlier load
        return cls(found, BadFile(bad_path, found.totals.bad_bytes, dry=dry))


class Loading:
    """Opens windows, loads, and reports."""

    def __init__(
        self,
        made: Pipeline,
        screen: Screen,
        layout: SourceLayout,
        kept: LoadFiles,
        awaiting: Awaiting,
    ) -> None:
        self._made = made
        self._screen = screen
        self._layout = layout
        self._kept = kept
        self._awaiting = awaiting
        self._dry = kept.checkpoint.dry
        self._listed = 0
        self._load: Load | None = None

    @property
    def status(self) -> int:
        """The command's exit status."""
        assert self._load
        bad = self._kept.checkpoint.totals.bad or self._load.loaded.bad
        return self._awaiting.status or int(bool(bad))

    def open_windows(
        self, calendar: Calendar, places: Sequence[Place], accept_for_ms: int, timeout_ms: int
    ) -> None:
        """Open the past windows that the events of these places need, and wait until they are. A
        dry run tells which these are.
        """
        made, screen = self._made, self._screen
        needed: set[Span] = set()
        span = Span(0, 0)
        left = pending(places, self._kept.checkpoint)
        with screen.progress("reading", sum(place.size for place in left)) as bar:

            def on_progress(at: LoadProgress) -> None:
                bar(completed=at.position, done=number_of(at.events, "event"), counted=at.events)

            for ts in times(left, self._layout, on_progress):
                if ts not in span:
                    span = calendar.grid.at(ts)
                    needed.add(span)
        for shape in self._layout.shapes.values():
            shape.notes.clear()  # of lines that are read once more
        past = past_of(calendar, needed)
        absent = absent_of(made.catalog, past)
        if self._dry:
            self._expect(absent)
            return
        now, settings = made.effects.now(), made.settings
        with screen.progress("creating", len(absent)) as bar:
            created = 0

            def on_created() -> None:
                nonlocal created
                created += 1
                bar(completed=created, done=f"{created} of {len(absent)} windows")

            windows = open_needed(
                *(made.catalog, calendar, settings.name, past, now, accept_for_ms),
                settings.store,
                on_created,
            )
        if not windows:
            return
        with screen.progress("opening", len(windows)) as bar:

            def opened(states: Sequence[Window]) -> None:
                done = sum(window.status is not Status.CREATING for window in states)
                # Nothing happens until the roller's next run.
                every = f", the roller runs every {settings.roller_period_ms / 1000:g} s"
                bar(completed=done, done=f"{done} of {len(windows)} windows{'' if done else every}")

            windows = _wanted(
                wait_open(made.catalog, windows, made.effects, timeout_ms, opened), windows
            )
        self._tell_windows(windows)

    def _expect(self, absent: Sequence[Span]) -> None:
        """Go on as if these windows were open."""
        self._awaiting.producer.expect_windows({span.id for span in absent})
        if absent:
            names = some([span.id for span in absent])
            self._screen.tell(f"{number_of(len(absent), 'past window')} would be opened: {names}")

    def _tell_windows(self, windows: Sequence[Window]) -> None:
        screen, now = self._screen, self._made.effects.now()
        late = [window.id for window in windows if window.status is Status.CREATING]
        taking = [window for window in windows if takes_events(window, now)]
        if taking:
            until = min(window.accept_until or 0 for window in taking)
            screen.tell(
                f"{number_of(len(taking), 'past window')} open: each seals by itself after its"
                f" time is over, from {iso(until)} on"
            )
        if late:
            raise TallyrollError(
                f"nothing was loaded: {some(late)} not open yet: does the roller run? The same"
                " command waits on"
            )

    def load(self, places: Sequence[Place], *, skip_changes: bool) -> None:
        """Load what the checkpoint does not know as loaded. An interrupt ends it."""
        awaiting, screen, kept = self._awaiting, self._screen, self._kept
        if kept.checkpoint.resumed:
            totals = kept.checkpoint.totals
            screen.tell(
                f"going on after {number_of(totals.records, 'line')} at the checkpoint"
                f" {kept.checkpoint.path}"
            )
        with screen.progress("loading", sum(place.size for place in places)) as bar:

            def on_progress(at: LoadProgress) -> None:
                done = number_of(at.events, "event") + ", reading the next" * at.reading
                completed, total = max(0, at.position - at.before), at.size - at.before
                bar(completed=completed, total=total, done=done, counted=at.events)

            load = self._load = Load(
                awaiting.producer,
                self._layout,
                kept.checkpoint,
                kept.bad_file,
                skip_changes=skip_changes,
                on_progress=on_progress,
                listed=self._list,
                keep_up=awaiting.keep_up,
            )
            try:
                load.run(places)
                awaiting.finish()
            except KeyboardInterrupt:
                awaiting.producer.interrupt()
            except StoreError:
                self._tell_checkpoint()
                raise
        awaiting.expect()
        sent = awaiting.producer.sent
        if load.complete and not sent.interrupted:
            kept.checkpoint.remove()

    def _tell_checkpoint(self) -> None:
        path = self._kept.checkpoint.path
        if path.exists() and not self._dry:
            self._screen.tell(f"the same command goes on at the checkpoint {path}")

    def _list(self, source: str, record: SourceRecord, bad: BadRecord | Rejected) -> None:
        self._listed += 1
        if self._listed <= LISTED_MAX:
            text = record.text
            held = f", in {shown(text)}" if text else ""
            self._screen.tell(f"{source}, line {record.number}: {bad}{held}")

    def report(self) -> None:
        """Tell what needs attention, and show the numbers. Raises Refused if nothing was sent."""
        load = self._load
        assert load
        screen = self._screen
        LoadReport(
            self._awaiting.producer, self._awaiting.arrivals, None, None, screen, load, self._kept
        ).show()
        self._tell_checkpoint()
        for shape in self._layout.shapes.values():
            for note, count in shape.notes.items():
                screen.tell(f"{number_of(count, 'line')} {note}")
        self._awaiting.refuse_nothing()


def _wanted(found: Sequence[Window], windows: Sequence[Window]) -> list[Window]:
    ids = {window.id for window in windows}
    return [window for window in found if window.id in ids]


@dataclass(frozen=True, slots=True)
class LoadReport(SendReport):
    """The report of a load."""

    load: Load
    kept: LoadFiles

    @property
    def dry(self) -> bool:
        """Whether nothing was sent."""
        return self.kept.checkpoint.dry

    @property
    def sent_as(self) -> str:
        """What the events that the queue took are called, or would be."""
        return "events to be sent" if self.dry else "events sent"

    def tell_sending(self) -> None:
        """Tell what was left out, and what was not sent."""
        load, tell = self.load, self.screen.tell
        if (more := load.loaded.bad.total() - LISTED_MAX) > 0:
            tell(f"... and {more:,} more bad lines")
        if self.bad and not self.dry:
            tell(f"{number_of(self.bad.total(), 'bad line')}: {self.kept.bad_file.path}")
        for reason, remedy in _REMEDIES.items():
            if self.bad[reason]:
                tell(f"{reason}: {remedy}")
        loaded = load.events_before + self.producer.sent.events * self.producer.named
        if loaded and not self.dry and any(self.bad[reason] for reason in _BY_OTHER_OPTIONS):
            tell(
                f"{number_of(loaded, 'event')} of this load would count again with other options,"
                " unless they have ids: correct the bad lines, and load them as a file of their own"
            )
        for note in load.loaded.notes:
            tell(note)
        self.tell_lost()

    @property
    def bad(self) -> Counter[str]:
        """The bad lines, with those of the runs before."""
        return self.load.earlier("bad") + self.load.loaded.bad

    @property
    def skipped(self) -> Counter[str]:
        """The rows that were skipped, with those of the runs before."""
        return self.load.earlier("skipped") + self.load.loaded.skipped

    def warnings(self) -> list[str]:
        """What to tell of events that no window takes."""
        return self.producer.warnings(load=True)

    def rejections(self) -> Mapping[str, int]:
        """The bad lines by their reasons."""
        return self.bad

    def more_rows(self) -> list[tuple[str, Cell]]:
        """The rows that only a load has."""
        done = "read" if self.dry else "loaded"
        rows: list[tuple[str, Cell]] = [(f"sources {done}", self.load.loaded.sources)]
        if earlier := self.load.events_before:
            rows.append(("events sent before", earlier))
        rows += [(f"skipped: {kind}", count) for kind, count in sorted(self.skipped.items())]
        return rows

    def more_json(self) -> dict[str, Any]:
        """The fields that only a load has."""
        checkpoint = self.kept.checkpoint.path
        return {
            "sources": self.load.loaded.sources,
            "events_before": self.load.events_before,
            "skipped": dict(self.skipped),
        } | known(
            dry_run=self.dry or None,
            bad_file=str(self.kept.bad_file.path) if self.bad and not self.dry else None,
            checkpoint=str(checkpoint) if checkpoint.exists() else None,
        )


_BY_OTHER_OPTIONS = (Reason.TS_IN_SECONDS, Reason.BAD_TS, Reason.TS_REQUIRED)
_REMEDIES = {
    Reason.TS_IN_SECONDS: "give --ts-unit s",
    Reason.BAD_TS: (
        "a time is a number, in the unit of --ts-unit, or ISO 8601; --ts COLUMN takes another"
        " column, --ts-value T one time for all events"
    ),
    Reason.BAD_VALUE: (
        f"a value is a number of at most {VALUE_DECIMALS_MAX} decimals;"
        f" --round {VALUE_DECIMALS_MAX} rounds it to these, and counts none of the other lines"
        " again"
    ),
    Reason.TS_REQUIRED: (
        "give --ts COLUMN, or --ts-value T for all of them; `tallyroll send` counts events without"
        " a time in the current window"
    ),
    "update": "--changes skip leaves updated rows out; what was counted stays counted",
    "delete": "--changes skip leaves deleted rows out; what was counted stays counted",
}
