"""Archives as Parquet: a row an event, and beside it what a restore needs."""
