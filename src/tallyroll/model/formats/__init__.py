"""Formats that values are written in: JSON texts and gzip members; no I/O."""
