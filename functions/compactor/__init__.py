"""The compactor function."""
