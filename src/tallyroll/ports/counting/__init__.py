"""What counts are read with, beside catalog, store and totals."""
