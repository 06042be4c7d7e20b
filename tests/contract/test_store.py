"""What every store promises: one verb that writes events, gates that stay shut, exact tallies.

`test_atomic_store.py` has what those with transactions promise beside it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from tallyroll.errors import Missing, Refused, StateConflict
from tallyroll.model.amounts import MICROS
from tallyroll.model.items import Gate
from tallyroll.model.records import Record
from tallyroll.model.states import Status, Window
from tallyroll.model.tallies import Tally
from tallyroll.ports.paging import listed_tallies
from tallyroll.ports.store import Answer, Verdict
from tallyroll.ports.table_listing import TableStatus
from tests.contract.engines import Engine, commit, cost, counted, record, with_data

pytestmark = pytest.mark.common


def test_a_commit_counts_what_it_stores(engine: Engine) -> None:
    spec = engine.opened()
    records = [record(spec, "a", f"id-{index}", amount=1_500_000) for index in range(3)]
    other = record(spec, "b", "id-0", amount=-1)
    counted(engine.store, spec, *records, other)

    assert engine.store.tallies(spec, ["a", "b", "never"]) == {
        "a": Tally("a", 3, 4_500_000, ((5, 3),), cost(engine.store, *records)),
        "b": Tally("b", 1, -1, ((5, 1),), cost(engine.store, other)),
        "never": Tally("never", 0, 0),
    }


def test_the_same_commit_again_is_all_duplicates_of_equal_digest(engine: Engine) -> None:
    spec = engine.opened()
    records = [record(spec, "a", f"id-{index}") for index in range(5)]
    counted(engine.store, spec, *records)

    outcome = commit(engine.store, spec, *records)

    whole = engine.store.transactional
    assert outcome.verdict is (Verdict.CANCELLED if whole else Verdict.BY_RECORD)
    assert {(element.answer, element.digest) for element in outcome.records} == {
        (Answer.DUPLICATE, b"d" * 16)
    }


def test_a_shut_gate_refuses_and_changes_nothing(engine: Engine) -> None:
    spec = engine.opened()
    counted(engine.store, spec, record(spec, "a", "before"))
    engine.closed(spec)

    for index in range(10):  # whichever gate is drawn
        outcome = commit(engine.store, spec, record(spec, "a", f"after-{index}"))
        assert outcome.verdict is Verdict.GATE_SHUT
    assert engine.store.tallies(spec, ["a"])["a"].n == 1


def test_a_shut_gate_goes_before_a_duplicate(engine: Engine) -> None:
    spec = engine.opened()
    counted(engine.store, spec, record(spec, "a", "x"))
    engine.store.shut_gates(spec)
    outcome = commit(engine.store, spec, record(spec, "a", "x"))
    assert outcome.verdict is Verdict.GATE_SHUT


def test_without_gates_nothing_is_written(engine: Engine) -> None:
    spec = engine.spec()
    engine.store.make_table(spec.table, {})
    outcome = commit(engine.store, spec, record(spec, "a", "x"))
    assert outcome.verdict is Verdict.GATE_MISSING
    assert engine.store.tallies(spec, ["a"])["a"].n == 0


def test_without_a_table_the_gate_is_missing(engine: Engine) -> None:
    spec = engine.spec()
    engine.catalog.create(Window(spec.window, spec.table, spec.start, spec.end))
    outcome = commit(engine.store, spec, record(spec, "a", "x"))
    assert outcome.verdict is Verdict.GATE_MISSING
    with pytest.raises(Missing):
        engine.store.record(spec, "a", "x")
    with pytest.raises(Missing):
        engine.store.lookup(spec, [("a", "x")])
    with pytest.raises(Missing):
        engine.store.tallies(spec, ["a"])
    with pytest.raises(Missing):
        list(listed_tallies(engine.store, spec, 1))
    with pytest.raises(Missing):
        engine.store.open_gates(spec)
    with pytest.raises(Missing):
        list(engine.store.scan(spec.table, 0, 1))


@pytest.mark.parametrize("status", [Status.OPEN, Status.DROPPED])
def test_gates_are_opened_only_while_the_window_is_being_created(
    engine: Engine, status: Status
) -> None:
    """A roller that slept through the window's life must not open a table that was made again."""
    spec = engine.made()
    window = engine.catalog.window(spec.window)
    assert window
    engine.catalog.advance(replace(window, status=status))
    with pytest.raises(StateConflict):
        engine.store.open_gates(spec)
    outcome = commit(engine.store, spec, record(spec, "a", "x"))
    assert outcome.verdict is Verdict.GATE_MISSING


