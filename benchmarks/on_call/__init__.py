"""The catalogue of faults that `tallyroll doctor` must name, and how to plant them."""
