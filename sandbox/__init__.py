"""A pipeline in a sandbox account on AWS, tried from the first event to the dropped table."""
