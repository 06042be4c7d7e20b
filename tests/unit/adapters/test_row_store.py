"""A store on single rows: what counts, and what reads give while a window is being closed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from tallyroll.adapters.rows import folding
from tallyroll.adapters.rows.metering import METERING, ROW_BYTES_MAX
from tallyroll.errors import Missing, Refused, StateConflict, StoreError, Throttled, Unknown
from tallyroll.model.events import Event
from tallyroll.model.formats.payloads import Chunk, PayloadLayout
from tallyroll.model.formats.references import Mark
from tallyroll.model.items import Gate
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, record_of
from tallyroll.model.states import Status
from tallyroll.model.tallies import Tally
from tallyroll.ports.store import Answer, Store, Verdict
from tests.harness.payloads import NOISE, noise
from tests.harness.pipeline import NOW, spec_of
from tests.harness.row_stage import RowStage as Stage
from tests.harness.row_stage import opened_rows, row


@pytest.fixture
def stage() -> Stage:
    return opened_rows()


def test_it_is_a_store_without_transactions(stage: Stage) -> None:
    store: Store = stage.store
    assert not store.transactional
    assert not store.metering_of("").tallied


# --- commits


def test_each_record_has_its_own_answer(stage: Stage) -> None:
    assert stage.commit(row("a"), row("b")).verdict is Verdict.COMMITTED
    outcome = stage.commit(row("a"), row("c"), row("d", data=b"0" * ROW_BYTES_MAX))
    assert outcome.verdict is Verdict.BY_RECORD
    answers = [element.answer for element in outcome.records]
    assert answers == [Answer.DUPLICATE, Answer.FINE, Answer.INVALID]
    assert outcome.records[0].digest == row("a").digest
    assert stage.ids("k") == ["a", "b", "c"]


def test_an_event_of_several_keys_is_refused_whole(stage: Stage) -> None:
    """By a mapping of earlier days, say: one key without the others would never be mended."""
    group = replace(row("a"), others=(row("a", key="other"),))
    outcome = stage.commit(group, row("a", key="other"))
    assert outcome.verdict is Verdict.INVALID
    assert "several keys" in outcome.detail
    assert stage.ids("k") == stage.ids("other") == []


@pytest.mark.parametrize(
    ("error", "answer"),
    [(Throttled("slow"), Answer.THROTTLED), (Unknown("no quorum"), Answer.UNKNOWN)],
    ids=["throttled", "unknown"],
)
def test_an_insert_that_fails_leaves_its_record_open(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: StoreError, answer: Answer
) -> None:
    insert = stage.rows.insert

    def failing(table: str, one: Record) -> bytes | None:
        if one.id == "a":
            raise error
        return insert(table, one)

    monkeypatch.setattr(stage.rows, "insert", failing)
    outcome = stage.commit(row("a"), row("b"))
    assert [element.answer for element in outcome.records] == [answer, Answer.FINE]


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (Throttled("slow"), Verdict.THROTTLED),
        (Unknown("no quorum"), Verdict.UNKNOWN),
        (Missing("no table"), Verdict.GATE_MISSING),
    ],
    ids=["throttled", "unknown", "missing"],
)
def test_without_the_look_that_follows_nothing_is_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: StoreError, verdict: Verdict
) -> None:
    gate, looks = stage.rows.gate, iter([None, error])

    def look(table: str, number: int) -> bool | None:
        if failure := next(looks, None):
            raise failure
        return gate(table, number)

    monkeypatch.setattr(stage.rows, "gate", look)
    assert stage.commit(row("a")).verdict is verdict
    assert stage.commit(row("a")).records[0].answer is Answer.DUPLICATE


def test_without_a_table_the_gate_is_missing(stage: Stage) -> None:
    while stage.store.describe_table(stage.spec.table):
        stage.store.drop_table(stage.spec.table)
    assert stage.commit(row("a")).verdict is Verdict.GATE_MISSING


def _shut_meanwhile(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all gates be shut, and the window be folded, just before the next insert."""
    insert = stage.rows.insert

    def late(table: str, one: Record) -> bytes | None:
        monkeypatch.setattr(stage.rows, "insert", insert)
        stage.shut()
        stage.fold()
        return insert(table, one)

    monkeypatch.setattr(stage.rows, "insert", late)


def test_a_row_that_comes_after_the_list_is_uncounted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.commit(row("a"), row("b"))
    _shut_meanwhile(stage, monkeypatch)
    assert stage.commit(row("uncounted")).verdict is Verdict.GATE_SHUT
    assert stage.commit(row("a")).verdict is Verdict.GATE_SHUT

    uncounted = row("uncounted")
    assert stage.rows.row(stage.spec.table, "k", uncounted.shard, "uncounted")
    assert stage.store.record(stage.spec, "k", "uncounted") is None
    names = [("k", name) for name in ("a", "b", "uncounted")]
    assert list(stage.store.lookup(stage.spec, names)) == names[:2]
    assert stage.ids("k") == ["a", "b"]
    assert stage.store.tallies(stage.spec, ["k"])["k"].n == 2
    found = stage.scanned()
    assert sorted(one.id for one in found if isinstance(one, Record)) == ["a", "b"]
    gates = [one for one in found if isinstance(one, Gate)]
    assert len(gates) == stage.spec.gates
    assert not any(gate.open for gate in gates)


