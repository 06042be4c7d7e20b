"""Values: events, records, windows, specs, states, tallies, totals. No I/O."""
