"""What the HTTP API says of itself: its routes and parameters, its types of problems, and the
OpenAPI document that `python -m tests.docs.reference` makes of them.
"""
