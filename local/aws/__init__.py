"""An embedded AWS: engines, their processes, and what they lack."""
