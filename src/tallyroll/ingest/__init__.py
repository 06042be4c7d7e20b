"""The writer: from a batch of queue messages to transactions."""
