"""A batch of queue messages becomes transactions."""
