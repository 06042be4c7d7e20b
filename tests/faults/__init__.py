"""Faults at the one door to AWS: a seeded injector, crashes and stalls, and the matrix of both."""
