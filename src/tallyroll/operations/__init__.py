"""The operator's use cases: doctor, probe, redrive, backfill, restore, teardown."""
