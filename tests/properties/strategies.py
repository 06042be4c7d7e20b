"""What producers may send, and what windows may be, as hypothesis strategies."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tallyroll.limits import VALUE_BOUND, WINDOW_SECONDS_MAX
from tallyroll.model.amounts import MICROS
from tallyroll.model.events import Event
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.records import Record
from tallyroll.model.windows import Grid, common_bound
from tests.harness.pipeline import HOUR, NOW, START

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

INSTANTS_MAX = 4_102_444_800_000  # the year 2100

instants = st.integers(0, INSTANTS_MAX)
amounts = st.integers(-VALUE_BOUND * MICROS + 1, VALUE_BOUND * MICROS - 1)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)
keys = texts.filter(lambda text: not text.startswith("~"))
ids = texts
lengths = st.one_of(
    st.integers(1, 60), st.integers(1, WINDOW_SECONDS_MAX // 60).map(lambda minutes: minutes * 60)
)
json_values: SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
payloads = json_values.filter(lambda value: value is not None and _is_text(value)).map(canonical)


def _is_text(value: object) -> bool:
    return not any(unicodedata.category(char) == "Cs" for char in canonical(value))


@st.composite
def grids(draw: Callable[[SearchStrategy[int]], int]) -> Grid:
    """A grid whose length changes up to twice."""
    grid = Grid.of(draw(lengths))
    for _ in range(draw(st.integers(0, 2))):
        length, made_until = draw(lengths), draw(st.integers(0, INSTANTS_MAX))
        if leads_to(grid, length, made_until):
            grid = grid.with_length(length, made_until)
    return grid


def leads_to(grid: Grid, seconds: int, made_until: int) -> bool:
    """Whether windows of so many seconds can follow those of a grid."""
    since, before = grid.lengths[-1]
    return common_bound(before, seconds * 1000, max(made_until, since + 1)) is not None


any_event = st.builds(
    Event,
    key=keys,
    id=st.none() | ids,
    ts=st.none() | st.integers(10**11, INSTANTS_MAX),
    amount=amounts,
    payload=st.none() | payloads,
)
packable_events = st.builds(
    Event,
    key=st.sampled_from(["a", "b", "ü.1"]),
    id=st.none(),
    ts=st.integers(START, START + HOUR),
    amount=amounts,
    payload=st.none() | payloads,
)
records = st.builds(
    Record,
    key=st.sampled_from([f"key{n}" for n in range(40)]) | keys,
    id=ids,
    shard=st.integers(1, 20),
    ts=st.just(NOW),
    n=st.integers(1, 5),
    amount=amounts,
    digest=st.just(b"\x01" * 17),
    series=st.just(((30, 1),)),
    data=st.none() | st.sampled_from([10, 1_000, 100_000, 390_000]).map(bytes),
)
