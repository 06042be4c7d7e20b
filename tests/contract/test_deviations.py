from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.deviations import DEVIATIONS


@pytest.mark.parametrize(("deviating", "test"), DEVIATIONS)
def test_a_known_deviation_is_of_a_test_that_all_engines_run(deviating: str, test: str) -> None:
    sources = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    assert deviating in {"memory", "moto", "dynamodb-local", "cassandra"}
    assert sum(f"def {test}(engine: Engine)" in source for source in sources) == 1
