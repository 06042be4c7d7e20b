"""Judges a command line of `aws` by botocore's models of the services; none is called."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.model import OperationModel, Shape
from botocore.utils import parse_timestamp
from botocore.validate import ParamValidator

# The options of every command, with the number of their values. Source: AWS CLI Command Reference,
# "aws", and AWS CLI User Guide, "Using the pagination options in the AWS CLI".
_EVERYWHERE = {
    "--region": 1,
    "--profile": 1,
    "--output": 1,
    "--query": 1,
    "--endpoint-url": 1,
    "--max-items": 1,
    "--page-size": 1,
    "--starting-token": 1,
    "--no-cli-pager": 0,
    "--no-paginate": 0,
}
# Parameters that the AWS CLI renames. Source: AWS CLI Command Reference, "sns subscribe".
_RENAMED = {("Subscribe", "Endpoint"): "--notification-endpoint"}
_PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*")


class CommandRefused(Exception):
    """A command line would be refused, with the reason."""


@dataclass(frozen=True)
class _Extra:
    """A command that the AWS CLI adds to the services' operations: the number of its positional
    arguments, its options, and those of them that are required.
    """

    positional: int
    options: tuple[str, ...]
    required: tuple[str, ...] = ()


# Source: AWS CLI Command Reference, at each of these commands; the options that are used here.
_EXTRAS = {
    "s3 cp": _Extra(2, ("--recursive", "--dryrun")),
    "s3 rm": _Extra(1, ("--recursive", "--dryrun")),
    "logs tail": _Extra(1, ("--since", "--filter-pattern", "--follow", "--format")),
    "cloudformation deploy": _Extra(
        0,
        (
            "--template-file",
            "--stack-name",
            "--s3-bucket",
            "--capabilities",
            "--parameter-overrides",
        ),
        ("--template-file", "--stack-name"),
    ),
    "sso login": _Extra(0, ()),
}


def check_aws(arguments: list[str]) -> None:
    """Raises CommandRefused unless the AWS CLI would take these arguments."""
    parsed(arguments)


def parsed(arguments: list[str]) -> tuple[str, str, dict[str, Any]]:
    """The service, the method of its client in boto3, and the parameters; the latter two are empty
    for what is no operation. Raises CommandRefused.
    """
    name, operation, *rest = [*arguments, "", ""][: max(2, len(arguments))]
    extra = _EXTRAS.get(f"{name} {operation}")
    if extra:
        _check_extra(extra, rest)
        return name, "", {}
    service = {"s3api": "s3", "s3": "", "deploy": "codedeploy"}.get(name, name)
    if service not in _session().get_available_services():
        raise CommandRefused(f"there is no service {name!r}")
    if operation == "wait":
        model, rest = _of_waiter(service, rest)
    else:
        model = _operation(service, operation)
    given = _parameters(model, _options(rest)[1])
    return service, "" if operation == "wait" else xform_name(model.name), given


@cache
def _session() -> botocore.session.Session:
    return botocore.session.Session()


def _operation(service: str, name: str) -> OperationModel:
    model = _session().get_service_model(service)
    for operation in model.operation_names:
        if xform_name(operation, "-") == name:
            return model.operation_model(operation)
    raise CommandRefused(f"{service} has no operation {name!r}")


def _of_waiter(service: str, rest: list[str]) -> tuple[OperationModel, list[str]]:
    model = _session().get_waiter_model(service)
    for name in model.waiter_names:
        if rest and xform_name(name, "-") == rest[0]:
            operation = model.get_waiter(name).operation
            return _session().get_service_model(service).operation_model(operation), rest[1:]
    raise CommandRefused(f"{service} has no waiter {rest[:1]}")


def _options(words: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The words before the first option, and the words after each option."""
    positional: list[str] = []
    options: dict[str, list[str]] = {}
    values = positional
    for word in words:
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            if option in options:
                raise CommandRefused(f"{option} is given twice")
            values = options[option] = [value] if equals else []
        else:
            values.append(word)
    return positional, options


