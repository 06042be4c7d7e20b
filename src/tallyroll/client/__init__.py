"""The producer that applications use: packs events and sends them."""