def test_a_sum_of_rows_is_looked_at_again_if_the_window_is_closed_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum may hold an uncounted row: a count above the truth, which would go back later."""
    stage.commit(row("a"))
    tally = stage.rows.tally

    def late(table: str, key: str, shards: int) -> Tally:
        stage.shut()
        stage.fold()
        stage.rows.insert(table, row("uncounted"))
        return tally(table, key, shards)

    monkeypatch.setattr(stage.rows, "tally", late)
    assert stage.store.tallies(stage.spec, ["k"])["k"].n == 1


def test_another_content_in_the_place_of_a_listed_row_is_uncounted(stage: Stage) -> None:
    stage.commit(row("a"))
    stage.shut()
    stage.fold()
    place = (stage.spec.table, "k", row("a").shard, "a")
    known = stage.rows.row(*place)
    assert known
    object.__setattr__(known, "digest", b"another")
    assert stage.store.record(stage.spec, "k", "a") is None


def test_a_page_of_uncounted_rows_is_passed_over(stage: Stage) -> None:
    stage.commit(*(row(f"z{n}") for n in range(8)))
    stage.shut()
    stage.fold()
    for number in range(60):
        stage.rows.insert(stage.spec.table, row(f"a{number:02}"))
    assert stage.ids("k") == [f"z{n}" for n in range(8)]


def test_in_an_empty_list_no_row_counts(stage: Stage) -> None:
    stage.shut()
    stage.fold()
    stage.rows.insert(stage.spec.table, row("a"))
    assert stage.store.record(stage.spec, "k", "a") is None


UPLOADS = ["payloads/votes/2026-11-20/x", "payloads/votes/2026-11-20/y"]
FIRST, SECOND = (replace(row("a"), attachments=(Mark(key),)) for key in UPLOADS)


@pytest.mark.parametrize("dies_at", ["mark", "row"])
def test_an_uploaded_payload_is_marked_before_its_row_is_there(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    """A writer that dies leaves a mark without a row, never a row without a mark."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        port, verb = (stage.catalog, "mark") if dies_at == "mark" else (stage.rows, "insert")
        patch.setattr(port, verb, die)
        with pytest.raises(KeyboardInterrupt):
            stage.commit(FIRST)
    assert stage.catalog.marked(UPLOADS) == (set() if dies_at == "mark" else {UPLOADS[0]})
    assert stage.ids("k") == []
    assert stage.commit(FIRST, row("b")).verdict is Verdict.COMMITTED
    assert stage.catalog.marked(UPLOADS) == {UPLOADS[0]}


@pytest.mark.parametrize("digest", [FIRST.digest, b"another content"], ids=["same", "another"])
def test_a_duplicate_marks_no_upload_of_its_own(stage: Stage, digest: bytes) -> None:
    assert stage.commit(FIRST).verdict is Verdict.COMMITTED
    [element] = stage.commit(replace(SECOND, digest=digest)).records
    assert (element.answer, element.digest) == (Answer.DUPLICATE, FIRST.digest)
    assert stage.catalog.marked(UPLOADS) == {UPLOADS[0]}


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (Throttled("slow"), Answer.THROTTLED),
        (Unknown("no answer"), Answer.UNKNOWN),
        (Missing("no catalog"), Answer.UNKNOWN),
    ],
    ids=["throttled", "unknown", "missing"],
)
def test_without_its_mark_no_row_is_put(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: StoreError, answer: Answer
) -> None:
    def fails(_: str) -> None:
        raise error

    monkeypatch.setattr(stage.catalog, "mark", fails)
    outcome = stage.commit(FIRST, row("b"))
    assert [one.answer for one in outcome.records] == [answer, Answer.FINE]
    assert stage.ids("k") == ["b"]


# --- reads while a window is being closed


