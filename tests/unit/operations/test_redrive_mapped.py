"""Redrive of messages of other systems: by the mapping of their sending, or a later one that can
read them.
"""

from __future__ import annotations

from dataclasses import replace

from tallyroll.limits import MAPPED_AHEAD_MS
from tallyroll.model.windows import window_start
from tallyroll.operations.letter_events import LetterOutcome
from tallyroll.reasons import Reason
from tests.harness.pipeline import MINUTE, SMALL, TIME_LEFT, Pipeline, hour, opened
from tests.harness.redriving import LATE, Operator, drain, reject, seal

BY_VIDEO = {"key": "video", "id": "view", "ts": "at"}


def deployed(pipeline: Pipeline, mapping: dict[str, str]) -> None:
    pipeline.settings = replace(pipeline.settings, mapping=mapping)
    pipeline.roller().run(TIME_LEFT)
    pipeline.effects.pass_by(MAPPED_AHEAD_MS)


def body(at: int) -> str:
    return f'{{"video": "v1", "channel": "c1", "view": "view-1", "at": {at}}}'


def test_what_a_wrong_mapping_rejected_counts_after_it_was_mended() -> None:
    pipeline = opened(replace(SMALL, mapping={**BY_VIDEO, "key": "vidoe"}))
    pipeline.queue.send(body(pipeline.effects.now()))
    drain(pipeline)
    assert pipeline.reasons() == [Reason.MAPPING_FAILED]
    operator = Operator(pipeline)
    still = operator.one()
    assert (still.course, still.why) == (LetterOutcome.LEFT, Reason.MAPPING_FAILED)
    assert "there is no 'vidoe'" in still.detail

    deployed(pipeline, BY_VIDEO)

    assert operator.one().course is LetterOutcome.REDRIVEN
    drain(pipeline)
    assert pipeline.tally("v1")[0] == 1
    assert pipeline.queue.dead_letters == []


def test_a_late_message_is_redriven_by_the_mapping_of_its_sending() -> None:
    pipeline = opened(replace(SMALL, mapping=BY_VIDEO))
    pipeline.queue.send(body(LATE))
    drain(pipeline)
    assert pipeline.reasons() == ["too-late"]
    seal(pipeline, hour(6))
    deployed(pipeline, {**BY_VIDEO, "key": "channel"})

    operator = Operator(pipeline)
    assert operator.one().course is LetterOutcome.REDRIVEN
    drain(pipeline)

    assert [pipeline.tally(key)[0] for key in ("v1", "c1")] == [1, 0]
    assert pipeline.queue.dead_letters == []


def test_a_letter_that_no_writer_read_settles_its_mapping_first() -> None:
    """A mapping that is deployed after the redrive cannot give it another key."""
    pipeline = opened(replace(SMALL, mapping=BY_VIDEO))
    sent = pipeline.effects.now()
    reject(pipeline, body(sent), Reason.CRASHES_WRITER)
    operator = Operator(pipeline)
    assert operator.one().course is LetterOutcome.REDRIVEN
    calendar = pipeline.catalog.calendar()
    assert calendar
    assert calendar.mappings.until == sent + 1

    deployed(pipeline, {**BY_VIDEO, "key": "channel"})
    drain(pipeline)

    assert [pipeline.tally(key)[0] for key in ("v1", "c1")] == [1, 0]
    assert window_start(hour(8)) < sent < window_start(hour(8)) + 60 * MINUTE


def test_a_page_settles_the_mapping_of_its_newest_letter() -> None:
    pipeline = opened(replace(SMALL, mapping=BY_VIDEO))
    for _ in range(2):
        pipeline.effects.pass_by(MINUTE)
        reject(pipeline, body(pipeline.effects.now()), Reason.CRASHES_WRITER)
    newest = pipeline.effects.now()
    assert len(Operator(pipeline).decide()) == 2
    calendar = pipeline.catalog.calendar()
    assert calendar
    assert calendar.mappings.until == newest + 1


def test_a_time_of_sending_that_lies_ahead_settles_no_mapping_until_then() -> None:
    """Anybody can set it: it would keep the operator from another mapping for as long."""
    pipeline = opened(replace(SMALL, mapping=BY_VIDEO))
    reject(pipeline, body(pipeline.effects.now()), Reason.CRASHES_WRITER)
    operator = Operator(pipeline)
    [letter] = operator.letters.peek(1, 0)
    ahead = pipeline.effects.now() + 300 * 24 * 60 * MINUTE
    operator.redriver().decide([replace(letter, first_sent=ahead)])
    calendar = pipeline.catalog.calendar()
    assert calendar
    assert calendar.mappings.until <= pipeline.effects.now() + 1
