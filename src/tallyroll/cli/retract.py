"""`tallyroll retract`: one event is taken back."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from cyclopts import Parameter

from tallyroll.cli.arguments import BUCKET, DURATION, HAPPENED, WINDOW, Run, exclusive
from tallyroll.cli.screen import Screen, known
from tallyroll.errors import Absent, Refused, Rejected, UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.retractions import Retraction, RetractionNote
from tallyroll.model.stored import packed_id
from tallyroll.model.windows import iso
from tallyroll.operations.deployed import deployed
from tallyroll.operations.retraction.desk import Retractable, RetractionDesk, check_allowed
from tallyroll.operations.retraction.effect import RetractionEffect
from tallyroll.pipeline import Pipeline
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.reasons import Reason
from tallyroll.settings import Settings

DONE, NOT_DONE = 0, 1
_WHERE = exclusive()
_WAY = exclusive()


def retract(
    key: str,
    event_id: Annotated[str, Parameter("ID")],
    /,
    *,
    ts: Annotated[int | None, HAPPENED, Parameter(group=_WHERE)] = None,
    window: Annotated[str | None, WINDOW, Parameter(group=_WHERE)] = None,
    index: Annotated[int | None, Parameter(metavar="N")] = None,
    keys: Annotated[list[str] | None, Parameter(metavar="K")] = None,
    by: Annotated[str | None, Parameter(metavar="WHO")] = None,
    why: Annotated[str, Parameter(metavar="WHY")] = "",
    dry_run: Annotated[bool, Parameter(group=_WAY)] = False,
    wait: Annotated[bool, Parameter(group=_WAY)] = False,
    timeout: Annotated[int, DURATION] = 15 * 60_000,
    bucket: Annotated[str | None, BUCKET] = None,
    run: Run,
) -> int:
    """Take an event back: it is counted no longer.

    Shows what there is of the event, authorizes its retraction in the catalog, and
    sends a message, which a writer carries out: once, however often it is sent. An
    event that is not there yet is waited for. Its payload is not erased, and its
    id stays taken: to amend an event, retract it, and send another under a new id.

    An event of several keys is taken back from all of them. Once its window was
    dropped, the event is looked for in the whole archive, which may take a while.
    The pipeline must allow it (the setting retraction).

    For example:
      tallyroll retract candidate-7 ballot-123 --ts 2026-11-20T08:15:00Z
      tallyroll retract video-42 0193a1c0-7b1e-4c39-9d4f-6e1f0a2b3c4d:17 --ts -1h
      tallyroll retract k e1 --window 20261120T080000Z --why "a test" --wait

    :param key: its key, or one of its keys
    :param event_id: its id; of a packed event {packet id}:{index}
    :param index: the index of an event in the packet ID, from 0
    :param keys: all its keys, if a release before this option stored it
    :param by: who takes it back: kept with it; the user of this machine if left out
    :param why: why: kept with it
    :param dry_run: only say what would be done
    :param wait: wait until it is taken back or rejected
    :param timeout: wait no longer than that (15m by default)
    """
    if ts is None and window is None:
        raise UsageError(f"event {event_id!r}: say when it happened, by --ts or --window")
    settings = _deployed(run)
    check_allowed(settings)
    if bucket:
        settings = replace(settings, bucket=bucket)
    made = run.pipeline(settings)
    where = None if window is None else run.window(made, window)
    more = {"index": index, "by": _user() if by is None else by, "why": why}
    try:
        asked = Retraction.of(key, event_id, keys or (), ts=ts, window=where, **more)
    except Rejected as rejected:
        raise UsageError(rejected.detail) from None
    run = replace(run, settings=settings)
    return RetractRun(run, made, asked, timeout).run_it(dry_run=dry_run, wait=wait)


def _deployed(run: Run) -> Settings:
    """The deployment's settings, as far as they are known."""
    return deployed(run.settings, run.pipeline().deployment, run.screen.tell).settings


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise UsageError("this machine has no name for its user: give --by") from None