def test_opening_gates_never_reopens_one(engine: Engine) -> None:
    few = engine.made(engine.spec(gates=100))
    engine.store.shut_gates(few)
    more = replace(few, gates=105)  # over one transaction, so that shut and absent gates mix
    for _ in range(2):
        with pytest.raises(Refused):
            engine.store.open_gates(more)

    gates = [
        found
        for page in engine.store.scan(more.table, 0, 1)
        for found in map(engine.store.codec.parse, page)
        if isinstance(found, Gate)
    ]
    assert {gate.number for gate in gates if gate.open} <= set(range(101, 106))
    assert sorted(gate.number for gate in gates if not gate.open) == list(range(1, 101))


def test_tallies_gather_over_a_hundred_stripes_of_several_keys(engine: Engine) -> None:
    spec = engine.opened(engine.spec(stripes_min=60))
    spec_of_many = replace(spec, hot={"hot": 130})
    for index in range(12):
        counted(
            engine.store,
            spec_of_many,
            *(record(spec_of_many, key, f"{key}-{index}") for key in ("hot", "warm", "é.1")),
        )

    costs = 12 * cost(engine.store, record(spec, "hot", "hot-0"))
    gathered = engine.store.tallies(spec_of_many, ["hot", "warm", "é.1", "hot"])

    assert gathered == {
        key: Tally(key, 12, 12 * MICROS, ((5, 12),), costs) for key in ("hot", "warm", "é.1")
    }
    assert engine.store.tallies(spec_of_many, []) == {}


def test_the_buckets_list_every_stripe_once(engine: Engine) -> None:
    spec = engine.opened()
    for index in range(10):
        counted(
            engine.store,
            spec,
            *(record(spec, f"key.{index % 3}", f"{index}-{i}") for i in range(3)),
        )

    engine.closed(spec)
    listed: Counter[str] = Counter()
    amounts: Counter[str] = Counter()
    for number in range(1, spec.buckets + 1):
        for stripe in listed_tallies(engine.store, spec, number):
            listed[stripe.key] += stripe.n
            amounts[stripe.key] += stripe.amount

    assert listed == {"key.0": 12, "key.1": 9, "key.2": 9}
    tallies = engine.store.tallies(spec, list(listed))
    assert {key: tally.amount for key, tally in tallies.items()} == amounts


def test_scanning_in_segments_gives_everything_once(engine: Engine) -> None:
    spec = engine.opened()
    records = [record(spec, f"key-{index % 7}", f"id-{index}") for index in range(40)]
    counted(engine.store, spec, *records)

    engine.closed(spec)

    pages = [page for segment in range(4) for page in engine.store.scan(spec.table, segment, 4)]
    found = [engine.store.codec.parse(item) for page in pages for item in page]

    kinds = Counter(type(item) for item in found)
    assert (kinds[Record], kinds[Gate]) == (40, 3)
    assert sum(item.n for item in found if isinstance(item, Tally)) == 40
    assert Counter(item.id for item in found if isinstance(item, Record)) == Counter(
        stored.id for stored in records
    )


def test_a_scan_goes_on_over_pages_of_a_megabyte(engine: Engine) -> None:
    spec = engine.opened()
    for index in range(5):
        counted(engine.store, spec, with_data(record(spec, "a", str(index)), b"\xff" * 300 * 1024))
    items = [item for page in engine.store.scan(spec.table, 0, 1) for item in page]
    found = map(engine.store.codec.parse, items)
    records = [item for item in found if isinstance(item, Record)]
    assert sorted(item.id for item in records) == list("01234")
    assert {item.data for item in records} == {b"\xff" * 300 * 1024}


def test_a_record_reads_back_as_it_was_written(engine: Engine) -> None:
    spec = engine.opened()
    written = with_data(
        record(spec, "köy.1", "id#1 ü", amount=10**24 - 1, digest=bytes(range(16))), b"\x00{}\xff"
    )
    counted(engine.store, spec, written)

    assert engine.store.record(spec, "köy.1", "id#1 ü") == replace(written, series=())
    assert engine.store.record(spec, "köy.1", "id#2") is None


