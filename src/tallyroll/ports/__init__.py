"""What the core asks of stores, queues, buckets and time, as protocols."""
