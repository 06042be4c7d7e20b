"""What operators need of DynamoDB, and functions do not."""
