"""The life of windows: from creation to the drop of their tables."""
