"""Windows from creation to drop."""
