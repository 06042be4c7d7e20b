"""Ways to count events of hot keys in DynamoDB, side by side under the same faults."""
