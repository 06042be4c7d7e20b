"""The protocol as a model whose states are all looked at (README.md)."""
