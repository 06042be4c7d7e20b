"""AWS's prices in US dollars, the only place of this repository that has any.

Of us-east-1, as of AS_OF, on demand, without free tiers and discounts. Sources: AWS's pages "Amazon
DynamoDB pricing", "AWS Lambda pricing", "Amazon SQS pricing", "Amazon S3 pricing", "Amazon
CloudWatch pricing" and "Amazon API Gateway pricing".
"""

from __future__ import annotations

AS_OF = "2026-11"
REGION = "us-east-1"
MILLION = 1_000_000
GB = 10**9

# DynamoDB
WRITE_UNIT = 0.625 / MILLION
READ_UNIT = 0.125 / MILLION
TABLE_GB_MONTH = 0.25
RECOVERY_GB_MONTH = 0.20  # point-in-time recovery
# Warm throughput above a new table's own, once for each table: what provisioned capacity costs an
# hour.
WARM_WRITE_UNIT = 0.00065

# SQS, Lambda, S3, API Gateway's HTTP API
SQS_REQUEST = 0.40 / MILLION  # each 64 KB of a request is one
LAMBDA_REQUEST = 0.20 / MILLION
LAMBDA_GB_SECOND = 0.0000133334  # arm64
ARCHIVE_GB_MONTH = 0.023  # S3 Standard
API_REQUEST = 1.00 / MILLION

# CloudWatch, a month
ALARM_MONTH, METRIC_MONTH, DASHBOARD_MONTH = 0.10, 0.30, 3.00
