"""Probes a deployment: sends events, reads them while they are counted, judges the reads."""
