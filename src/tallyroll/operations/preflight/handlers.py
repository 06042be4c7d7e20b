"""The calls by which CloudFormation makes, reads, changes and deletes what a template has.

They are those of CloudFormation's own resource schemas, all of their handlers but the list's, but
for what no template of ours uses; a read is whole, since a handler reads also what is not set. API
Gateway's for an access log and for tags are added, and the read of the parameter by which a
template of the CDK knows its bootstrap. What has the deletion policy `Retain` is never deleted.
`tests/infra/test_stack_calls.py` compares the types with synthesized templates, and the actions
with the schemas; `tests/infra/unused_calls.py` says what is left out, and why.

Sources: AWS CloudFormation CLI User Guide, "Resource type schema", at `handlers` and `tagging`; API
Gateway Developer Guide, "Configure logging for HTTP APIs in API Gateway", its permissions; AWS
CloudFormation User Guide, "Specify existing resources at runtime with CloudFormation-supplied
parameter types", at Systems Manager's parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallyroll.ports.stack import ANY

Calls = Mapping[str, Sequence[str]]
"""Actions by what they are for, a key of `places`."""


def _of(service: str, names: str) -> Sequence[str]:
    return tuple(f"{service}:{name}" for name in names.split())


_PASS = ("iam:PassRole",)
_REST = _of("apigateway", "DELETE GET PATCH")
_TAGS = "ListTagsForResource TagResource UntagResource"
CALLS: Mapping[str, Calls] = {
    "AWS::ApiGateway::Account": {
        "api account": _of("apigateway", "GET PATCH"),
        "role": ("iam:GetRole", *_PASS),
    },
    "AWS::ApiGateway::Deployment": {"rest deployments": _of("apigateway", "DELETE GET PATCH POST")},
    "AWS::ApiGateway::Method": {"rest methods": _of("apigateway", "DELETE GET PUT")},
    "AWS::ApiGateway::Resource": {"rest resources": _of("apigateway", "DELETE GET PATCH POST")},
    "AWS::ApiGateway::RestApi": {
        "rest apis": ("apigateway:POST",),
        "rest api": (*_REST, "apigateway:UpdateRestApiPolicy"),
        "api tags": _of("apigateway", "DELETE PUT"),
    },
    "AWS::ApiGateway::Stage": {
        "rest stages": _of("apigateway", "DELETE GET PATCH POST"),
        "api tags": _of("apigateway", "DELETE PUT"),
    },
    "AWS::ApiGatewayV2::Api": {
        "http apis": ("apigateway:POST",),
        "http api": _REST,
        "api tags": _of("apigateway", "DELETE POST PUT"),
    },
    "AWS::ApiGatewayV2::Authorizer": {
        "http authorizers": _of("apigateway", "DELETE GET PATCH POST")
    },
    "AWS::ApiGatewayV2::Integration": {
        "http integrations": _of("apigateway", "DELETE GET PATCH POST")
    },
    "AWS::ApiGatewayV2::Route": {"http routes": _of("apigateway", "DELETE GET PATCH POST")},
    "AWS::ApiGatewayV2::Stage": {
        "http stages": _of("apigateway", "DELETE GET PATCH POST TagResource UntagResource"),
        ANY: _of(
            "logs",
            "CreateLogDelivery DeleteLogDelivery DescribeResourcePolicies GetLogDelivery"
            " ListLogDeliveries PutResourcePolicy UpdateLogDelivery",
        ),
    },
    "AWS::Budgets::Budget": {"budget": _of("budgets", f"ModifyBudget ViewBudget {_TAGS}")},
    "AWS::CE::AnomalyMonitor": {
        ANY: ("ce:CreateAnomalyMonitor",),
        "monitor": _of(
            "ce",
            "DeleteAnomalyMonitor GetAnomalyMonitors ListTagsForResource TagResource"
            " UpdateAnomalyMonitor",
        ),
    },
    "AWS::CE::AnomalySubscription": {
        ANY: ("ce:CreateAnomalySubscription",),
        "anomalies": _of(
            "ce",
            "DeleteAnomalySubscription GetAnomalySubscriptions ListTagsForResource TagResource"
            " UpdateAnomalySubscription",
        ),
    },
    "AWS::Cassandra::Keyspace": {
        "keyspace": _of("cassandra", "Alter Create TagResource UntagResource"),
        "keyspace table": ("cassandra:Select",),
    },
    "AWS::Cassandra::Table": {
        "keyspace table": _of("cassandra", "Alter Create Select TagResource UntagResource")
    },
    "AWS::CloudWatch::Alarm": {
        "alarm": _of("cloudwatch", f"DeleteAlarms DescribeAlarms PutMetricAlarm {_TAGS}")
    },
    "AWS::CloudWatch::CompositeAlarm": {
        "alarm": _of("cloudwatch", f"DeleteAlarms DescribeAlarms PutCompositeAlarm {_TAGS}")
    },
    "AWS::CloudWatch::Dashboard": {
        "dashboard": _of("cloudwatch", f"DeleteDashboards GetDashboard PutDashboard {_TAGS}")
    },
    "AWS::CodeDeploy::Application": {
        "application": _of(
            "codedeploy", f"CreateApplication DeleteApplication GetApplication {_TAGS}"
        )
    },
    "AWS::CodeDeploy::DeploymentGroup": {
        "deployment config": ("codedeploy:GetDeploymentConfig",),
        "deployment group": _of(
            "codedeploy",
            "CreateDeploymentGroup DeleteDeploymentGroup GetDeployment GetDeploymentGroup"
            f" ListDeployments UpdateDeploymentGroup {_TAGS}",
        ),
        "role": _PASS,
    },
    "AWS::DynamoDB::Table": {
        "table": _of(
            "dynamodb",
            "CreateTable DescribeContinuousBackups DescribeContributorInsights"
            " DescribeKinesisStreamingDestination DescribeTable DescribeTimeToLive"
            " GetResourcePolicy ListTagsOfResource TagResource UntagResource"
            " UpdateContinuousBackups UpdateTable",
        )
    },
    "AWS::Events::Rule": {
        "rule": _of(
            "events",
            f"DeleteRule DescribeRule ListTargetsByRule PutRule PutTargets RemoveTargets {_TAGS}",
        )
    },
    "AWS::IAM::Policy": {"role": _of("iam", "DeleteRolePolicy GetRolePolicy PutRolePolicy")},
    "AWS::IAM::Role": {
        "role": _of(
            "iam",
            "CreateRole DeleteRole DeleteRolePolicy GetRole GetRolePolicy ListAttachedRolePolicies"
            " ListRolePolicies ListRoleTags PutRolePolicy TagRole UntagRole"
            " UpdateAssumeRolePolicy",
        )
    },
    "AWS::Lambda::Alias": {
        "function": _of("lambda", "CreateAlias DeleteAlias GetAlias UpdateAlias"),
        "function version": ("lambda:GetProvisionedConcurrencyConfig",),
    },
    "AWS::Lambda::EventInvokeConfig": {
        "function": _of(
            "lambda",
            "DeleteFunctionEventInvokeConfig GetFunctionEventInvokeConfig"
            " PutFunctionEventInvokeConfig UpdateFunctionEventInvokeConfig",
        )
    },
    "AWS::Lambda::EventSourceMapping": {
        ANY: ("lambda:CreateEventSourceMapping",),
        "mapping": _of(
            "lambda",
            "DeleteEventSourceMapping GetEventSourceMapping ListTags TagResource UntagResource"
            " UpdateEventSourceMapping",
        ),
    },
    "AWS::Lambda::Function": {
        "asset": ("s3:GetObject",),
        "function": _of(
            "lambda",
            "CreateFunction DeleteFunction GetFunction GetFunctionCodeSigningConfig"
            " GetFunctionRecursionConfig GetFunctionScalingConfig GetRuntimeManagementConfig"
            " ListTags TagResource UntagResource UpdateFunctionCode UpdateFunctionConfiguration",
        ),
        "role": _PASS,
    },
    "AWS::Lambda::LayerVersion": {
        "asset": ("s3:GetObject",),
        "layer": ("lambda:PublishLayerVersion",),
        "layer version": _of("lambda", "DeleteLayerVersion GetLayerVersion"),
    },
    "AWS::Lambda::Permission": {
        "function": _of("lambda", "AddPermission GetPolicy RemovePermission")
    },
    "AWS::Lambda::Version": {
        "function": _of(
            "lambda",
            "DeleteFunction GetFunctionConfiguration GetFunctionScalingConfig"
            " GetRuntimeManagementConfig ListVersionsByFunction PublishVersion",
        ),
        "function version": ("lambda:GetProvisionedConcurrencyConfig",),
    },
    "AWS::Logs::LogGroup": {
        ANY: _of("logs", "DescribeIndexPolicies DescribeLogGroups DescribeResourcePolicies"),
        "log group": _of(
            "logs",
            f"CreateLogGroup DeleteLogGroup GetDataProtectionPolicy PutRetentionPolicy {_TAGS}",
        ),
    },
    "AWS::S3::Bucket": {
        "bucket": _of(
            "s3",
            "CreateBucket DeleteBucket GetAccelerateConfiguration GetAnalyticsConfiguration"
            " GetBucketAbac GetBucketCORS GetBucketLogging GetBucketMetadataTableConfiguration"
            " GetBucketNotification GetBucketObjectLockConfiguration GetBucketOwnershipControls"
            " GetBucketPublicAccessBlock GetBucketTagging GetBucketVersioning GetBucketWebsite"
            " GetEncryptionConfiguration GetIntelligentTieringConfiguration"
            " GetInventoryConfiguration GetLifecycleConfiguration GetMetricsConfiguration"
            " GetReplicationConfiguration ListBucket PutBucketPublicAccessBlock PutBucketTagging"
            f" PutBucketVersioning PutEncryptionConfiguration PutLifecycleConfiguration {_TAGS}",
        )
    },
    "AWS::S3::BucketPolicy": {
        "bucket": _of("s3", "DeleteBucketPolicy GetBucketPolicy PutBucketPolicy")
    },
    "AWS::SNS::Subscription": {
        "topic": _of("sns", "GetSubscriptionAttributes Subscribe Unsubscribe")
    },
    "AWS::SNS::Topic": {
        "topic": _of(
            "sns",
            "CreateTopic DeleteTopic GetDataProtectionPolicy GetTopicAttributes"
            f" ListSubscriptionsByTopic SetTopicAttributes {_TAGS}",
        )
    },
    "AWS::SNS::TopicPolicy": {"topic": ("sns:SetTopicAttributes",)},
    "AWS::SQS::Queue": {
        "queue": _of(
            "sqs",
            "CreateQueue DeleteQueue GetQueueAttributes GetQueueUrl ListQueueTags"
            " SetQueueAttributes TagQueue UntagQueue",
        )
    },
    "AWS::SQS::QueuePolicy": {"queue": ("sqs:SetQueueAttributes",)},
    "AWS::SSM::Parameter::Value<String>": {"bootstrap version": ("ssm:GetParameters",)},
    "AWS::Scheduler::Schedule": {
        "role": _PASS,
        "schedule": _of("scheduler", "CreateSchedule DeleteSchedule GetSchedule UpdateSchedule"),
    },
    "Custom::ApiGatewayLogRole": {"function": ("lambda:InvokeFunction",)},
}
"""The calls by type of the template's resources, and of its one parameter."""

