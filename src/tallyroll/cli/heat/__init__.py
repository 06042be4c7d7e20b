"""`tallyroll keys`, and `tallyroll windows warm`."""
