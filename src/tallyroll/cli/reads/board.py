"""`tallyroll top --watch`: the largest keys of a range, renewed until somebody ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from tallyroll.cli.arguments import Run
from tallyroll.cli.reads.watching import COUNTS_MS, CountsView, Watch
from tallyroll.operations.overview.board import Board, BoardOf
from tallyroll.operations.overview.kept import KeptAnswers
from tallyroll.operations.overview.ranking import Ranking
from tallyroll.reads.counts import Count

if TYPE_CHECKING:
    from rich.console import RenderableType


def watch_largest(
    since: int | None, until: int | None, n: int, run: Run, *, by_sum: bool = False
) -> int:
    """Watch the largest keys of the windows in [since, until), and what that takes; the exit
    status.
    """
    from tallyroll.pipeline import inspection

    ports, units = inspection.metered()
    made, screen = run.pipeline(ports=ports), run.screen
    ranking = Ranking(made.settings, made.store, made.catalog, made.totals, made.effects)
    board = Board(made.reader, made.catalog, ranking, KeptAnswers(made.effects.now))
    first, last = run.bounds(made, since, until)
    of, view = BoardOf(first, last, by_sum, n=n), CountsView(screen)

    def show(found: dict[str, Any]) -> None:
        if screen.json:
            screen.emit(found)
            return
        columns = ("key", "events", "sum")
        screen.table(columns, [[one[name] for name in columns] for one in found["counts"]])
        for what, why in found["missing"].items():
            screen.tell(f"could not read {what}: {why}")

    def picture(found: dict[str, Any]) -> RenderableType:
        counts = []
        for one in found["counts"]:
            missing = {} if one["complete"] else found["missing"]
            counts.append(Count(one["key"], one["events"], 0, (), one["as_of"], missing))
        return view.picture((counts, 0)) if counts else Text("no keys")

    return Watch(
        screen,
        made.effects,
        COUNTS_MS,
        lambda: board.read(of, made.effects.now()),
        show,
        picture,
        lambda _: f", {units():,.0f} read units a minute",
    ).until_ended()
