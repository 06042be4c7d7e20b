"""Windows exported, proven and verified."""
