"""What Lambda does: sandboxes, event sources, schedules, metrics."""
