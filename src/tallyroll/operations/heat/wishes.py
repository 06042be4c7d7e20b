"""Operators' wishes for the shards of a key: made, withdrawn, and compared with what was frozen.

A wish is put first. Only then are the specs read: one that was frozen without it is seen, and the
wish is refused. One that is frozen later has the wish, since the roller puts a spec only if the
wishes that it read are unchanged. The calendar is read again before the specs: if its windows have
become longer since the command began, one of them may begin before the wish, and have it. A roller
of a release before wishes does not check this: `hot_keys` shows what its specs lack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tallyroll.errors import Absent, StateConflict, UsageError
from tallyroll.limits import HOT_KEYS_MAX, HOT_LIST_BYTES_MAX, TS_MS_MAX
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, Wish, Wishes
from tallyroll.model.windows import Grid, Span, WindowId, iso
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects

LOOKED_BACK = 99  # windows, for since when a key has its N
TRIES = 8  # other commands and the roller may change the wishes, or freeze the next window


@dataclass(frozen=True, slots=True)
class Split:
    """A wish that stands, the first window that takes it, and the wish that it replaced."""

    wish: Wish
    window: WindowId
    replaced: Wish | None


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key with its own N in a window, or with a wish for it.

    `shards`, `stripes` and `why` are as frozen: None or "" in a window that is not frozen, `why`
    also in one that an older release froze. `since` is the window from which on it has this N, as
    far as 100 windows back. `wish` is the wish for this window, if there is one; the window `lacks`
    it if it was frozen with less.
    """

    key: str
    window: WindowId
    shards: int | None = None
    stripes: int | None = None
    since: WindowId | None = None
    why: str = ""
    wish: Wish | None = None
    lacks: bool = False


