"""Benchmarks: commands that print tables, never timed tests."""
