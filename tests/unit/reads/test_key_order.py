"""Stretches of the order of keys: what is read from a place on, and what is counted apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tallyroll.model.tallies import Stripe, Sum, Tally, gather
from tallyroll.model.totals import Listed
from tallyroll.reads.ranges.order import Stretch, rank, ranked

SIGNS = "a1!-./0é\ud7ff\ue000\uffff😀\U0010ffff"
KEYS = st.text(SIGNS, min_size=1, max_size=5)
SETS = st.sets(st.one_of(KEYS, st.sampled_from(["a", "a.1", "a.1.1", "a/", "a-", "a."])))


def expected(keys: set[str], stretch: Stretch) -> list[str]:
    """By the definition."""
    return sorted(
        (
            key
            for key in keys
            if key.startswith(stretch.prefix)
            and (not stretch.last or f"{key}/" > stretch.last + "/")
        ),
        key=lambda key: f"{key}/",
    )


def listed(keys: set[str], stretch: Stretch, page: int) -> list[str]:
    """The keys that a listing gives from the stretch's beginning on, and those apart."""
    rows = [Listed(key, 1, 0) for key in sorted(keys) if key > stretch.row_before]
    pages = iter([rows[at : at + page] for at in range(0, len(rows), page)])
    found = [row.key for some in ranked(stretch.of(pages)) for row in some]
    assert found == sorted(found, key=lambda key: f"{key}/")
    return _with_apart(found, keys, stretch)


def gathered(keys: set[str], stretch: Stretch, stripes: int) -> list[str]:
    """Those that the stripes of a live window give, each with all of its stripes."""
    places = sorted(
        (place, key)
        for key in keys
        for number in range(1, stripes + 1)
        if (place := f"{key}.{number}") > stretch.place_before
    )
    begun: list[Sum] = []
    some = [Stripe(place, Tally(key, 1, 0)) for place, key in places if stretch.has(key)]
    ended = [*gather(begun, some), *reversed(begun)]
    assert all(each.n == stripes for each in ended), "no key is counted in part"
    found = [each.key for each in ended]
    assert found == sorted(found, key=lambda key: f"{key}/")
    return _with_apart(found, keys, stretch)


def _with_apart(found: list[str], keys: set[str], stretch: Stretch) -> list[str]:
    return sorted([*found, *keys.intersection(stretch.apart)], key=lambda key: f"{key}/")


@given(SETS, st.one_of(st.just(""), KEYS), st.text(SIGNS, max_size=3), st.integers(1, 12))
@example({"a", "a.1", "a-1"}, "a.1", "", 11)
@example({"a", "a/", "a/b"}, "", "a/", 2)
@example({"\ud7ff\U0010ffff😀", "\ue000"}, "", "\ue000", 2)
def test_a_stretch_has_each_of_its_keys_once(
    keys: set[str], last: str, prefix: str, some: int
) -> None:
    stretch = Stretch(prefix, prefix + last if last else "")
    whole = expected(keys, stretch)
    assert listed(keys, stretch, some) == whole
    assert gathered(keys, stretch, some) == whole


@given(SETS, st.text(SIGNS, max_size=2))
def test_stretches_from_key_to_key_are_the_whole(keys: set[str], prefix: str) -> None:
    found: list[str] = []
    while rest := listed(keys, Stretch(prefix, found[-1] if found else ""), 3):
        found.append(rest[0])
    assert found == expected(keys, Stretch(prefix))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("apart", property(lambda _: [])),
        ("row_before", property(lambda self: f"{self.last}/")),
        ("place_before", property(lambda self: f"{self.last}0")),
        ("has", lambda self, key: key.startswith(self.prefix)),
    ],
)
def test_planted_mistakes_are_found(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: Callable[..., Iterator[str] | Sequence[str]]
) -> None:
    monkeypatch.setattr(Stretch, name, wrong)
    keys = {"a", "a-1", "a-1.b", "a.", "a.-", "a.1", "a.1.0", "a!", "a/", "a0", "b"}

    def right(last: str) -> bool:
        stretch = Stretch("", last)
        whole = expected(keys, stretch)
        try:
            return listed(keys, stretch, 3) == gathered(keys, stretch, 11) == whole
        except AssertionError:
            return False

    assert not all(map(right, keys))


def test_rows_are_ranked_in_pages_of_any_size() -> None:
    keys = ("a", "a-1", "a-1.b", "a.", "a.-", "a.1", "a.1.0", "a!", "a/", "a0", "b", "ü")
    rows = [Listed(key, 1, 0) for key in sorted(keys)]
    for size in range(1, len(rows) + 1):
        pages = iter([rows[at : at + size] for at in range(0, len(rows), size)])
        found = [row for page in ranked(pages) for row in page]
        assert found == sorted(rows, key=rank)