def _check_extra(extra: _Extra, rest: list[str]) -> None:
    words = [word for word in rest if word not in ("--recursive", "--dryrun", "--follow")]
    positional, options = _options(words)
    unknown = set(options) - {*extra.options, *_EVERYWHERE}
    missing = set(extra.required) - set(options)
    if unknown or missing or len(positional) != extra.positional:
        raise CommandRefused(f"unknown {unknown}, missing {missing}, arguments {positional}")


def _parameters(model: OperationModel, options: Mapping[str, list[str]]) -> dict[str, Any]:
    shape = model.input_shape
    members = shape.members if shape else {}
    known = {
        _RENAMED.get((model.name, member), f"--{xform_name(member, '-')}"): member
        for member in members
    }
    given: dict[str, Any] = {}
    for option, words in options.items():
        positive = option.replace("--no-", "--", 1)
        if option in known:
            given[known[option]] = _value(members[known[option]], words)
        elif positive in known and members[known[positive]].type_name == "boolean":
            given[known[positive]] = False
        elif len(words) != _EVERYWHERE.get(option, -1):
            raise CommandRefused(f"{model.name} has no option {option} {words}")
    if shape:
        report = ParamValidator().validate(given, shape)
        if report.has_errors():
            raise CommandRefused(report.generate_report())
        for member, value in given.items():
            _check_enums(members[member], value)
    return given


def _value(shape: Shape, words: list[str]) -> Any:
    """What the words after an option mean. Raises CommandRefused if they mean nothing."""
    kind = shape.type_name
    if kind == "boolean" and not words:
        return True
    if not words or (kind != "list" and len(words) > 1):
        raise CommandRefused(f"a {kind} has the words {words}")
    [first, *_] = words
    if kind in ("list", "structure", "map"):
        if first[0] in "[{":
            return json.loads(first)
        if kind == "list":
            return [_value(shape.member, [word]) for word in words]  # type: ignore[attr-defined]
        return _shorthand(shape, first)
    if kind == "timestamp":
        return datetime.now(UTC) if _PLACEHOLDER.fullmatch(first) else parse_timestamp(first)
    if kind in ("integer", "long"):
        return int(first)
    if kind in ("double", "float"):
        return 1.0 if _PLACEHOLDER.fullmatch(first) else float(first)
    if re.search(r"\b[A-Z]", first):  # a name that stands for a longer one
        first = first.ljust(int(shape.metadata.get("min", 0)), "X")
    return first.encode() if kind == "blob" else first


def _shorthand(shape: Shape, text: str) -> dict[str, Any]:
    """`Key=a,Value=b`. Source: AWS CLI User Guide, "Using shorthand syntax in the AWS CLI"."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals:
            raise CommandRefused(f"{part!r} is not of the form Key=value")
        member = shape.value if shape.type_name == "map" else shape.members.get(key)  # type: ignore[attr-defined]
        boolean = member is not None and member.type_name == "boolean"
        found[key] = {"true": True, "false": False}.get(value) if boolean else value
    return found


def _check_enums(shape: Shape, value: Any) -> None:
    kind = shape.type_name
    if kind == "list":
        for each in value:
            _check_enums(shape.member, each)  # type: ignore[attr-defined]
    elif kind == "structure":
        for name, each in value.items():
            _check_enums(shape.members[name], each)  # type: ignore[attr-defined]
    elif kind == "map":
        for name, each in value.items():
            _check_enums(shape.key, name)  # type: ignore[attr-defined]
            _check_enums(shape.value, each)  # type: ignore[attr-defined]
    elif kind == "string" and shape.enum and value not in shape.enum:  # type: ignore[attr-defined]
        raise CommandRefused(f"{value!r} is none of {shape.enum}")  # type: ignore[attr-defined]
