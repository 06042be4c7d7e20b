"""The ports on DynamoDB."""
