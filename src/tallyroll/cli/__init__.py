"""The command `tallyroll`."""
