"""The ports on SQS, S3, CloudWatch and Lambda."""
