"""Where a policy contradicts AWS's reference with a reason. This is the one list of exceptions."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.infra.oracle import Finding, Problem


@dataclass(frozen=True)
class Argued:
    """Findings of one problem that are right, of each of the actions with a subject like this one.
    `source` is the title of AWS's document that says otherwise than the reference.
    """

    problem: Problem
    actions: tuple[str, ...]
    subject: str
    source: str
    why: str

    def covers(self, found: Finding) -> bool:
        """Whether this is about a finding."""
        about = found.problem is self.problem and found.action in self.actions
        return about and fnmatchcase(found.subject, self.subject)


_OF_INTERFACES = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:UnassignPrivateIpAddresses",
)
_OF_LOGS = (
    'CloudWatch Logs User Guide, "Encrypt log data in CloudWatch Logs using AWS Key Management'
    ' Service"'
)
ARGUED = (
    Argued(
        Problem.OPERATOR,
        ("dynamodb:PutItem", "dynamodb:UpdateItem"),
        "ForAnyValue:StringEquals dynamodb:EnclosingOperation",
        'DynamoDB Developer Guide, "Using IAM with DynamoDB transactions"',
        "The reference has one value for the key. Examples 2 and 3 of the guide use ForAnyValue,"
        " which matches one value, too, and never a request without the key.",
    ),
    Argued(
        Problem.KEY,
        ("kms:DescribeKey",),
        "kms:EncryptionContext:aws:logs:arn",
        _OF_LOGS,
        "The guide's policy has this action under this condition. By the reference no request for"
        " it has the key, so this allows nothing, and harms nothing.",
    ),
    Argued(
        Problem.OPERATOR,
        ("kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"),
        "ArnEquals kms:EncryptionContext:aws:logs:arn",
        _OF_LOGS,
        "To the reference an encryption context is a text. The guide's policy compares this one, a"
        " log group's ARN, by ArnEquals.",
    ),
    Argued(
        Problem.WIDE,
        ("cloudwatch:DescribeAlarms",),
        "*",
        'CloudWatch API Reference, "DescribeAlarms"',
        "The reference lists alarms. Composite alarms, as the pages are, are told only to a"
        " permission on all.",
    ),
    Argued(
        Problem.RESOURCE,
        ("lambda:InvokeFunction",),
        "arn:aws:lambda:*:function:*:*",
        'Lambda Developer Guide, "Fine-tuning the Resources and Conditions sections of policies"',
        "The reference lists functions. By the guide an action on a function can be restricted to a"
        " version or an alias, by their ARNs.",
    ),
    Argued(
        Problem.WIDE,
        ("servicequotas:GetServiceQuota",),
        "*",
        'AWS Managed Policy Reference, "ServiceQuotasReadOnlyAccess"',
        "The reference lists a quota as a resource that need not be there. AWS's own policy allows"
        " this read on all of them, and a quota's value is no secret.",
    ),
    Argued(
        Problem.WIDE,
        _OF_INTERFACES,
        "*",
        'Lambda Developer Guide, "Giving Lambda functions access to resources in an Amazon VPC"',
        "Lambda makes the interfaces, with ids that nobody knows before. The guide's policy allows"
        " these actions on all resources. A denial keeps them from the function's own code.",
    ),
    Argued(
        Problem.KEY,
        (*_OF_INTERFACES, "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"),
        "lambda:SourceFunctionArn",
        'Lambda Developer Guide, "Using source function ARN to control function access behavior"',
        "Lambda adds the key to each request that a function's code makes, of any service. The"
        " reference lists it among Lambda's keys alone.",
    ),
)
