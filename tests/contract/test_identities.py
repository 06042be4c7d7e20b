"""What a store promises of identities: an id is taken together with its record, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.items import identity_item
from tallyroll.errors import Missing
from tallyroll.ingest.fates import Disposition
from tallyroll.ingest.transactions import plan, run
from tallyroll.limits import (
    EVENT_KEYS_MAX,
    ID_BYTES_MAX,
    KEY_BYTES_MAX,
    TRANSACTION_ACTIONS_MAX,
    write_units,
)
from tallyroll.model.amounts import MICROS
from tallyroll.model.events import Event
from tallyroll.model.formats.payloads import LAYOUT, PayloadLayout
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, all_records, increments_of, record_of
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.ports.store import Answer, Element, Verdict
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.contract.engines import HOUR, START, Engine, commit, counted
from tests.harness.item_sizes import item_bytes
from tests.harness.payloads import NOISE

KEY, PIPELINE = IdentityScope.KEY, IdentityScope.PIPELINE
SMALL_CHUNKS = PayloadLayout(compress_over=10**7, chunk_over=1_024, chunk_bytes=1_024)
MINUTE_MS = 60_000
FINE = Element(Answer.FINE)


def spec_with(engine: Engine, scope: IdentityScope, hours: int = 0) -> Spec:
    """The spec of a window so many hours later, in which ids count once within this scope."""
    spec = engine.spec()
    window = f"20261120T{8 + hours:02}0000Z"
    return replace(
        spec,
        window=window,
        table=f"{engine.prefix}-{window}",
        start=spec.start + hours * HOUR,
        end=spec.end + hours * HOUR,
        suffix="calculated+id1",
        identity=scope,
        identity_days=31,
        genesis=START,
    )


def make_identities(engine: Engine) -> None:
    """The table of identities, of an engine that has tables."""
    if engine.name == "memory":
        return
    declared = declare(Settings(name=engine.prefix, keep_identities=True))
    assert declared.identities
    make_client("dynamodb").create_table(**table_request(declared.identities))


def remembering(engine: Engine, scope: IdentityScope = PIPELINE) -> Spec:
    """An open window, and the table of identities."""
    make_identities(engine)
    return engine.opened(spec_with(engine, scope))


def of_event(
    spec: Spec,
    record_id: str,
    *keys: str,
    value: int = 1,
    text: str = "",
    layout: PayloadLayout = LAYOUT,
) -> Record:
    """The record of an event with an id of its own, with the others of its group."""
    first, *others = keys
    payload = json.dumps(text) if text else None
    event = Event(first, record_id, spec.start, value * MICROS, payload, tuple(others))
    return record_of(event, Message("m", "", spec.start, 1, "r"), spec, None, layout)


def group_committed(engine: Engine, spec: Spec, *records: Record) -> Verdict:
    puts = all_records(records)
    return engine.store.commit(spec, puts, increments_of(puts)).verdict


def names(*records: Record) -> list[str]:
    return [each.name for record in records for each in record.identities]


def tallied(engine: Engine, spec: Spec, *keys: str) -> list[int]:
    found = engine.store.tallies(spec, keys)
    return [found[key].n for key in keys]


def test_an_identity_is_stored_with_its_record_and_read_back(engine: Engine) -> None:
    spec = remembering(engine, KEY)
    one = of_event(spec, "é#1", "b", "a.7")
    assert group_committed(engine, spec, one) is Verdict.COMMITTED
    assert engine.store.identities(names(one)) == {each.name: each for each in one.identities}
    assert [each.key for each in one.identities] == ["a.7", "a.7"]
    stored = engine.store.record(spec, "b", "é#1")
    assert stored
    assert stored.digest == one.identities[0].digest
    assert tallied(engine, spec, "a.7", "b") == [1, 1]


def test_a_taken_identity_answers_for_its_record_and_nothing_is_done(engine: Engine) -> None:
    """With the digest and the window of the event that has it, which may be in another window."""
    first = remembering(engine)
    taken = of_event(first, "x", "a")
    counted(engine.store, first, taken)
    later = engine.opened(spec_with(engine, PIPELINE, hours=1))
    new, other, last = (
        of_event(later, "n", "a"),
        of_event(later, "x", "b", value=2),
        of_event(later, "l", "c"),
    )

    outcome = commit(engine.store, later, new, other, last)

    assert outcome.verdict is Verdict.CANCELLED
    held = Element(Answer.DUPLICATE, taken.digest, window=first.window)
    assert [_plain(each) for each in outcome.records] == [FINE, held, FINE]
    assert {each.answer for each in outcome.increments} == {Answer.FINE}
    assert tallied(engine, later, "a", "b", "c") == [0, 0, 0]
    assert engine.store.lookup(later, [("a", "n"), ("b", "x"), ("c", "l")]) == {}
    assert engine.store.identities(names(new, last)) == {}
    assert engine.store.identities(names(other))[names(taken)[0]] == taken.identities[0]


def _plain(element: Element) -> Element:
    """The element without its text, which is the engine's own; its digest as bytes: an adapter may
    give another type that equals them.
    """
    digest = None if element.digest is None else bytes(element.digest)
    return replace(element, digest=digest, detail="")


def test_a_stored_record_and_its_identity_give_one_answer(engine: Engine) -> None:
    """The reply to the first commit was lost: it is repeated."""
    spec = remembering(engine, KEY)
    one = of_event(spec, "x", "a", "b")
    assert group_committed(engine, spec, one) is Verdict.COMMITTED
    puts = all_records([one])
    outcome = engine.store.commit(spec, puts, increments_of(puts))
    assert outcome.verdict is Verdict.CANCELLED
    answers = [(each.answer, each.digest) for each in outcome.records]
    assert answers == [(Answer.DUPLICATE, one.digest)] * 2
    assert tallied(engine, spec, "a", "b") == [1, 1]


def test_behind_a_shut_gate_no_id_is_taken(engine: Engine) -> None:
    spec = remembering(engine)
    one = of_event(spec, "x", "a")
    engine.store.shut_gates(spec)
    assert commit(engine.store, spec, one).verdict is Verdict.GATE_SHUT
    assert engine.store.identities(names(one)) == {}


def test_two_records_of_one_identity_are_no_commit(engine: Engine) -> None:
    """Nothing plans it: two actions of a transaction must not be on one item."""
    spec = remembering(engine)
    pair = of_event(spec, "x", "a"), of_event(spec, "x", "b")
    assert commit(engine.store, spec, *pair).verdict is Verdict.INVALID
    assert tallied(engine, spec, "a", "b") == [0, 0]
    assert engine.store.identities(names(*pair)) == {}


def test_without_the_table_of_identities_nothing_is_stored(engine: Engine) -> None:
    """It looks like a missing gate: messages are handed back, none is rejected."""
    spec = engine.opened(spec_with(engine, PIPELINE))
    one = of_event(spec, "x", "a")
    assert commit(engine.store, spec, one).verdict is Verdict.GATE_MISSING
    assert engine.store.record(spec, "a", "x") is None
    assert tallied(engine, spec, "a") == [0]
    with pytest.raises(Missing):
        engine.store.identities(names(one))


def test_more_identities_are_read_than_one_request_takes(engine: Engine) -> None:
    spec = remembering(engine)
    records = [of_event(spec, str(number), "a") for number in range(147)]
    for commit_ in plan(spec, records, engine.store.metering_of(spec.table)):
        counted(engine.store, spec, *commit_.records)
    asked = names(*records, *(of_event(spec, f"not {number}", "a") for number in range(60)))
    found = engine.store.identities([*asked, *asked[:3]])
    assert found == {each.name: each for record in records for each in record.identities}


@pytest.mark.parametrize(
    ("scope", "keys", "chunked"),
    [
        (KEY, EVENT_KEYS_MAX, False),
        (KEY, EVENT_KEYS_MAX, True),
        (KEY, 5, True),
        (PIPELINE, 5, True),
    ],
)
def test_every_event_is_one_transaction(
    engine: Engine, scope: IdentityScope, keys: int, *, chunked: bool
) -> None:
    spec = remembering(engine, scope)
    many = [f"k{number:02}" for number in range(keys)]
    one = of_event(spec, "x", *many, text=NOISE if chunked else "", layout=SMALL_CHUNKS)
    actions = 1 + 2 * keys + len(one.attachments) + len(one.identities)
    assert actions == (TRANSACTION_ACTIONS_MAX if chunked else 73)
    assert group_committed(engine, spec, one) is Verdict.COMMITTED
    assert tallied(engine, spec, *many) == [1] * keys
    assert engine.store.identities(names(one)) == {each.name: each for each in one.identities}


def test_49_events_of_a_hot_key_are_one_commit_of_200_units(engine: Engine) -> None:
    """4.09 units and 0.022 requests an event, by the sizes of the items that are stored."""
    spec = remembering(engine)
    records = [of_event(spec, f"ballot-{number}", "hot") for number in range(49)]
    (planned,) = plan(spec, records, engine.store.metering_of(spec.table))
    done = run(engine.store, [planned], engine.effects, engine.effects.now() + MINUTE_MS, 1)

    assert {fate.kind for fate in done.fates.values()} == {Disposition.COUNTED}
    assert (done.cost.total, done.cost.requests) == (200, 1)
    stored = engine.store.identities(names(*records)).values()
    kilobytes = [write_units(item_bytes(identity_item(each))) for each in stored]
    assert kilobytes == [1] * 49


def test_the_largest_identity_takes_one_unit_twice(engine: Engine) -> None:
    """However long keys and ids are."""
    spec = remembering(engine)
    one = of_event(spec, "é" * (ID_BYTES_MAX // 2), "🗳" * (KEY_BYTES_MAX // 4))
    counted(engine.store, spec, one)
    (stored,) = engine.store.identities(names(one)).values()
    assert item_bytes(identity_item(stored)) <= stored.size <= 1_024
    assert engine.store.metering_of(spec.table).identities_cost(one) == 2
