"""Whether a DynamoDB endpoint keeps what exactness needs."""
