"""An index of an archive: by it one event is read, and not the whole archive."""
