"""The ports on real services, in memory and on files."""
