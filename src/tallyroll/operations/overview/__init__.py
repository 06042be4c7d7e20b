"""What a view of a whole pipeline shows: how far it is, the largest keys, dead letters."""
