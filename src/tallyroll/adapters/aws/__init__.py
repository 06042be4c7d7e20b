"""SQS, S3, CloudWatch and Lambda."""
