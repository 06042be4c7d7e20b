"""Tallyroll on one machine: an embedded AWS and the drivers that call the real handlers."""
