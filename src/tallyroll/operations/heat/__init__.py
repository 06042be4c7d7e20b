"""Heat on the operator's side: shards that keys are to have, and tables that take more at once."""
