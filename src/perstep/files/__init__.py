"""Files that are complete or absent: arrays and JSON with checksums, locks, when to save. Never pickle."""