# What some types need besides, by an option.
KEYED: Mapping[str, Calls] = {
    "AWS::Cassandra::Table": {"key": _of("kms", "CreateGrant Decrypt DescribeKey Encrypt")},
    "AWS::DynamoDB::Table": {
        "key": _of("kms", "CreateGrant Decrypt DescribeKey Encrypt RevokeGrant")
    },
    "AWS::Lambda::Function": {
        "key": _of("kms", "CreateGrant Decrypt DescribeKey Encrypt GenerateDataKey")
    },
    "AWS::Logs::LogGroup": {"log group": _of("logs", "AssociateKmsKey DisassociateKmsKey")},
}
IN_VPC: Mapping[str, Calls] = {
    "AWS::Lambda::Function": {
        ANY: _of(
            "ec2", "DescribeNetworkInterfaces DescribeSecurityGroups DescribeSubnets DescribeVpcs"
        )
    }
}
EXPIRING: Mapping[str, Calls] = {"AWS::DynamoDB::Table": {"table": ("dynamodb:UpdateTimeToLive",)}}
RESERVED: Mapping[str, Calls] = {
    "AWS::Lambda::Function": {
        "function": _of("lambda", "DeleteFunctionConcurrency PutFunctionConcurrency")
    }
}
MANAGED: Mapping[str, Calls] = {
    "AWS::IAM::Role": {"role": _of("iam", "AttachRolePolicy DetachRolePolicy")}
}
LOCKED: Mapping[str, Calls] = {
    "AWS::S3::Bucket": {"bucket": ("s3:PutBucketObjectLockConfiguration",)}
}
COPIED: Mapping[str, Calls] = {
    "AWS::S3::Bucket": {
        "bucket": ("s3:PutReplicationConfiguration",),
        "role": ("iam:PassRole",),
    }
}
LAYERED: Mapping[str, Calls] = {
    "AWS::Lambda::Function": {"layer version": ("lambda:GetLayerVersion",)}
}
MOVED: Mapping[str, Calls] = {
    "AWS::Lambda::Alias": {
        ANY: ("codedeploy:StopDeployment",),
        "deployment config": ("codedeploy:GetDeploymentConfig",),
        "deployment group": _of("codedeploy", "CreateDeployment GetDeployment GetDeploymentGroup"),
    }
}
