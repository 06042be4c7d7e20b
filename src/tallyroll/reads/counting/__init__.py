"""How counts are read: what a range consists of, and the sums of its parts."""
