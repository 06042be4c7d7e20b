"""The stores on which a pipeline is simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.simulation.columns.marking import COLUMN_MARKS
from tests.simulation.columns.planted import PLANTED as PLANTED_IN_COLUMNS
from tests.simulation.columns.system import simulate_columns
from tests.simulation.logs.planted import PLANTED as PLANTED_IN_LOGS
from tests.simulation.logs.system import simulate_logs
from tests.simulation.marks import MARKS
from tests.simulation.pipeline import Result, simulate
from tests.simulation.planted import PLANTED, Planted
from tests.simulation.rows.marking import ALL_MARKS
from tests.simulation.rows.planted import PLANTED as PLANTED_IN_ROWS
from tests.simulation.rows.system import simulate_rows

DYNAMODB = "dynamodb"


@dataclass(frozen=True, slots=True)
class Mode:
    """How a seed is run on a store, which bugs are planted there, and which marks are met."""

    simulate: Callable[..., Result]
    planted: Sequence[Planted]
    marks: Mapping[str, str]


MODES: Mapping[str, Mode] = {
    DYNAMODB: Mode(simulate, PLANTED, MARKS),
    "parquet": Mode(simulate_columns, PLANTED_IN_COLUMNS, COLUMN_MARKS),
    "logs": Mode(simulate_logs, PLANTED_IN_LOGS, MARKS),
    "rows": Mode(simulate_rows, PLANTED_IN_ROWS, ALL_MARKS),
}
