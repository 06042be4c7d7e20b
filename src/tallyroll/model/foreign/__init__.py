"""Messages in other forms than Tallyroll's own: their envelopes, and the mapping of fields."""
