"""What plans a pipeline, and simulates its tables."""
