"""A pipeline in an account for trials on AWS, tried from the first event to the dropped table."""
