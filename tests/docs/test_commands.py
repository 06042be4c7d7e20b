"""Every command that a reader is told to run would be accepted."""

from __future__ import annotations

import ast

import pytest

from tests.docs.aws_commands import CommandRefused
from tests.docs.commands import Command, check, in_code, in_documents, texts_of

COMMANDS = list(dict.fromkeys([*in_documents(), *in_code()]))


def test_each_command_would_be_accepted() -> None:
    refused: list[str] = []
    for command in COMMANDS:
        try:
            check(command)
        except CommandRefused as error:
            refused.append(f"{command}: {error}")
    assert refused == []


def test_commands_are_found_wherever_they_are() -> None:
    aws = {command.place.split(":")[0] for command in COMMANDS if command.words[0] == "aws"}
    own = {command.place.split(":")[0] for command in COMMANDS if command.words[0] != "aws"}

    assert {"operations.md", "deploy.md", "messages.md"} <= aws
    assert {"operations/doctor/table_checks.py", "cli/teardown.py"} <= aws
    assert {"cli-help.md", "operations.md", "README.md", "deploy.md", "start-on-call.md"} <= own


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("aws dynamo list-tables", "no service 'dynamo'"),
        ("aws s3 create-bucket --bucket BUCKET", "no service 's3'"),
        ("aws dynamodb drop-table --table-name T", "no operation 'drop-table'"),
        ("aws dynamodb delete-table", 'Missing required parameter in input: "TableName"'),
        ("aws dynamodb delete-table --table T", "no option --table"),
        ("aws dynamodb delete-table --table-name", r"has the words \[\]"),
        ("aws dynamodb delete-table --table-name T --table-name U", "given twice"),
        ("aws dynamodb list-backups --backup-type ALWAYS", "none of"),
        ("aws dynamodb tag-resource --resource-arn ARN-OF-IT --tags Key=a", '"Value"'),
        ("aws dynamodb tag-resource --resource-arn ARN-OF-IT --tags a", "not of the form"),
        ("aws dynamodb wait table-there --table-name T", "no waiter"),
        ("aws sqs set-queue-attributes --queue-url URL --attributes Retention=1", "none of"),
        ("aws cloudformation deploy --stack-name votes", "--template-file"),
        ("tallyroll events", "KEY requires an argument"),
        ("tallyroll count k --sinse -1h", "--sinse"),
        ("tallyroll windows", "no such command"),
        ("tallyroll recount", "recount"),
    ],
)
def test_a_wrong_command_is_refused(line: str, reason: str) -> None:
    with pytest.raises(CommandRefused, match=reason):
        check(Command("here", tuple(line.split())))


@pytest.mark.parametrize(
    "line",
    [
        "aws dynamodb wait table-exists --table-name T",
        "aws dynamodb update-table --table-name T --no-deletion-protection-enabled --region R",
        "aws dynamodb tag-resource --resource-arn ARN-OF-IT --tags Key=a,Value=b Key=c,Value=d",
        'aws sqs set-queue-attributes --queue-url URL --attributes {"DelaySeconds":"1"}',
        "tallyroll --name votes count k --since -1h --json",
    ],
)
def test_a_right_command_is_accepted(line: str) -> None:
    check(Command("here", tuple(line.split())))


def test_a_sentence_may_name_a_command_without_its_arguments() -> None:
    for words in (("count",), ("--name", "N", "top"), ("windows",), ("dlq", "delete")):
        check(Command("here", ("tallyroll", *words), within=True))
    with pytest.raises(CommandRefused):
        check(Command("here", ("tallyroll", "count", "--wide"), within=True))


def test_texts_that_are_put_together_are_read_as_one() -> None:
    source = 'tell("a `aws x" + f" --y {z.name}" " --w {w}`.", k=["b"])'
    assert list(texts_of(ast.parse(source))) == ["a `aws x --y X --w X`.", "b"]
