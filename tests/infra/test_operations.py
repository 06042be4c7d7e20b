"""What calls need is what AWS's reference has, and no more is said of it than it lacks.

`test_permissions`, `test_grants` and `test_roles` compare it with what is granted.
"""

from __future__ import annotations

import pytest

from tests.faults.sites import all_sites
from tests.infra.calls import TRANSACTION_PARTS
from tests.infra.operations import SERVICES, UNNAMED, UnknownOperationError, needs, operations
from tests.infra.reference import matching


def test_operations_that_the_reference_does_not_name_are_called_and_exist() -> None:
    called = {site.operation for site in all_sites()} | {*TRANSACTION_PARTS}
    for (service, operation), (actions, source) in UNNAMED.items():
        assert not matching(f"{service}:{operation}"), "the reference knows it by now"
        assert operation in operations(service) & called
        assert all(len(matching(action)) == 1 for action in actions)
        assert source
    assert needs("dynamodb", "PutItem") == {"dynamodb:PutItem"}
    for service in SERVICES:
        with pytest.raises(UnknownOperationError):
            needs(service, "PutItems")