@dataclass(frozen=True)
class RetractRun:
    """One run of `tallyroll retract`."""

    run: Run
    made: Pipeline
    asked: Retraction
    timeout_ms: int

    def run_it(self, *, dry_run: bool, wait: bool) -> int:
        """Find the event, and take it back; the command's exit status."""
        screen, made = self.run.screen, self.made
        with screen.progress("looking") as bar:

            def on_items(read: int, of: int) -> None:
                bar(read, f"{read:,} items of the archive", total=of, counted=read)

            desk = self._desk(on_items)
            try:
                found = desk.find(self.asked)
            except Rejected as rejected:
                absent = rejected.reason is Reason.NOTHING_TO_RETRACT
                raise (Absent if absent else UsageError)(rejected.detail) from None
        if found.note:
            return self._show(found, "already retracted", found.note)
        if found.hopeless:
            raise Absent(_nothing(found))
        if dry_run:
            return self._show(found, "would be retracted")
        settings = self.run.with_queues() if wait else self.run.with_queue()
        made = self.run.pipeline(settings)
        effect = RetractionEffect(desk, made.queue, made.dead_letters, made.effects)
        desk.authorize(found)
        if failures := made.sender.send([found.retraction.body]):
            raise Refused(f"authorized, but not certainly sent: {failures[0].detail}: run it again")
        if not wait:
            return self._show(found, "sent")
        with screen.progress("waiting") as bar:
            outcome = effect.wait(found, self.timeout_ms, lambda: bar(0, "for the writer"))
        if isinstance(outcome, RetractionNote):
            return self._show(found, "retracted", outcome)
        if isinstance(outcome, ReceivedLetter):
            screen.tell(f"rejected, {outcome.why}: {outcome.detail}")
            screen.tell("what to do about it: docs/reasons.md; the letter: tallyroll dlq list")
            return self._show(found, "rejected", status=NOT_DONE)
        if found.found:
            screen.tell(
                "not carried out yet, nor found among the dead letters; `tallyroll doctor` looks"
                " for the cause"
            )
        return self._show(found, "sent", status=NOT_DONE)

    def _desk(self, on_items: Any) -> RetractionDesk:
        made = self.made
        return RetractionDesk(
            made.settings,
            made.store,
            made.catalog,
            made.totals,
            self._bucket,
            made.codec,
            made.effects,
            on_items,
        )

    def _bucket(self) -> ArchiveBucket:
        if not self.made.settings.bucket:
            raise UsageError(
                "the event's window was dropped, and its archive is in no bucket known here: give"
                " --bucket, or set TALLYROLL_BUCKET"
            )
        return self.made.bucket

    def _show(
        self,
        found: Retractable,
        result: str,
        note: RetractionNote | None = None,
        status: int = DONE,
    ) -> int:
        """Show what there is of the event and what was done; return the exit status."""
        screen = self.run.screen
        if screen.json:
            screen.emit(_json(found, result, note))
            return status
        _table(found, result, screen)
        if note:
            at = "" if note.at is None else f" at {iso(note.at)}"
            screen.tell(
                f"retracted by {note.by or 'somebody'}{at}: {note.why or 'no reason given'}"
            )
        elif not found.found and result in ("sent", "would be retracted"):
            screen.tell(
                f"the event is not in {found.window} yet: its retraction waits for it, and is"
                " rejected (nothing-to-retract) if it does not come in time"
            )
            asked = found.retraction
            if asked.index is None and (packed := packed_id(asked.id)):
                packet, index = packed
                screen.tell(
                    f"for an event of a packet that is not there yet: {packet} --index {index}"
                )
        return status


def _nothing(found: Retractable) -> str:
    asked = found.retraction
    state = found.state
    assert state
    return (
        f"there is no event {asked.id!r} of key {asked.key!r} in {found.window}, which is"
        f" {state.status}: are key, id and time those of the event (tallyroll events), or is it a"
        " dead letter (tallyroll dlq list)?"
    )


def _json(found: Retractable, result: str, note: RetractionNote | None) -> dict[str, Any]:
    asked, first = found.retraction, found.tombstones[0] if found.found else None
    return known(
        key=asked.key,
        keys=[*asked.keys] if asked.other_keys else None,
        id=asked.id,
        index=asked.index,
        window=asked.window,
        counted_in=found.window,
        state=found.state and found.state.status,
        ts=first and first.ts,
        events=first.n if first else 0,
        sum=first and format_amount(first.amount),
        result=result.replace(" ", "-"),
        by=note.by if note else asked.by,
        why=note.why if note else asked.why,
        at=iso(note.at) if note and note.at is not None else None,
    )


def _table(found: Retractable, result: str, screen: Screen) -> None:
    asked = found.retraction
    one = asked.id if asked.index is None else f"{asked.id}:{asked.index}"
    state = found.state.status if found.state else "not made"
    heads = ("key", "id", "time", "window", "state", "events", "sum", "result")
    keys: Sequence[str] = asked.keys
    rows = [
        (key, one, iso(each.ts), found.window, state, each.n, format_amount(each.amount), result)
        for key, each in zip(keys, found.tombstones, strict=False)
    ]
    nothing = [(key, one, "", found.window, state, 0, "", result) for key in keys]
    screen.table(heads, rows or nothing)
