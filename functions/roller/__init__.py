"""The roller function."""
