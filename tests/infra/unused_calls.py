"""What CloudFormation's handlers may call and no template of ours needs. This is the one list."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unused:
    """Actions of a resource type that are for properties which no template sets.

    Without `properties` the reason is another one, and stands in `why`.
    """

    kind: str
    actions: frozenset[str]
    properties: tuple[str, ...]
    why: str = ""


def _unset(kind: str, properties: str, *actions: str) -> Unused:
    return Unused(f"AWS::{kind}", _named(actions), tuple(properties.split()))


def _never(kind: str, why: str, *actions: str) -> Unused:
    return Unused(f"AWS::{kind}", _named(actions), (), why)


def _named(actions: tuple[str, ...]) -> frozenset[str]:
    """`s3:PutObject GetObject` is two actions of a service."""
    parted = (each.partition(":") for each in actions)
    return frozenset(f"{service}:{name}" for service, _, names in parted for name in names.split())


_KEPT = "Its deletion policy and its update policy are Retain."
_SCALING = "DeregisterScalableTarget DescribeScalableTargets DescribeScalingPolicies"
_SCALED = f"application-autoscaling:{_SCALING} PutScalingPolicy RegisterScalableTarget"
_REGIONS = "MultiRegionResource"
UNUSED = (
    # API Gateway V2 API Reference: an API is imported again by PUT, all else is changed by PATCH.
    # The tags of an API and of a REST API's stage are asked for.
    _unset("ApiGateway::Deployment", "StageDescription", "apigateway:PUT"),
    *(
        _never(
            f"ApiGatewayV2::{part}", "It has no tags, and is changed by PATCH.", "apigateway:PUT"
        )
        for part in ("Authorizer", "Integration", "Route")
    ),
    _unset("ApiGateway::Method", "Integration.Credentials", "iam:PassRole"),
    _unset("ApiGateway::RestApi", "BodyS3Location", "iam:PassRole", "s3:GetObject"),
    _unset("ApiGatewayV2::Api", "BodyS3Location", "s3:getObject"),
    _unset("ApiGatewayV2::Authorizer", "AuthorizerCredentialsArn", "iam:PassRole"),
    _unset("ApiGatewayV2::Integration", "CredentialsArn", "iam:PassRole"),
    _unset("Budgets::Budget", "Budget.BillingViewArn", "billing:GetBillingViewData"),
    _unset(
        "Cassandra::Keyspace",
        "ReplicationSpecification",
        _SCALED,
        f"cassandra:Alter{_REGIONS} Create{_REGIONS} Drop{_REGIONS} Modify Modify{_REGIONS}"
        f" Select{_REGIONS} Tag{_REGIONS} Untag{_REGIONS}",
        "cloudwatch:DeleteAlarms DescribeAlarms PutMetricAlarm",
        "iam:CreateServiceLinkedRole",
    ),
    _unset(
        "Cassandra::Table",
        "AutoScalingSpecifications ReplicaSpecifications BillingMode.ProvisionedThroughput",
        _SCALED,
        f"cassandra:Alter{_REGIONS} Create{_REGIONS} Drop{_REGIONS} Select{_REGIONS}"
        f" Tag{_REGIONS} Untag{_REGIONS}",
        "cloudwatch:DeleteAlarms DescribeAlarms GetMetricData PutMetricAlarm",
        "iam:CreateServiceLinkedRole",
    ),
    _never("Cassandra::Keyspace", _KEPT, "cassandra:Drop"),
    _never("Cassandra::Table", _KEPT, "cassandra:Drop"),
    _unset(
        "CodeDeploy::DeploymentGroup",
        "Deployment OnPremisesInstanceTagFilters OnPremisesTagSet",
        "codedeploy:CreateDeployment GetApplicationRevision RegisterApplicationRevision"
        " RegisterOnPremisesInstance StopDeployment",
    ),
    _unset(
        "DynamoDB::Table",
        "ContributorInsightsSpecification GlobalSecondaryIndexes ImportSourceSpecification"
        " KinesisStreamSpecification ResourcePolicy",
        "dynamodb:AssociateTableReplica BatchWriteItem CreateTableReplica DeleteItem"
        " DeleteResourcePolicy DescribeImport DisableKinesisStreamingDestination"
        " EnableKinesisStreamingDestination GetItem ImportTable PutItem PutResourcePolicy Query"
        " Scan UpdateContributorInsights UpdateItem UpdateKinesisStreamingDestination",
        "iam:CreateServiceLinkedRole",
        "kinesis:DescribeStream PutRecords",
        "logs:CreateLogGroup CreateLogStream DescribeLogGroups DescribeLogStreams PutLogEvents"
        " PutRetentionPolicy",
        "s3:GetObject GetObjectMetadata ListBucket",
    ),
    _never("DynamoDB::Table", _KEPT, "dynamodb:DeleteTable"),
    _never("DynamoDB::Table", "A key is named by its ARN, never by an alias.", "kms:ListAliases"),
    _unset("Events::Rule", "RoleArn", "iam:PassRole"),
    _unset(
        "IAM::Role",
        "Description MaxSessionDuration PermissionsBoundary",
        "iam:DeleteRolePermissionsBoundary PutRolePermissionsBoundary UpdateRole"
        " UpdateRoleDescription",
    ),
    _unset(
        "Lambda::Alias",
        "ProvisionedConcurrencyConfig",
        "lambda:DeleteProvisionedConcurrencyConfig PutProvisionedConcurrencyConfig",
    ),
    _unset(
        "IAM::Policy",
        "Groups Users",
        "iam:DeleteGroupPolicy DeleteUserPolicy GetGroupPolicy GetUserPolicy PutGroupPolicy"
        " PutUserPolicy",
    ),
    _unset("Lambda::EventSourceMapping", "KmsKeyArn", "kms:Decrypt DescribeKey GenerateDataKey"),
    _unset(
        "Lambda::Function",
        "CapacityProviderConfig Code.S3ObjectVersion CodeSigningConfigArn FileSystemConfigs"
        " FunctionScalingConfig PublishToLatestPublished RecursiveLoop RuntimeManagementConfig",
        "elasticfilesystem:DescribeMountTargets",
        "lambda:AssociateRuntimeAlias DeleteFunctionCodeSigningConfig GetCodeSigningConfig"
        " PassCapacityProvider PublishVersion PutFunctionCodeSigningConfig"
        " PutFunctionRecursionConfig PutFunctionScalingConfig PutRuntimeManagementConfig",
        "s3:GetObjectVersion",
        "s3files:ListMountTargets",
    ),
    _unset("Lambda::LayerVersion", "Content.S3ObjectVersion", "s3:GetObjectVersion"),
    _unset(
        "Lambda::Version",
        "FunctionScalingConfig ProvisionedConcurrencyConfig RuntimePolicy",
        "lambda:PutFunctionScalingConfig PutProvisionedConcurrencyConfig"
        " PutRuntimeManagementConfig",
    ),
    _unset(
        "Logs::LogGroup",
        "BearerTokenAuthenticationEnabled DataProtectionPolicy DeletionProtectionEnabled"
        " FieldIndexPolicies LogGroupClass ResourcePolicyDocument",
        "firehose:TagDeliveryStream",
        "logs:CreateLogDelivery DeleteDataProtectionPolicy DeleteIndexPolicy DeleteResourcePolicy"
        " PutBearerTokenAuthentication PutDataProtectionPolicy PutIndexPolicy"
        " PutLogGroupDeletionProtection PutResourcePolicy",
        "s3:REST.PUT.OBJECT",
    ),
    _never("Logs::LogGroup", "It always has a retention.", "logs:DeleteRetentionPolicy"),
    _unset(
        "S3::Bucket",
        "AbacStatus AccelerateConfiguration AccessControl AnalyticsConfigurations"
        " CorsConfiguration IntelligentTieringConfigurations InventoryConfigurations"
        " LoggingConfiguration MetadataConfiguration MetadataTableConfiguration"
        " MetricsConfigurations NotificationConfiguration"
        " OwnershipControls WebsiteConfiguration",
        "s3:CreateBucketMetadataTableConfiguration DeleteBucketAnalyticsConfiguration"
        " DeleteBucketCors DeleteBucketMetadataTableConfiguration"
        " DeleteBucketMetricsConfiguration DeleteBucketWebsite"
        " DeleteObject GetBucketAcl PutAccelerateConfiguration PutAnalyticsConfiguration"
        " PutBucketAbac PutBucketAcl PutBucketCORS PutBucketLogging PutBucketNotification"
        " PutBucketOwnershipControls"
        " PutBucketWebsite PutIntelligentTieringConfiguration PutInventoryConfiguration"
        " PutMetricsConfiguration PutObjectAcl"
        " UpdateBucketMetadataAnnotationTableConfiguration"
        " UpdateBucketMetadataInventoryTableConfiguration"
        " UpdateBucketMetadataJournalTableConfiguration",
        "s3tables:CreateNamespace CreateTable CreateTableBucket GetTable GetTableMetadataLocation"
        " PutTableBucketPolicy PutTableEncryption PutTablePolicy UpdateTableMetadataLocation",
    ),
    _never(
        "S3::Bucket",
        "Service Authorization Reference, S3: there are no such actions. What they are meant for"
        " is allowed by PutEncryptionConfiguration, PutLifecycleConfiguration, PutBucketTagging,"
        " PutReplicationConfiguration, PutBucketObjectLockConfiguration.",
        "s3:DeleteBucketEncryption DeleteBucketLifecycle DeleteBucketReplication"
        " DeleteBucketTagging PutBucketReplication PutObjectLockConfiguration",
    ),
    _unset("SNS::Subscription", "SubscriptionRoleArn", "iam:GetRole PassRole"),
    _never(
        "SNS::Subscription",
        "Topic, protocol and address are never changed: another subscription replaces it.",
        "sns:SetSubscriptionAttributes",
    ),
    _unset(
        "SNS::Topic",
        "DataProtectionPolicy DeliveryStatusLogging Subscription",
        "iam:GetRole PassRole",
        "sns:PutDataProtectionPolicy Subscribe Unsubscribe",
    ),
)