@dataclass(frozen=True)
class WishDesk:
    """Makes, withdraws and lists wishes."""

    catalog: Catalog
    calendar: Calendar
    effects: Effects

    def split(self, key: str, shards: int, since: int | None, until: int | None = None) -> Split:
        """Wish at least `shards` for a key, from the window of `since` (ms) on, or from the first
        that takes it, in windows that start before `until`. It replaces another wish of the key.

        Raises UsageError for a time that is past, for a window that is frozen with fewer shards,
        and for more keys than a spec has room for; StateConflict if others change the wishes again
        and again.
        """
        now = self.effects.now()
        for name, at in (("from", since), ("until", until)):
            if at is not None and at < now:
                raise UsageError(
                    f"--{name} {iso(at)} is past: it is {iso(now)}; give a time to come, or leave"
                    f" --{name} out"
                )
        for _ in range(TRIES):
            begin = self._first_taking(key, shards, now).start if since is None else since
            if until is not None and until <= begin:
                raise UsageError(
                    f"--until {iso(until)}: the first window that takes it starts at {iso(begin)};"
                    " give a later time"
                )
            wish = Wish(shards, begin, until, now)
            frozen = self._lacking(key, wish)
            if not frozen:
                replaced = self._change(key, wish)
                frozen = self._lacking(key, wish)  # meanwhile, without the wish
                if not frozen:
                    return Split(wish, self._grid().at(begin).id, replaced)
                self._change(key, replaced, only=wish)
            if since is not None:
                first = self._first_taking(key, shards, since)
                raise UsageError(
                    f"window {frozen[0].window} is frozen with {frozen[0].shards_of(key):,} shards"
                    f" for {key!r}: the first window that takes {shards:,} is {first.id}"
                    f" (--from {iso(first.start)})"
                )
        raise StateConflict(f"windows were frozen {TRIES} times meanwhile: run it again")

    def merge(self, key: str) -> Wish:
        """Withdraw the wish of a key, and return it. Raises Absent if there is none."""
        withdrawn = self._change(key, None)
        if withdrawn is None:
            raise Absent(f"there is no wish for {key!r}: see tallyroll keys list --hot")
        return withdrawn

    def frozen_with(self, key: str, wish: Wish) -> list[WindowId]:
        """The current and coming windows that are frozen with a key's wish."""
        return [
            spec.window
            for spec in self._frozen(self.effects.now())
            if key in Wishes({key: wish}).during(spec.start, spec.end)
            and spec.shards_of(key) >= wish.shards
        ]

    def hot_keys(self) -> list[HotKey]:
        """The hot keys of the current window; those of coming windows whose N changes then; and
        wishes for windows that are not frozen.
        """
        now = self.effects.now()
        wishes, specs = self.catalog.wishes(), self._frozen(now)
        earlier = self._earlier(now)
        found: list[HotKey] = []
        listed: dict[str, int] = {}
        for spec in specs:
            wished = wishes.during(spec.start, spec.end)
            for key in sorted({*spec.hot, *wished, *listed}):
                shards = spec.shards_of(key)
                lacks = shards < wished.get(key, 0)
                if lacks or shards != listed.get(key):
                    found.append(_hot(key, spec, earlier, wishes, lacks=lacks))
                listed[key] = shards
            earlier = [spec, *earlier]
        last = specs[-1] if specs else None
        taken = wishes.during(last.start, last.end) if last else {}
        first = self.calendar.grid.at(last.end if last else now)
        for key, wish in sorted(wishes.of.items()):
            span = self.calendar.grid.at(max(wish.since, first.start))
            held = last and key in taken and last.shards_of(key) >= wish.shards
            if not held and (wish.until is None or span.start < wish.until):
                found.append(HotKey(key, span.id, wish=wish))
        return found

    def _change(self, key: str, wish: Wish | None, only: Wish | None = None) -> Wish | None:
        """Put or remove (None) a key's wish; return the one before. With `only`, do nothing if the
        key has another wish than that.
        """
        for _ in range(TRIES):
            read = self.catalog.wishes()
            before = read.of.get(key)
            if wish == before or (only is not None and only != before):
                return before
            others = {other: of for other, of in read.of.items() if other != key}
            wanted = others | ({key: wish} if wish else {})
            if wish:
                _check_room(wanted)
            try:
                self.catalog.put_wishes(read, wanted)
            except StateConflict:
                continue
            return before
        raise StateConflict(f"others changed the wishes {TRIES} times meanwhile: run it again")

    def _grid(self) -> Grid:
        """The windows' lengths as they are now."""
        return (self.catalog.calendar() or self.calendar).grid

    def _frozen(self, since: int) -> list[Spec]:
        """The specs of the window of `since` and of later ones, ascending, as far as frozen."""
        windows = self.catalog.windows(self._grid().at(since).start, TS_MS_MAX + 1)
        specs = self.catalog.specs([window.id for window in windows])
        return sorted(specs.values(), key=lambda spec: spec.start)

    def _lacking(self, key: str, wish: Wish) -> list[Spec]:
        return [
            spec
            for spec in self._frozen(max(wish.since, self.effects.now()))
            if key in Wishes({key: wish}).during(spec.start, spec.end)
            and spec.shards_of(key) < wish.shards
        ]

    def _first_taking(self, key: str, shards: int, since: int) -> Span:
        """The first window, from that of `since` on, that all later ones follow without one that is
        frozen with fewer shards.
        """
        lacking = [spec for spec in self._frozen(since) if spec.shards_of(key) < shards]
        return self._grid().at(lacking[-1].end if lacking else since)

    def _earlier(self, now: int) -> list[Spec]:
        """The specs of the windows before the current one, descending, without a gap."""
        spans = list(_backwards(self.calendar, now))
        specs = self.catalog.specs([span.id for span in spans])
        found = []
        for span in spans:
            if span.id not in specs:
                break
            found.append(specs[span.id])
        return found


def _backwards(calendar: Calendar, now: int) -> Iterator[Span]:
    span = calendar.grid.at(now)
    for _ in range(LOOKED_BACK):
        if span.start <= calendar.genesis:
            return
        span = calendar.grid.at(span.start - 1)
        yield span


def _hot(key: str, spec: Spec, earlier: list[Spec], wishes: Wishes, *, lacks: bool) -> HotKey:
    shards, since = spec.shards_of(key), spec.window
    for one in earlier:
        if one.shards_of(key) != shards:
            break
        since = one.window
    wish = wishes.of[key] if key in wishes.during(spec.start, spec.end) else None
    why = spec.why.get(key, "")
    return HotKey(key, spec.window, shards, spec.stripes_of(key), since, why, wish, lacks)


def _check_room(wanted: Mapping[str, Wish]) -> None:
    size = sum(len(key.encode()) for key in wanted)
    if len(wanted) > HOT_KEYS_MAX or size > HOT_LIST_BYTES_MAX:
        raise UsageError(
            f"{len(wanted):,} keys of {size:,} bytes would have wishes: at most {HOT_KEYS_MAX:,} of"
            f" {HOT_LIST_BYTES_MAX:,} bytes together can; withdraw one with tallyroll keys merge"
        )
