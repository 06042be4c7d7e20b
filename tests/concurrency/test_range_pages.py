"""Pages of a range on DynamoDB Local, while events count and one of its windows is sealed."""

from __future__ import annotations

from collections import Counter
from random import Random
from threading import Event, Thread

import pytest

from tallyroll.model.records import increments_of
from tallyroll.model.specs import Spec
from tallyroll.model.windows import Grid
from tallyroll.pipeline import Pipeline
from tallyroll.ports.store import Verdict
from tests.concurrency.crowd import Crowd, open_window
from tests.concurrency.test_retractions import closed, sealed
from tests.contract.engines import record

pytestmark = pytest.mark.engine
Name = tuple[str, str]
BATCH, BEFORE, LIMIT = 5, 60, 17


class Writing:
    """Commits events of k with ids by chance to two windows, and notes which have counted."""

    def __init__(self, made: Pipeline, specs: list[Spec]) -> None:
        self._made, self._specs = made, specs
        self._chance = Random(7)
        self.counted: list[Name] = []
        self.ended = Event()

    def write(self) -> None:
        """One batch for each window, unless its gates are shut."""
        for spec in self._specs:
            names = [f"{self._chance.getrandbits(64):016x}" for _ in range(BATCH)]
            records = [record(spec, "k", name) for name in names]
            outcome = self._made.store.commit(spec, records, increments_of(records))
            if outcome.verdict is Verdict.COMMITTED:
                self.counted += [(spec.window, name) for name in names]
            else:
                assert outcome.verdict is Verdict.GATE_SHUT

    def run(self) -> None:
        """Write until it is ended."""
        while not self.ended.wait(0.01):
            self.write()


def test_pages_hold_every_event_once(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_endpoint)
    crowd = Crowd.gathered(stripes=8, settle_ms=0)
    made, first = crowd.made, crowd.spec
    second = open_window(made, Grid.of(3600).after(first.span), first.start)
    made.catalog.put_secret("s" * 64)
    writing = Writing(made, [first, second])
    while len(writing.counted) < BEFORE:
        writing.write()
    before = list(writing.counted)

    listed: list[Name] = []
    cursor: str | None = None
    pages = 0
    thread = Thread(target=writing.run)
    thread.start()
    try:
        while cursor or not pages:
            reader = Pipeline(crowd.settings).reader  # another process, as after a restart
            bounds = (first.start, second.end)
            page = reader.events_page("k", *bounds, limit=LIMIT, cursor=cursor)
            assert page.complete
            listed += [(one.window, one.what.id) for one in page.found]
            cursor, pages = page.cursor, pages + 1
            if pages == 2:
                closed(crowd)
                sealed(crowd)
    finally:
        writing.ended.set()
        thread.join()

    assert pages > 4
    assert listed == sorted(listed), "one order"
    assert max(Counter(listed).values()) == 1
    assert set(before) <= set(listed) <= set(writing.counted)
    assert len(listed) > len(before), "some counted meanwhile"
    after = [
        (one.window, one.what.id) for one in made.reader.events_within("k", first.start, second.end)
    ]
    assert after == sorted(writing.counted)
