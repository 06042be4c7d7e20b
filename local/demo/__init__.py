"""The demo: votes, or events of your own, counted under faults."""
