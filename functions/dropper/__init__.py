"""The dropper function."""
