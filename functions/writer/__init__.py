"""The writer function."""
