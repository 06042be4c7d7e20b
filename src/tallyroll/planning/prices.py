"""AWS's prices in US dollars, the only place of this repository that has any.

Of us-east-1, as of AS_OF, on demand, without free tiers and discounts. Sources: AWS's pages "Amazon
DynamoDB pricing", "AWS Lambda pricing", "Amazon SQS pricing", "Amazon S3 pricing", "Amazon
CloudWatch pricing" and "Amazon API Gateway pricing"; of the overhead of an item DynamoDB Developer
Guide, "DynamoDB item sizes and formats"; of a REST API's requests AWS's whitepaper "Best Practices
for Designing Amazon API Gateway Private APIs and Private Integration", "Cost optimization".
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
ITEM_OVERHEAD_BYTES = 100  # charged for each stored item, beside its own bytes
RECOVERY_GB_MONTH = 0.20  # point-in-time recovery
# Warm throughput, once for each table, for the units above what a new table has anyway, which is
# free (DynamoDB Developer Guide, "Understanding DynamoDB warm throughput", as of AS_OF). A unit's
# price is taken to be that of a provisioned write unit for an hour. The guide refers to the page
# "Amazon DynamoDB pricing" for it, which was not read again: look there before you rely on it.
PROVISIONED_WRITE_UNIT_HOUR = 0.00065
WARM_WRITE_UNIT = PROVISIONED_WRITE_UNIT_HOUR
WARM_ASSUMED = "the price of a warm unit is an assumption that no bill has confirmed"

# SQS, Lambda, S3, API Gateway's HTTP API and REST API
SQS_REQUEST = 0.40 / MILLION  # each 64 KB of a request is one
LAMBDA_REQUEST = 0.20 / MILLION
LAMBDA_GB_SECOND = 0.0000133334  # arm64
ARCHIVE_GB_MONTH = 0.023  # S3 Standard
API_REQUEST = 1.00 / MILLION
REST_API_REQUEST = 3.50 / MILLION  # of the first 333 million in a month

# CloudWatch, a month
COMPOSITE_ALARM_MONTH = 0.50
ALARM_MONTH, METRIC_MONTH, DASHBOARD_MONTH = 0.10, 0.30, 3.00
