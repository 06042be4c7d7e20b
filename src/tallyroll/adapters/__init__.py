"""Adapters of the ports: on AWS, in memory, on files."""
