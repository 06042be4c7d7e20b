"""Reads over ranges of windows: an event by its date, events, the largest keys, all keys."""
