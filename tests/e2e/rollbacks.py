"""What moto's CloudFormation lacks of failed creations: rollback, and import of what stayed.

As the AWS CloudFormation User Guide has it ("DeletionPolicy attribute", "Import AWS resources into
a CloudFormation stack automatically"):

- when a creation fails, what it made is deleted, but for resources with the policy `Retain`;
- a deleted stack leaves what has the policy `Retain` or `RetainExceptOnCreate`;
- a change set with ImportExistingResources takes up tables that are there by their names.
"""

from __future__ import annotations

from typing import Any, ClassVar

from moto.cloudformation.models import ChangeSet, CloudFormationBackend, Stack
from moto.cloudformation.parsing import ResourceMap
from moto.cloudformation.responses import CloudFormationResponse
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.table import Table

_create_resources = Stack.create_resources
_delete_resources = ResourceMap.delete
_create_change_set = CloudFormationResponse.create_change_set
_create_table = Table.create_from_cloudformation_json.__func__  # type: ignore[attr-defined]
_execute_change_set = CloudFormationBackend.execute_change_set
_KEPT = ("Retain", "RetainExceptOnCreate")


def install() -> None:
    """Let moto's CloudFormation behave so, for the rest of this process."""
    replaced: Any = Stack
    replaced.create_resources = _created_or_rolled_back
    replaced = ChangeSet
    replaced.apply = _applied
    replaced = ResourceMap
    replaced.delete = _deleted
    replaced = CloudFormationResponse
    replaced.create_change_set = _change_set_created
    replaced = CloudFormationBackend
    replaced.execute_change_set = _change_set_executed
    replaced = Table
    replaced.create_from_cloudformation_json = classmethod(_table_created)  # type: ignore[arg-type]


class _Creations:
    """Whether the last change set `imports` what is there; the status of each stack whose creation
    `failed`.
    """

    imports = False
    failed: ClassVar[dict[str, str]] = {}


def _created_or_rolled_back(stack: Stack) -> None:
    try:
        _create_resources(stack)
    except Exception as error:  # noqa: BLE001  (whatever a service says)
        stack._add_stack_event("ROLLBACK_IN_PROGRESS", resource_status_reason=str(error))
        try:
            _delete_resources(stack.resource_map)
            stack.status = "ROLLBACK_COMPLETE"
        except Exception as refused:  # noqa: BLE001  (a table with deletion protection, say)
            stack.status = "ROLLBACK_FAILED"
            error = refused
        _Creations.failed[stack.stack_id] = stack.status
        stack._add_stack_event(stack.status, resource_status_reason=str(error))
        # moto creates a resource when it is first looked at, as by an output.
        stack.template_dict["Outputs"] = {}
        stack.resource_map._resource_json_map = {}
        stack.output_map = stack._create_output_map()
        stack.resource_map._resource_json_map = {}


def _applied(change_set: ChangeSet) -> None:
    stack = change_set.stack
    if change_set.change_set_type == "CREATE":
        stack.template = change_set.template
        stack._parse_template()
        stack.resource_map = stack._create_resource_map()
        stack.output_map = stack._create_output_map()
        stack.create_resources()
    else:
        stack.resource_map.update(change_set.template_dict, change_set.parameters)


def _deleted(resources: ResourceMap) -> None:
    for resource in resources._resource_json_map.values():
        if resource.get("DeletionPolicy") in _KEPT:
            resource["DeletionPolicy"] = "Retain"
    _delete_resources(resources)


def _change_set_created(response: CloudFormationResponse) -> Any:
    _Creations.imports = response._get_bool_param("ImportExistingResources", False)
    return _create_change_set(response)


def _change_set_executed(
    backend: CloudFormationBackend, change_set_name: str, stack_name: str | None = None
) -> None:
    _execute_change_set(backend, change_set_name, stack_name)
    for id_, status in _Creations.failed.items():  # moto says that it is complete
        if id_ in backend.stacks:
            backend.stacks[id_].status = status


def _table_created(
    cls: type[Table], name: str, described: Any, account: str, region: str, **others: Any
) -> Table:
    there = dynamodb_backends[account][region].tables.get(name)
    if there is not None and _Creations.imports:
        return there
    table: Table = _create_table(cls, name, described, account, region, **others)
    return table