READS_OF_KEYS: dict[str, Callable[[Stage], object]] = {
    "record": lambda stage: stage.store.record(stage.spec, "k", "a"),
    "lookup": lambda stage: stage.store.lookup(stage.spec, [("k", "a")]),
    "records": lambda stage: stage.store.records(stage.spec, "k", row("a").shard, "", 9),
    "tallies": lambda stage: stage.store.tallies(stage.spec, ["k"]),
}
READS = READS_OF_KEYS | {
    "stripes": lambda stage: list(stage.store.stripes(stage.spec, 1, "", 9)),
    "scan": lambda stage: stage.scanned(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_of_rows_waits_until_it_is_settled_what_counts(
    stage: Stage, read: Callable[[Stage], object]
) -> None:
    stage.commit(row("a"))
    stage.shut()
    with pytest.raises(Throttled) as told:
        read(stage)
    assert told.value.code == folding.NOT_FOLDED
    stage.fold()
    assert read(stage)


def test_what_has_no_row_surely_does_not_count(stage: Stage) -> None:
    stage.shut()
    assert stage.store.record(stage.spec, "k", "a") is None
    assert stage.store.lookup(stage.spec, [("k", "a")]) == {}


def test_a_key_without_rows_is_zero_though_no_gate_is_there_yet(stage: Stage) -> None:
    spec = replace(stage.spec, table=f"{stage.spec.table}-other")
    stage.store.make_table(spec.table, {})
    assert stage.store.tallies(spec, ["k"])["k"].n == 0


@pytest.mark.parametrize("read", READS_OF_KEYS.values(), ids=READS_OF_KEYS)
def test_rows_are_read_though_a_roller_died_before_it_put_all_gates(
    stage: Stage, read: Callable[[Stage], object]
) -> None:
    stage.commit(row("a"))
    stage.rows._gates.clear()
    assert read(stage)


def test_the_list_ends_with_its_table(stage: Stage) -> None:
    stage.commit(row("a"))
    stage.shut()
    stage.fold()
    for _ in range(2):
        stage.store.drop_table(stage.spec.table)
    stage.store.make_table(stage.spec.table, {})
    stage.rows.insert(stage.spec.table, row("a"))
    with pytest.raises(Missing):
        stage.store.record(stage.spec, "k", "a")


# --- gates and tables


def test_gates_outlive_their_table(stage: Stage) -> None:
    stage.shut()
    for _ in range(2):
        stage.store.drop_table(stage.spec.table)
    stage.store.make_table(stage.spec.table, {})
    with pytest.raises(Refused):
        stage.store.open_gates(stage.spec)
    with pytest.raises(Refused):
        stage.store.check_table(stage.spec.table, {})
    assert stage.commit(row("a")).verdict is Verdict.GATE_SHUT


def test_gates_are_opened_only_while_the_window_is_being_created(stage: Stage) -> None:
    window = stage.catalog.window(stage.spec.window)
    assert window
    stage.catalog.advance(replace(window, status=Status.OPEN))
    with pytest.raises(StateConflict):
        stage.store.open_gates(stage.spec)


def test_tables_are_those_of_the_rows(stage: Stage) -> None:
    table = stage.spec.table
    stage.store.recover_table(table)
    stage.store.reduce_capacity(table)
    stage.store.tag_table(table, {"proven": "x"})
    held = stage.rows.table(table)
    assert (held.recoverable, held.cooled) == (True, True)
    assert stage.store.tags(table) == {"proven": "x"}
    stage.store.make_table("fresh", {"tallyroll": "votes"})
    stage.store.check_table("fresh", {"tallyroll": "votes"})


# --- chunks


def _large(record_id: str, text: str = NOISE, chunk_bytes: int = 12_288) -> Record:
    event = Event("k", record_id, NOW, 10**6, json.dumps(text), ())
    layout = PayloadLayout(compress_over=10**7, chunk_over=24_576, chunk_bytes=chunk_bytes)
    return record_of(event, Message("m", "", NOW, 1, "r"), spec_of(), None, layout)


def test_neither_another_content_nor_another_division_touches_the_chunks(stage: Stage) -> None:
    event = _large("1")
    assert stage.commit(event).verdict is Verdict.COMMITTED
    divided, other = _large("1", chunk_bytes=30_000), _large("1", noise(300_000, 2))
    assert divided.digest == event.digest
    for again in (divided, other):
        assert stage.commit(again).records[0].answer is Answer.DUPLICATE
    assert list(stage.store.chunks(stage.spec, "k", "1", 99)) == list(event.chunks)
    assert stage.store.chunks(stage.spec, "k", "2", 9) == ()
    stage.shut()
    stage.fold()
    assert [one for one in stage.scanned() if isinstance(one, Chunk)] == list(event.chunks)


def test_a_record_costs_its_row_and_its_chunks() -> None:
    assert METERING.record_cost(row("a")) == 1
    assert METERING.record_cost(row("a", data=b"0" * 3_100)) == 4
    event = _large("1")
    stored = sum(len(chunk.data) for chunk in event.chunks)
    assert METERING.record_cost(event) == 1 + -(-stored // 1_024) + len(event.chunks)
    assert METERING.record_cost(replace(event, attachments=())) == METERING.record_cost(event)
    assert (METERING.shared_cost(9), METERING.likely_increments(9, 9)) == (0, 0)
    assert METERING.total_cost(9, 5) == 9


def test_a_scan_looks_at_one_gate_a_page_until_it_is_shut(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.commit(*(row(f"e{number:02}") for number in range(30)))
    looked: list[int] = []
    gate = stage.rows.gate

    def noted(table: str, number: int) -> bool | None:
        looked.append(number)
        return gate(table, number)

    monkeypatch.setattr(stage.rows, "gate", noted)
    table = stage.spec.table
    pages = list(stage.store.scan(table, 0, 1))
    assert len([page for page in pages if page]) > 10
    assert set(looked) == {1}
    assert len(looked) == 11
    pages_left = stage.store.scan(table, 0, 1)
    assert next(pages_left)
    assert next(pages_left)
    stage.shut()
    with pytest.raises(Throttled):
        next(pages_left)
    stage.fold()
    looked.clear()
    assert list(stage.store.scan(table, 0, 1))
    assert looked == []
