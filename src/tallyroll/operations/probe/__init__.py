"""Events sent to a deployment, read while they are counted, and judged."""
