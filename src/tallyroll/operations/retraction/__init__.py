"""Retractions on the operator's side: found, authorized, and seen to take effect."""