def test_many_records_are_looked_up_by_their_names(engine: Engine) -> None:
    spec = engine.opened()
    written = [record(spec, key, f"id-{n}") for key in ("a", "köy.1") for n in range(60)]
    for at in range(0, len(written), 60):
        counted(engine.store, spec, *written[at : at + 60])

    names = [(one.key, one.id) for one in written]
    absent = [("a", "id-60"), ("b", "id-0")]
    found = engine.store.lookup(spec, [*names, *absent, names[0]])

    assert found == {(one.key, one.id): replace(one, series=()) for one in written}
    assert engine.store.lookup(spec, []) == {}


def test_records_are_looked_up_across_windows(engine: Engine) -> None:
    """More than one request holds, and some windows without any."""
    first = engine.opened()
    later = [
        replace(first, window=window, table=f"{engine.prefix}-{window}")
        for window in ("20261120T090000Z", "20261120T100000Z")
    ]
    for spec in later:
        engine.opened(spec)
    names = [("k", f"e{number}") for number in range(60)]
    counted(engine.store, first, *(record(first, *name) for name in names[:40]))
    counted(engine.store, later[1], *(record(later[1], *name, amount=7) for name in names[10:]))
    found = engine.store.lookup_across([first, *later], [*names, names[0], ("l", "e1")])
    assert {window: set(some) for window, some in found.items()} == {
        first.window: set(names[:40]),
        later[1].window: set(names[10:]),
    }
    assert {one.amount for one in found[later[1].window].values()} == {7}
    assert engine.store.lookup_across([], names) == {}
    gone = replace(first, table=f"{engine.prefix}-20261120T110000Z")
    with pytest.raises(Missing):
        engine.store.lookup_across([first, gone], names[:1])


def test_a_table_is_made_once_described_and_dropped(engine: Engine) -> None:
    store, spec = engine.store, engine.spec()
    assert store.describe_table(spec.table) is None

    engine.opened(spec)
    counted(store, spec, record(spec, "a", "x"))
    store.make_table(spec.table, {"tallyroll": engine.prefix})
    store.tag_table(spec.table, {"proven": "attempt-1"})

    facts = store.describe_table(spec.table)
    assert facts
    assert facts.status is TableStatus.ACTIVE
    assert facts.protected
    assert store.tallies(spec, ["a"])["a"].n == 1

    store.drop_table(spec.table)  # lifts the protection
    store.drop_table(spec.table)
    assert store.describe_table(spec.table) is None


def test_tagging_what_is_not_there_says_so(engine: Engine) -> None:
    with pytest.raises(Missing):
        engine.store.tag_table(f"{engine.prefix}-none", {"proven": "x"})


def test_writers_side_by_side_count_every_record_once(engine: Engine) -> None:
    """Threads where the engine has them."""
    spec = engine.opened()

    def job(worker: int) -> int:
        taken = 0
        for index in range(10):
            mine = record(spec, "a", f"{worker % 2}-{index}")  # every record by two workers
            taken += commit(engine.store, spec, mine).verdict is Verdict.COMMITTED
        return taken

    taken = engine.effects.together([partial(job, worker) for worker in range(4)], 4)

    assert sum(taken) == 20
    assert engine.store.tallies(spec, ["a"])["a"].n == 20


def test_a_bucket_lists_its_stripes_in_order_from_any_place(engine: Engine) -> None:
    spec = engine.opened()
    keys = ["a", "a.1", "a.10", "a-b", "é", "日"]
    for number in range(6):
        counted(engine.store, spec, *(record(spec, key, f"e{number}") for key in keys))
    engine.closed(spec)
    found = []
    for number in range(1, spec.buckets + 1):
        pages = list(engine.store.stripes(spec, number, "", 3))
        assert all(len(page) <= 3 for page in pages)
        stripes = [stripe for page in pages for stripe in page]
        places = [stripe.place for stripe in stripes]
        assert places == sorted(places)
        assert all(one.place.rpartition(".")[0] == one.tally.key for one in stripes)
        for after in [*places, "a.1", "a", "\U0010ffff"]:
            rest = [one for page in engine.store.stripes(spec, number, after, 2) for one in page]
            assert [one.place for one in rest] == [place for place in places if place > after]
        found += stripes
    sums = {key: sum(one.tally.n for one in found if one.tally.key == key) for key in keys}
    assert sums == dict.fromkeys(keys, 6)


def test_stripes_of_a_table_that_is_gone(engine: Engine) -> None:
    with pytest.raises(Missing):
        list(engine.store.stripes(engine.spec(), 1, "", 3))
