"""The operator's use cases: redrive, backfill, restore, teardown."""
