"""The port of an account on AWS.

Sources: AWS STS API Reference, GetCallerIdentity; IAM API Reference, SimulatePrincipalPolicy and
GetRole; AWS Lambda API Reference, GetAccountSettings; DynamoDB API Reference, DescribeLimits;
AWS CDK Developer Guide, "AWS CDK bootstrapping"; AWS
CloudFormation API Reference, DescribeStacks; CloudWatch Logs API Reference, DescribeLogGroups and
DescribeResourcePolicies; Amazon S3 API Reference, HeadBucket and GetBucketVersioning; AWS KMS API
Reference, DescribeKey and GetKeyPolicy; API Gateway API Reference, GetAccount.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tallyroll.adapters.aws.client import Caller
from tallyroll.errors import Missing, Refused
from tallyroll.ports.account import BucketFacts, Concurrency, Identity, KeyFacts, WriteLimits

_NO_STACK = "ValidationError"  # CloudFormation's answer for a name that it does not know
_ROLE = ":assumed-role/"


@dataclass(frozen=True)
class AwsAccount:
    """The account port on AWS; the callers are by service."""

    sts_caller: Caller
    iam_caller: Caller
    lambda_caller: Caller
    dynamodb_caller: Caller
    ssm_caller: Caller
    cloudformation_caller: Caller
    sqs_caller: Caller
    logs_caller: Caller
    s3_caller: Caller
    kms_caller: Caller
    apigateway_caller: Caller
    region: str

    def identity(self) -> Identity:
        found = self.sts_caller.read("GetCallerIdentity")
        return Identity(str(found["Account"]), str(found["Arn"]), self.region)

    def principal(self, identity: Identity) -> str:
        kind = identity.arn.split(":", 5)[-1]
        if kind.startswith("user/"):
            return identity.arn
        if _ROLE not in identity.arn:  # the root, or a federated user
            return ""
        # The session's ARN lacks the role's path.
        role = identity.arn.split("/")[1]
        return str(self.iam_caller.read("GetRole", RoleName=role)["Role"]["Arn"])

    def concurrency(self) -> Concurrency:
        limits = self.lambda_caller.read("GetAccountSettings")["AccountLimit"]
        most = int(limits["ConcurrentExecutions"])
        return Concurrency(most, int(limits.get("UnreservedConcurrentExecutions", most)))

    def write_limits(self) -> WriteLimits:
        found = self.dynamodb_caller.read("DescribeLimits")
        account, table = found["AccountMaxWriteCapacityUnits"], found["TableMaxWriteCapacityUnits"]
        return WriteLimits(int(account), int(table))

    def bootstrap_version(self, qualifier: str) -> int | None:
        name = f"/cdk-bootstrap/{qualifier}/version"
        try:
            found = self.ssm_caller.read("GetParameter", Name=name)
        except Refused as error:
            if error.code == "ParameterNotFound":
                return None
            raise
        return int(found["Parameter"]["Value"])

    def stack_status(self, name: str) -> str | None:
        try:
            found = self.cloudformation_caller.read("DescribeStacks", StackName=name)
        except Refused as error:
            if error.code == _NO_STACK:
                return None
            raise
        return str(found["Stacks"][0]["StackStatus"])

    def queue_url(self, name: str) -> str | None:
        try:
            return str(self.sqs_caller.read("GetQueueUrl", QueueName=name)["QueueUrl"])
        except Missing:
            return None

    def log_groups(self, prefix: str) -> Sequence[str]:
        found: list[str] = []
        more: dict[str, str] = {}
        while True:
            reply = self.logs_caller.read("DescribeLogGroups", logGroupNamePrefix=prefix, **more)
            found += [str(group["logGroupName"]) for group in reply.get("logGroups", ())]
            if not reply.get("nextToken"):
                return found
            more = {"nextToken": reply["nextToken"]}

    def bucket(self, name: str) -> BucketFacts:
        head = self.s3_caller.read("HeadBucket", Bucket=name)
        found = self.s3_caller.read("GetBucketVersioning", Bucket=name)
        region = str(head.get("BucketRegion") or self.region)
        return BucketFacts(region, found.get("Status") == "Enabled")

    def key(self, arn: str) -> KeyFacts:
        found = self.kms_caller.read("DescribeKey", KeyId=arn)["KeyMetadata"]
        kind = (found.get("KeySpec"), found.get("KeyUsage"))
        return KeyFacts(
            region=str(found["Arn"]).split(":")[3],
            state=str(found["KeyState"]),
            symmetric=kind == ("SYMMETRIC_DEFAULT", "ENCRYPT_DECRYPT"),
        )

    def key_policy(self, arn: str) -> str:
        found = self.kms_caller.read("GetKeyPolicy", KeyId=arn, PolicyName="default")
        return str(found["Policy"])

    def api_log_role(self) -> str:
        return str(self.apigateway_caller.read("GetAccount").get("cloudwatchRoleArn") or "")

    def log_policies(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        more: dict[str, str] = {}
        while True:
            reply = self.logs_caller.read("DescribeResourcePolicies", **more)
            for policy in reply.get("resourcePolicies", ()):
                found[str(policy["policyName"])] = str(policy.get("policyDocument", ""))
            if not reply.get("nextToken"):
                return found
            more = {"nextToken": reply["nextToken"]}
