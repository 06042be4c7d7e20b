"""What operators wished, were promised, and got: by the states that the catalog really had."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tallyroll.model.specs import Spec
from tallyroll.model.states import Wish, Wishes
from tests.simulation.world import World

if TYPE_CHECKING:
    from tallyroll.operations.heat.wishes import Split


class WishBook:
    """Knows every wish that ever stood, and which command put it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._by: dict[tuple[str, Wish], str] = {}
        self._lacking: dict[str, None] = {}
        self.most = 0
        """The most shards that were ever wished."""

    def on_put(self, before: Wishes, after: Wishes) -> None:
        """Take note of wishes that were changed."""
        for key, wish in after.of.items():
            self.most = max(self.most, wish.shards)
            if before.of.get(key) != wish:
                self._by.setdefault((key, wish), self._world.current.group.name)

    def on_frozen(self, spec: Spec, wishes: Wishes, *, by_before: bool) -> None:
        """Check a spec that was put just now, while these wishes stood. A roller of the release
        `before` knows none.
        """
        if by_before:
            self._lacking[spec.window] = None
            return
        for key, shards in wishes.during(spec.start, spec.end).items():
            if spec.shards_of(key) < shards:
                self._world.fail(f"8: {spec} was frozen while {shards} were wished for {key}")

    def on_split(
        self, key: str, split: Split, wishes: Wishes, specs: Iterable[Spec], ended: int
    ) -> None:
        """Check a wish that was promised: if it stands, all windows that are frozen and not
        `ended` (ms) have it.
        """
        wish = split.wish
        if (key, wish) not in self._by:
            self._world.fail(f"8: {wish} for {key} was promised, and never put")
        if wishes.of.get(key) != wish:
            return  # another command has replaced it
        for spec in specs:
            taken = key in Wishes({key: wish}).during(spec.start, spec.end)
            known = spec.end > ended and spec.window not in self._lacking
            if taken and known and spec.shards_of(key) < wish.shards:
                self._world.fail(f"8: {wish} for {key} was promised, and {spec} is without it")

    def on_refused(self, key: str, wishes: Wishes) -> None:
        """Check that what a command refused does not stand."""
        wish = wishes.of.get(key)
        if wish and self._by.get((key, wish)) == self._world.current.group.name:
            self._world.fail(f"8: {wish} for {key} was refused, and stands")
