"""What `tallyroll load` reads: files, streams and objects in several formats."""
