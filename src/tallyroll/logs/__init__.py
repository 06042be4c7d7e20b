"""Logs: plain events of named keys, without a record each, and still once each."""
