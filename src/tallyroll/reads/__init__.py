"""Counts, lookups and leaderboards, and their HTTP form."""
