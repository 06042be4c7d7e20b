"""The aggregator function."""
