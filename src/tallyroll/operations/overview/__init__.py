"""What a view of a whole pipeline shows: the largest keys, windows, letters, what holds a key."""
