from __future__ import annotations

import doctest
from dataclasses import replace
from types import ModuleType

import pytest

from tallyroll.model.records import increments_of
from tallyroll.model.states import Status
from tallyroll.ports import catalog, store
from tests.harness.pipeline import opened, record_with


@pytest.mark.parametrize("port", [catalog, store])
def test_the_examples_of_a_port_are_true_of_its_adapter_in_memory(port: ModuleType) -> None:
    pipeline = opened()
    names = {
        "catalog": pipeline.catalog,
        "store": pipeline.store,
        "window": pipeline.state(),
        "spec": pipeline.spec(),
        "record": record_with(),
    }
    given = {"increments_of": increments_of, "replace": replace, "Status": Status}
    result = doctest.testmod(port, extraglobs=names | given)
    assert (result.failed, result.attempted) == (0, 2)
