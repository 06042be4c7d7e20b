"""What applications hold: events packed and sent."""
