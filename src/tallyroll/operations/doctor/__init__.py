"""Checks of a pipeline's invariants."""
