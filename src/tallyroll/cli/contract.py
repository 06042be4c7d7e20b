"""`tallyroll validate` and `tallyroll schema`: the message contract, without AWS."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from tallyroll.cli.arguments import now_ms
from tallyroll.cli.screen import Cell, Screen, number_of
from tallyroll.client.jsonlines import LineSource, UnreadableInput
from tallyroll.client.validation import BadLine, GoodLine, Validation
from tallyroll.errors import UsageError
from tallyroll.model.foreign.mapping import check_mapping
from tallyroll.model.foreign.mappings import UNMAPPED, are_fields
from tallyroll.model.formats.json_texts import canonical
from tallyroll.operations.schemas import schema_text
from tallyroll.reasons import Reason

TOLD_EVERY = 1_000
NOTES_SHOWN = 10


def validate(
    file: str | None = None,
    /,
    *,
    stdin: Annotated[bool, Parameter("-")] = False,
    mapping: str | None = None,
    as_json: Annotated[bool, Parameter(parse=False)],
) -> int:
    """Check messages before they are sent.

    They are JSON Lines from a file or stdin (also gzip or Zstandard), a message a
    line: an event or a packet, by itself or in an envelope of SNS, EventBridge or
    CloudEvents. Each bad line is named with the path of what is
    wrong and the reason, which is that of the writer: it has the same parser.
    Neither AWS nor a pipeline is asked. So it is not told what depends on them:
    whether a window takes the event, and whether its id was used before.

    With --mapping, messages of other systems are read as in a pipeline that had
    this mapping from its beginning, and as if they were sent now. For each good
    line it prints the keys under which the message counts.

    Notes at the end are about lines that count, but perhaps not as they were
    meant: they have a member that no writer reads, or one member twice. Notes do
    not change the exit status.

    With --json, each bad line is an object with `line`, `path`, `reason` and
    `detail`, and the last line is the summary, with the notes in `notes`. With
    --mapping, each good line is an object with `line`, `keys` and `id`, which is
    null if the id is that of the SQS message.

    Exit status:
      0  all lines are messages
      1  there are bad lines, or the input cannot be read to its end
      2  wrong use

    For example:
      tallyroll validate events.jsonl.gz
      head -1000 events.jsonl | tallyroll validate -
      tallyroll validate --mapping '{"key": "detail.videoId"}' captured.jsonl

    :param file: JSON Lines
    :param stdin: stdin, as without FILE
    :param mapping: the setting TALLYROLL_MAPPING, as JSON or as the name of a file that holds it
    """
    screen = Screen(json=as_json)
    mapping_text = _mapping_in(mapping) if mapping is not None else UNMAPPED
    with closing(LineSource("-" if stdin else file)) as source:
        if stdin or file in (None, "-"):
            screen.await_stdin("messages as JSON Lines")
        validation = Validation(source, mapping_text, now_ms())
        is_read = _show_lines(validation, screen)
    _show_summary(validation, screen)
    return int(bool(validation.bad) or not is_read)


def _mapping_in(given: str) -> str:
    """The canonical text of a mapping, which is given as JSON or by the name of its file."""
    text, what = given, "--mapping"
    if not given.lstrip().startswith("{"):
        what = f"--mapping {given}"
        try:
            text = Path(given).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problem = "neither a JSON object nor a readable file"
            raise UsageError(f"{what}: {problem}: {error}") from None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what}: not JSON: {error}") from None
    if not are_fields(fields):
        wanted = '{"key": "expression"} or {"keys": ["template", ...]}'
        raise UsageError(f"{what}: must be {wanted}")
    try:
        check_mapping(fields)
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None
    return canonical(fields)


def _show_lines(validation: Validation, screen: Screen) -> bool:
    """Show each bad line, and with a mapping each good one; False if the input cannot be read to
    its end.
    """
    source = validation.source
    with screen.progress("validating", source.size) as bar:
        try:
            for line in validation.verdicts():
                if isinstance(line, BadLine) or validation.mapping:
                    screen.line(_json(line), _text(line))
                if validation.lines % TOLD_EVERY == 0:
                    done = number_of(validation.lines, "line")
                    bar(completed=source.position, done=done)
        except UnreadableInput as error:
            screen.tell(f"the input is broken: {error}")
            return False
    sys.stdout.flush()
    return True


def _json(line: BadLine | GoodLine) -> dict[str, Any]:
    if isinstance(line, GoodLine):
        return {"line": line.number, "keys": list(line.keys), "id": line.id}
    return {"line": line.number, "path": line.path, "reason": line.reason, "detail": line.detail}


def _text(line: BadLine | GoodLine) -> str:
    if isinstance(line, GoodLine):
        return f"line {line.number}: {', '.join(line.keys)}"
    return f"line {line.number}: {line.path}: {line.reason}: {line.detail}"


def _show_summary(validation: Validation, screen: Screen) -> None:
    bad = validation.bad.total()
    if screen.json:
        screen.emit(
            {
                "lines": validation.lines,
                "events": validation.events,
                "packets": validation.packets,
                "packed_events": validation.packed_events,
                "bad": bad,
                "reasons": dict(validation.bad),
                "notes": validation.notes.as_json(),
            }
        )
        return
    if validation.lines and bad == validation.lines == validation.bad[Reason.NOT_JSON]:
        screen.tell("no line is JSON: a message takes one line, as `jq -c .` writes it")
    rows: list[tuple[str, Cell]] = [
        ("lines", validation.lines),
        ("events", validation.events),
        ("packets", validation.packets),
        ("events in packets", validation.packed_events),
        ("bad lines", bad),
    ]
    rows += [(f"bad: {reason}", count) for reason, count in sorted(validation.bad.items())]
    screen.table(("", "count"), rows)
    notes = validation.notes.texts()
    for note in notes[:NOTES_SHOWN]:
        screen.line({}, f"note: {note}")
    if len(notes) > NOTES_SHOWN:
        screen.line({}, f"and {len(notes) - NOTES_SHOWN:,} more: --json lists them")


def schema(
    name: Literal[
        "event",
        "packet",
        "compressed",
        "referring",
        "message",
        "retraction",
        "rejection",
        "problem",
    ],
    /,
) -> None:
    """Print a JSON Schema (draft 2020-12) of the message contract.

    `message` is what a producer sends: an event, an event that refers to an
    uploaded payload (`referring`), a packet, or a compressed packet.
    `rejection` is a dead letter, `problem` an error of the HTTP API.

    For example:
      tallyroll schema message > message.v1.json

    :param name: which
    """
    sys.stdout.write(schema_text(name))
