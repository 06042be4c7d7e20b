"""Exports windows to archives, proves and verifies them."""
